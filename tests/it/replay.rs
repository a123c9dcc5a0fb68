//! Claim: a dead letter can be replayed once as a new job that names the dead one, alone or by a
//! filter, over REST and from the command line.

use serde_json::{Value, json};

use crate::support::app::{Setup, TOKEN, TestApp};
use crate::support::process::{Finished, run};
use crate::support::provider::{Scripted, classification, openai, openai_error, status};

/// A service with two dead letters of triage and one of a delivery. The guard of a lane takes a
/// third refusal in a row for a fault of its configuration, so there are not more.
struct Mishap {
    app: TestApp,
    provider: Scripted,
    team: Scripted,
    letters: Vec<Value>,
}

async fn mishap() -> Mishap {
    let (good, refused) =
        (openai(&classification("billing")), openai_error(400, "invalid_request_error", None));
    let provider = Scripted::start([good, refused]).await;
    let team = Scripted::start([status(410)]).await;
    let app = Setup::all()
        .llm("openai", provider.url("/v1"))
        .destination("team", &team.url("/"))
        .toml("[routing]\nfallback = \"team\"\n")
        .start()
        .await;
    app.ended(&app.submit("Triaged, but not delivered", "x").await).await;
    let delivery = crate::support::wait::eventually(crate::support::app::SOON, || async {
        app.items("/v1/jobs?queue=routing").await.pop()
    })
    .await;
    app.ended(delivery["job_id"].as_str().unwrap()).await;
    app.ended(&app.submit("Refused", "x").await).await;
    app.ended(&app.send(&app.sample("github", 1)).await.text("/job_id")).await;
    let letters = app.items("/v1/dead-letters").await;
    assert_eq!(letters.len(), 3);
    Mishap { app, provider, team, letters }
}

impl Mishap {
    /// What made the jobs die is gone.
    fn mend(&self) {
        self.provider.answer(openai(&classification("billing")));
        self.team.answer(status(200));
    }

    fn letter(&self, source: &str, queue: &str) -> &Value {
        self.letters.iter().find(|letter| letter["source"] == source && letter["queue"] == queue).unwrap()
    }

    async fn command(&self, arguments: &[&str]) -> Finished {
        let url = self.app.url("");
        run(arguments, &[("HOOKTRIAGE_URL", &url), ("HOOKTRIAGE_ADMIN_TOKEN", TOKEN)]).await
    }

    async fn open_letters(&self) -> usize {
        self.app.items("/v1/dead-letters").await.len()
    }
}

fn id(letter: &Value) -> &str {
    letter["dead_letter_id"].as_str().unwrap()
}

#[tokio::test]
async fn a_replay_is_a_new_job_that_names_the_dead_one() {
    let mishap = mishap().await;
    let (app, letter) = (&mishap.app, mishap.letter("github", "triage"));
    mishap.mend();
    let path = format!("/v1/admin/dead-letters/{}/replay", id(letter));

    let reply = app.post_json(&path, &Value::Null).await;

    assert_eq!((reply.status, reply.json()["dead_letter_id"].as_str()), (202, Some(id(letter))));
    let job_id = reply.text("/job_id");
    assert_eq!(reply.header("location"), Some(format!("/v1/jobs/{job_id}").as_str()));
    let job = app.ended(&job_id).await;
    assert_eq!((&job["state"], &job["replay_of"]), (&"succeeded".into(), &letter["job_id"]), "{job}");
    assert_eq!((&job["ticket_id"], &job["attempts_used"]), (&letter["ticket_id"], &1.into()));
    assert_eq!(job["verdict"]["category"], "billing");
    let dead = app.job(letter["job_id"].as_str().unwrap()).await;
    assert_eq!(
        (&dead["state"], &dead["verdict"]),
        (&"dead".into(), &Value::Null),
        "the old one stays as it was"
    );

    let marked = app.get(&format!("/v1/dead-letters/{}", id(letter))).await.json();
    assert_eq!((&marked["state"], &marked["replayed_job_id"]), (&"replayed".into(), &job["job_id"]));
    assert!(marked["replayed_at"].is_string());
    let again = app.post_json(&path, &Value::Null).await;
    again.is_problem(409, "dead-letter-not-open");
    assert!(again.text("/detail").contains(&job_id));
    assert_eq!(mishap.open_letters().await, 2);
}

#[tokio::test]
async fn a_replay_that_dies_again_has_a_letter_of_its_own() {
    let mishap = mishap().await;
    let (app, letter) = (&mishap.app, mishap.letter("api", "routing").clone());

    let reply = app.post_json(&format!("/v1/admin/dead-letters/{}/replay", id(&letter)), &Value::Null).await;

    let job = app.ended(&reply.text("/job_id")).await;
    assert_eq!((&job["state"], &job["replay_of"]), (&"dead".into(), &letter["job_id"]));
    let second =
        app.get(&format!("/v1/dead-letters/{}", job["dead_letter_id"].as_str().unwrap())).await.json();
    assert_ne!(id(&second), id(&letter));
    assert_eq!((&second["state"], &second["replay_of"]), (&"open".into(), &letter["job_id"]));
}

#[tokio::test]
async fn twenty_replays_of_one_letter_at_once_make_one_job() {
    let mishap = mishap().await;
    let path = format!("/v1/admin/dead-letters/{}/replay", id(mishap.letter("github", "triage")));

    let replies =
        futures_util::future::join_all((0..20).map(|_| mishap.app.post_json(&path, &Value::Null))).await;

    let made = replies.iter().filter(|reply| reply.status == 202).count();
    let refused = replies.iter().filter(|reply| reply.status == 409).count();
    assert_eq!((made, refused), (1, 19));
}

