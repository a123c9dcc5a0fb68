//! Claim: the command line does over REST what the API can do, prints its result on standard output,
//! and tells a script by its exit code how it went.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::app::{GITHUB_SECRETS, Setup, TOKEN, TestApp, client};
use crate::support::database::TestDatabase;
use crate::support::process::{Finished, Running, folder, run, run_in};
use crate::support::reply::Reply;

const NO_ID: &str = "01a22499-f800-7000-8000-000000000000";

/// Runs a command against a service, as its operator.
async fn command(app: &TestApp, arguments: &[&str]) -> Finished {
    let url = app.url("");
    let variables = [
        ("HOOKTRIAGE_URL", url.as_str()),
        ("HOOKTRIAGE_ADMIN_TOKEN", TOKEN),
        ("HOOKTRIAGE_SECRET_GITHUB", GITHUB_SECRETS[0]),
    ];
    run(arguments, &variables).await
}

/// An address at which nobody listens.
async fn nowhere() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn a_healthcheck_tells_by_its_exit_code() {
    let app = Setup::ingest().start().await;
    let well = command(&app, &["healthcheck"]).await;
    assert_eq!((well.code, well.stdout.trim(), well.stderr.as_str()), (0, "ok", ""));
    let ready = command(&app, &["healthcheck", "--ready", "--json"]).await;
    assert_eq!((ready.code, ready.json()["status"].as_str()), (0, Some("ok")));

    app.database.shut().await;
    assert_eq!(command(&app, &["healthcheck"]).await.code, 0);
    let away = command(&app, &["healthcheck", "--ready"]).await;
    assert!(away.code == 1 && away.stderr.contains("database_away"), "{away:?}");

    let waited = command(&app, &["healthcheck", "--ready", "--wait", "1"]).await;
    assert!(waited.code == 1 && waited.stderr.contains("database_away"), "{waited:?}");
    app.database.open().await;
    let back = command(&app, &["healthcheck", "--ready", "--wait", "30"]).await;
    assert_eq!((back.code, back.stdout.trim()), (0, "ok"), "{back:?}");

    let gone = run(&["healthcheck", "--url", &nowhere().await], &[]).await;
    assert!(gone.code == 1 && gone.stderr.contains("nobody answers"), "{gone:?}");
    assert_eq!(gone.stdout, "");
}

#[tokio::test]
async fn a_sample_that_is_sent_becomes_a_job_that_can_be_looked_at() {
    let app = Setup::all().start().await;
    let sent = command(&app, &["send", "github", "--json"]).await;
    assert_eq!((sent.code, &sent.json()["status"]), (0, &200.into()), "{sent:?}");
    assert_eq!(sent.json()["answer"]["status"], "accepted");
    let job_id = sent.json()["answer"]["job_id"].as_str().unwrap().to_owned();
    app.ended(&job_id).await;

    let shown = command(&app, &["jobs", "show", &job_id, "--json"]).await;
    assert_eq!((shown.code, shown.json()), (0, app.job(&job_id).await));
    let shown = command(&app, &["jobs", "show", &job_id]).await;
    for word in [job_id.as_str(), "succeeded", "category", "ATTEMPT"] {
        assert!(shown.stdout.contains(word), "{word} is not in {}", shown.stdout);
    }
    let listed = command(&app, &["jobs", "--json"]).await;
    assert_eq!(listed.json()["items"].as_array().unwrap().len(), 1);
    let listed =
        command(&app, &["jobs", "list", "--state", "succeeded", "--source", "github", "--limit", "5"]).await;
    assert!(listed.code == 0 && listed.stdout.contains(&job_id), "{listed:?}");
    let none = command(&app, &["jobs", "--state", "dead"]).await;
    assert_eq!((none.code, none.stdout.trim()), (0, "no job matches"));
}

#[tokio::test]
async fn a_file_is_sent_as_it_is_and_a_forged_one_is_refused() {
    let app = Setup::ingest().start().await;
    let folder = folder();
    let body = include_bytes!("../fixtures/deliveries/github-issues-opened.json");
    std::fs::write(folder.path().join("body.json"), body).unwrap();
    let url = app.url("");
    let variables = [("HOOKTRIAGE_URL", url.as_str()), ("HOOKTRIAGE_SECRET_GITHUB", GITHUB_SECRETS[1])];
    let send = ["send", "github", "body.json", "--delivery-id", "d-1"];

    let forged = run_in(&folder, &[&send[..], &["--forge"]].concat(), &variables).await;
    assert!(
        forged.code == 1 && forged.stdout.starts_with("401 ") && forged.stderr.contains("401"),
        "{forged:?}"
    );
    assert_eq!(app.count("event").await, 0);

    let first = run_in(&folder, &send, &variables).await;
    assert!(first.code == 0 && first.stdout.contains("accepted"), "{first:?}");
    let again = run_in(&folder, &send, &variables).await;
    assert!(again.code == 0 && again.stdout.contains("duplicate"), "{again:?}");
    let kept: Vec<u8> =
        sqlx::query_scalar("select body from event").fetch_one(app.database.pool()).await.unwrap();
    assert_eq!(kept, body);

    let unknown = run_in(&folder, &["send", "gitlab"], &variables).await;
    assert!(unknown.code == 2 && unknown.stderr.contains("github"), "{unknown:?}");
    let missing = run_in(&folder, &["send", "github", "no-such-file"], &variables).await;
    assert!(missing.code == 1 && missing.stderr.contains("no-such-file"), "{missing:?}");
}

