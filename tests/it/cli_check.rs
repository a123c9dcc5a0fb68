//! Claim: a configuration with mistakes is refused with all of them at once, each with its place and
//! its mend, and no secret is ever printed.

use crate::support::process::{folder, run, run_in};

/// Line by line, so that the places can be counted.
const FILE: &str = r#"[server]
listen = 8080
body_bytes_max = 12

[queue]
attempts_max = 0
atempts_max = 3
backoff_base_s = 10
backoff_cap_s = 5

[llm]
schema_mode = "strict"

[taxonomy]
confidence_min = 1.5

[[source]]
name = "Shop"
preset = "generic"

[[source]]
name = "api"
preset = "github"

[[destination]]
name = "team"
url = "http://10.0.0.1/inbox"

[[rule]]
category = ["no_such_label"]
to = "nobody"

[[rule]]
priority = ["yesterday"]

[routing]
alerts = "pager"
"#;

const VARIABLES: [(&str, &str); 6] = [
    ("HOOKTRIAGE_LISTN", "127.0.0.1:0"),
    ("HOOKTRIAGE_ADMIN_TOKEN", "hunter2"),
    ("HOOKTRIAGE_WORKERS", "many"),
    ("HOOKTRIAGE_SECRET_GITHUB", "hunter2"),
    ("HOOKTRIAGE_SECRET_GITLAB", "hunter2-hunter2-hunter2-hunter2"),
    ("HOOKTRIAGE_LOG_FORMAT", "xml"),
];

/// Where each mistake is, and a word of what is said about it.
const MISTAKES: [(&str, &str); 22] = [
    ("hooktriage.toml:2 server.listen", "text"),
    ("hooktriage.toml:3 server.body_bytes_max", "12"),
    ("hooktriage.toml:6 queue.attempts_max", "0"),
    ("hooktriage.toml:7 queue.atempts_max", "attempts_max"),
    ("hooktriage.toml:8 queue.backoff_base_s", "backoff_cap_s"),
    ("hooktriage.toml:12 llm.schema_mode", "json_schema"),
    ("hooktriage.toml:15 taxonomy.confidence_min", "0 to 1"),
    ("hooktriage.toml:18 source[0].name", "a-z"),
    ("hooktriage.toml:18 source[0].name", "scheme"),
    ("hooktriage.toml:18 source[0].name", "HOOKTRIAGE_SECRET_SHOP"),
    ("hooktriage.toml:22 source[1].name", "taken"),
    ("hooktriage.toml:27 destination[0].url", "https"),
    ("hooktriage.toml:27 destination[0].url", "HOOKTRIAGE_DESTINATION_SECRET_TEAM"),
    ("hooktriage.toml:30 rule[0].category", "no_such_label"),
    ("hooktriage.toml:31 rule[0].to", "nobody"),
    ("hooktriage.toml:34 rule[1].priority", "urgent"),
    ("hooktriage.toml:37 routing.alerts", "pager"),
    ("HOOKTRIAGE_LISTN", "HOOKTRIAGE_LISTEN"),
    ("HOOKTRIAGE_ADMIN_TOKEN", "16"),
    ("HOOKTRIAGE_WORKERS", "1 to"),
    ("HOOKTRIAGE_SECRET_GITLAB", "preset"),
    ("HOOKTRIAGE_LOG_FORMAT", "json"),
];