#[tokio::test]
async fn a_dry_run_counts_and_changes_nothing() {
    let mishap = mishap().await;
    let app = &mishap.app;
    for (filter, matched) in [
        (json!({"error_class": "request_refused"}), 2),
        (json!({"source": "github"}), 1),
        (json!({"queue": "routing"}), 1),
        (json!({"reason": "permanent"}), 3),
        (json!({"reason": "poison"}), 0),
        (json!({"dead_since": "2020-01-01T00:00:00Z", "dead_until": "2021-01-01T00:00:00Z"}), 0),
        (json!({"dead_since": "2020-01-01T00:00:00Z", "queue": "triage"}), 2),
    ] {
        let reply = app.post_json("/v1/admin/replays", &json!({"filter": filter, "dry_run": true})).await;
        let expected = json!({"dry_run": true, "matched": matched, "more": false, "replayed": []});
        assert_eq!((reply.status, reply.json()), (200, expected), "{filter}");
    }
    assert_eq!(mishap.open_letters().await, 3);
    assert!(app.items("/v1/jobs?state=queued").await.is_empty());
}

#[tokio::test]
async fn a_replay_by_filter_takes_what_matches_and_no_more() {
    let mishap = mishap().await;
    let app = &mishap.app;
    mishap.mend();

    let one = json!({"filter": {"queue": "triage"}, "limit": 1});
    let reply = app.post_json("/v1/admin/replays", &one).await.json();
    assert_eq!((&reply["matched"], &reply["more"]), (&1.into(), &true.into()), "{reply}");
    assert_eq!(reply["replayed"].as_array().unwrap().len(), 1);
    assert_eq!(mishap.open_letters().await, 2);

    let rest = app.post_json("/v1/admin/replays", &json!({"all": true})).await.json();
    assert_eq!(
        (&rest["matched"], &rest["more"], &rest["dry_run"]),
        (&2.into(), &false.into(), &false.into())
    );
    for replayed in rest["replayed"].as_array().unwrap() {
        assert_eq!(app.ended(replayed["job_id"].as_str().unwrap()).await["state"], "succeeded");
    }
    assert_eq!(mishap.open_letters().await, 0);
    let again = app.post_json("/v1/admin/replays", &json!({"all": true})).await.json();
    assert_eq!((&again["matched"], &again["replayed"]), (&0.into(), &json!([])));
}

#[tokio::test]
async fn a_replay_that_does_not_say_what_it_means_is_refused() {
    let mishap = mishap().await;
    for body in [
        json!({}),
        json!({"filter": {}}),
        json!({"filter": {}, "all": false}),
        json!({"filter": {"eror_class": "request_refused"}}),
        json!({"all": true, "limit": 0}),
        json!({"all": true, "limit": 1001}),
        json!({"all": "yes"}),
        json!({"all": true, "dryrun": true}),
        json!({"filter": {"dead_since": "yesterday"}}),
        json!({"filter": {"source": "git\u{0}hub"}}),
        json!([]),
        json!(null),
    ] {
        let reply = mishap.app.post_json("/v1/admin/replays", &body).await;
        reply.is_problem(400, "body-invalid");
        assert!(!reply.text("/detail").is_empty(), "{body}");
    }
    assert_eq!(mishap.open_letters().await, 3);
}

#[tokio::test]
async fn the_command_line_lists_shows_and_replays() {
    let mishap = mishap().await;
    let letter = mishap.letter("github", "triage");

    let listed = mishap.command(&["dead-letters", "list", "--json"]).await;
    assert_eq!((listed.code, listed.json()["items"].as_array().unwrap().len()), (0, 3), "{listed:?}");
    let listed = mishap.command(&["dead-letters", "list", "--queue", "routing"]).await;
    assert!(
        listed.stdout.contains("destination_refused") && listed.stdout.lines().count() == 2,
        "{listed:?}"
    );
    let shown = mishap.command(&["dead-letters", "show", id(letter)]).await;
    assert!(shown.code == 0 && shown.stdout.contains("request_refused"), "{shown:?}");

    let unclear = mishap.command(&["dead-letters", "replay"]).await;
    assert!(unclear.code == 2 && unclear.stderr.contains("--all"), "{unclear:?}");
    let dry =
        mishap.command(&["dead-letters", "replay", "--error-class", "request_refused", "--dry-run"]).await;
    assert_eq!((dry.code, dry.stdout.trim()), (0, "would replay 2"));
    let both = mishap.command(&["dead-letters", "replay", id(letter), "--all"]).await;
    assert_eq!(both.code, 2, "{both:?}");
    assert_eq!(mishap.open_letters().await, 3);

    mishap.mend();
    let replayed = mishap.command(&["dead-letters", "replay", id(letter), "--json"]).await;
    assert_eq!(replayed.code, 0, "{replayed:?}");
    let job_id = replayed.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(mishap.app.ended(&job_id).await["state"], "succeeded");
    let again = mishap.command(&["dead-letters", "replay", id(letter)]).await;
    assert!(again.code == 4 && again.stderr.contains(&job_id), "{again:?}");
    let unknown = mishap.command(&["dead-letters", "replay", "01a22499-f800-7000-8000-000000000000"]).await;
    assert_eq!(unknown.code, 3, "{unknown:?}");

    let rest = mishap.command(&["dead-letters", "replay", "--all", "--json"]).await;
    assert_eq!((rest.code, &rest.json()["matched"]), (0, &2.into()), "{rest:?}");
    let none = mishap.command(&["dead-letters", "list"]).await;
    assert_eq!(none.stdout.trim(), "no dead letter matches");
}