#[tokio::test]
async fn what_is_not_there_and_what_cannot_be_said_have_codes_of_their_own() {
    let app = Setup::ingest().start().await;
    for arguments in
        [["jobs", "show", NO_ID], ["dead-letters", "show", NO_ID], ["dead-letters", "replay", NO_ID]]
    {
        let unknown = command(&app, &arguments).await;
        assert!(unknown.code == 3 && unknown.stderr.contains("There is no such"), "{unknown:?}");
        assert_eq!(unknown.stdout, "");
    }
    for arguments in [
        &["jobs", "--limit", "0"][..],
        &["jobs", "--state", "lost"],
        &["jobs", "show", "7"],
        &["jobs", "--url", "nowhere"],
        &["no-such-command"],
        &["send"],
    ] {
        let wrong = command(&app, arguments).await;
        assert!(wrong.code == 2 && !wrong.stderr.is_empty(), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_wrong_token_is_told_as_such() {
    let app = Setup::ingest().start().await;
    let url = app.url("");
    let wrong = [("HOOKTRIAGE_URL", url.as_str()), ("HOOKTRIAGE_ADMIN_TOKEN", "another_token_0123456789")];
    let refused = run(&["jobs"], &wrong).await;
    assert!(refused.code == 1 && refused.stderr.contains("HOOKTRIAGE_ADMIN_TOKEN"), "{refused:?}");
    assert!(!format!("{refused:?}").contains("another_token"), "{refused:?}");

    let folder = folder();
    std::fs::write(folder.path().join("admin-token"), "").unwrap();
    let data_dir = folder.path().display().to_string();
    let empty = run(&["jobs"], &[("HOOKTRIAGE_URL", &url), ("HOOKTRIAGE_DATA_DIR", &data_dir)]).await;
    assert!(empty.code == 1 && empty.stderr.contains("admin-token"), "{empty:?}");
    std::fs::write(folder.path().join("admin-token"), format!("{TOKEN}\n")).unwrap();
    let kept = run(&["jobs"], &[("HOOKTRIAGE_URL", &url), ("HOOKTRIAGE_DATA_DIR", &data_dir)]).await;
    assert_eq!(kept.code, 0, "{kept:?}");
}

#[tokio::test]
async fn the_schema_is_brought_up_to_date_once() {
    let database = TestDatabase::empty().await;
    let variables = [("DATABASE_URL", database.url())];

    let planned = run(&["migrate", "--dry-run", "--json"], &variables).await;
    let names = planned.json()["migrations"].as_array().unwrap().len();
    assert!(planned.code == 0 && names >= 3, "{planned:?}");
    let applied = run(&["migrate"], &variables).await;
    assert_eq!((applied.code, applied.stdout.matches("applied: ").count()), (0, names), "{applied:?}");
    let again = run(&["migrate"], &variables).await;
    assert_eq!((again.code, again.stdout.trim()), (0, "the schema is up to date"));

    let (mut service, address) =
        Running::serve(&[], &[variables[0], ("HOOKTRIAGE_ADMIN_TOKEN", TOKEN)]).await;
    let ready = Reply::of(client().get(format!("http://{address}/readyz"))).await;
    assert_eq!(ready.status, 200);
    service.stop().await;

    let nowhere = run(&["migrate"], &[]).await;
    assert!(nowhere.code == 2 && nowhere.stderr.contains("DATABASE_URL"), "{nowhere:?}");
}

#[tokio::test]
async fn the_document_can_be_printed_without_a_service() {
    let app = Setup::ingest().start().await;
    let printed = run(&["openapi"], &[]).await;
    let served = Reply::of(app.http.get(app.url("/openapi.json"))).await;
    assert_eq!((printed.code, printed.json()), (0, served.json()));
}

#[tokio::test]
async fn the_simulated_provider_answers_both_dialects() {
    let mut provider = Running::start(&["simulate", "provider", "--listen", "127.0.0.1:0"], &[]);
    let line = provider.says("simulated provider on").await;
    let url = line.rsplit(' ').next().unwrap().to_owned();
    let app = Setup::all().llm("openai", url.clone()).start().await;
    let root = url.strip_suffix("/v1").unwrap().to_owned();
    let other = Setup::all().llm("anthropic", root.clone()).start().await;

    for app in [&app, &other] {
        let job = app.ended(&app.submit("Charged twice", "My invoice was charged twice.").await).await;
        assert_eq!(job["verdict"]["category"], "billing", "{job}");
    }
    let stats: Value = Reply::of(client().get(format!("{root}/_simulator/stats"))).await.json();
    assert_eq!(stats["calls"], 2);
    provider.stop().await;
}

#[tokio::test]
async fn a_service_without_a_token_makes_one_and_the_command_line_finds_it() {
    let (database, folder) = (TestDatabase::new().await, folder());
    let data_dir = folder.path().join("data").display().to_string();
    let variables = [("DATABASE_URL", database.url()), ("HOOKTRIAGE_DATA_DIR", &data_dir)];
    let (mut service, address) = Running::serve(&[], &variables).await;

    let file = std::fs::metadata(folder.path().join("data/admin-token")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let url = format!("http://{address}");
    let listed = run(&["jobs", "--json", "--url", &url], &[("HOOKTRIAGE_DATA_DIR", &data_dir)]).await;
    assert_eq!(listed.code, 0, "{listed:?}");
    let token = std::fs::read_to_string(folder.path().join("data/admin-token")).unwrap();
    service.stop().await;
    assert!(!service.log().contains(token.trim()), "the token is in the log");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let taken = run(&["serve"], &[("HOOKTRIAGE_LISTEN", &address), ("HOOKTRIAGE_ADMIN_TOKEN", TOKEN)]).await;
    assert!(taken.code == 1 && taken.stderr.contains(&address), "{taken:?}");
}