#[tokio::test]
async fn every_mistake_is_told_at_once_with_its_place_and_its_mend() {
    let folder = folder();
    std::fs::write(folder.path().join("hooktriage.toml"), FILE).unwrap();
    let check = run_in(&folder, &["check"], &VARIABLES).await;

    assert_eq!((check.code, check.stdout.as_str()), (2, ""), "{check:?}");
    for (place, word) in MISTAKES {
        let told =
            check.stderr.lines().any(|line| line.contains(&format!("{place}: ")) && line.contains(word));
        assert!(told, "{place} … {word} is not in:\n{}", check.stderr);
    }
    let lines = check.stderr.lines().filter(|line| line.starts_with("  ")).count();
    assert!(check.stderr.contains(&format!("the configuration has {lines} faults")), "{}", check.stderr);
    assert!(!check.stderr.contains("hunter2"), "{}", check.stderr);

    let json = run_in(&folder, &["check", "--json"], &VARIABLES).await;
    let faults = json.json()["faults"].as_array().unwrap().clone();
    assert_eq!((json.code, json.json()["ok"].as_bool(), faults.len()), (2, Some(false), lines));
    assert!(faults.iter().all(|fault| fault["place"].is_string() && fault["problem"].is_string()));

    for command in [&["serve"][..], &["migrate"]] {
        let refused = run_in(&folder, command, &VARIABLES).await;
        assert_eq!((refused.code, &refused.stderr), (2, &check.stderr), "{command:?}");
    }

    // Who only talks to the service is not held up by what does not concern its address.
    let refused = run_in(&folder, &["jobs"], &VARIABLES).await;
    assert!(refused.code == 2 && refused.stderr.contains("server.listen"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("rule[0]"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_file_that_is_no_toml_does_not_hide_the_mistakes_beside_it() {
    let folder = folder();
    std::fs::write(folder.path().join("other.toml"), "[server]\nlisten = \n").unwrap();
    let check = run_in(&folder, &["check", "--config", "other.toml"], &VARIABLES).await;
    assert_eq!(check.code, 2);
    for place in ["other.toml:2", "HOOKTRIAGE_LISTN", "HOOKTRIAGE_WORKERS", "HOOKTRIAGE_LOG_FORMAT"] {
        assert!(check.stderr.contains(place), "{place} is not in:\n{}", check.stderr);
    }
    let missing = run_in(&folder, &["check", "--config", "missing.toml"], &[]).await;
    assert!(missing.code == 2 && missing.stderr.contains("missing.toml"), "{missing:?}");
}

#[tokio::test]
async fn a_good_configuration_is_described_without_its_secrets() {
    let folder = folder();
    let secrets = [
        ("DATABASE_URL", "postgres://ann:canary-one@db.example/desk"),
        ("HOOKTRIAGE_ADMIN_TOKEN", "canary-two-0123456789"),
        ("HOOKTRIAGE_SECRET_GITHUB", "canary-three-0123456789,canary-four-0123456789"),
        ("HOOKTRIAGE_SECRET_ZENDESK", "canary-five-0123456789"),
        ("HOOKTRIAGE_LLM_API_KEY", "sk-canary-six"),
        ("HOOKTRIAGE_DESTINATION_SECRET_TEAM", "whsec_Y2FuYXJ5LXNldmVuLTAxMjM0NTY3ODk="),
        ("HOOKTRIAGE_LLM_MODEL", "model-x"),
    ];
    let file = "[[destination]]\nname = \"team\"\nurl = \"https://hooks.example/inbox\"\n[routing]\nfallback = \"team\"\n";
    std::fs::write(folder.path().join("hooktriage.toml"), file).unwrap();

    for arguments in [&["check"][..], &["check", "--json"]] {
        let check = run_in(&folder, arguments, &secrets).await;
        assert_eq!(check.code, 0, "{check:?}");
        for word in ["/webhooks/github", "/webhooks/zendesk", "team", "openai", "model-x"] {
            assert!(check.stdout.contains(word), "{word} is not in:\n{}", check.stdout);
        }
        let printed = format!("{}{}", check.stdout, check.stderr);
        for secret in ["canary", "Y2FuYXJ5", "db.example"] {
            assert!(!printed.contains(secret), "{secret} is in:\n{printed}");
        }
    }
    let json = run_in(&folder, &["check", "--json"], &secrets).await.json();
    assert_eq!((&json["ok"], &json["sources"][0]["live_secrets"]), (&true.into(), &2.into()), "{json}");
}

#[tokio::test]
async fn without_any_setting_the_configuration_is_good() {
    let check = run(&["check", "--json"], &[]).await;
    assert_eq!((check.code, &check.json()["llm"]["kind"]), (0, &"offline".into()), "{check:?}");
    let variables = run(&["check", "--variables"], &[]).await;
    assert!(variables.code == 0 && variables.stdout.contains("HOOKTRIAGE_LISTEN"), "{variables:?}");
    let variables = run(&["check", "--variables", "--json"], &[]).await;
    assert!(variables.json().as_array().unwrap().len() > 10);
}
