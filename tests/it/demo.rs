//! Claim: the demo shows the whole service at work, without configuration, key or network, and ends.

use std::collections::BTreeMap;

use crate::support::process::run;

#[tokio::test]
async fn the_demo_triages_its_tickets_through_every_mishap_and_ends() {
    let demo = run(&["demo", "--exit", "--json"], &[("HOOKTRIAGE_LISTEN", "127.0.0.1:0")]).await;
    assert_eq!(demo.code, 0, "{demo:?}");
    let report = demo.json();

    let jobs = report["jobs"].as_array().unwrap();
    assert!(jobs.len() >= 40, "{}", jobs.len());
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    jobs.iter().for_each(|job| *states.entry(job["state"].as_str().unwrap()).or_default() += 1);
    assert_eq!(states, BTreeMap::from([("dead", 1), ("succeeded", jobs.len() - 1)]));

    let answers: BTreeMap<String, usize> = serde_json::from_value(report["answers"].clone()).unwrap();
    assert_eq!(answers["200 accepted"], jobs.len());
    assert_eq!(answers["401 signature-refused"], 1);
    assert!(answers["200 duplicate"] >= 2, "{answers:?}");
    assert_eq!(answers.len(), 3, "{answers:?}");

    let letters = report["dead_letters"].as_array().unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(
        (&letters[0]["error_class"], &letters[0]["queue"]),
        (&"request_refused".into(), &"triage".into())
    );

    let attempts = jobs.iter().flat_map(|job| job["attempts"].as_array().unwrap());
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    attempts.for_each(|attempt| *outcomes.entry(attempt["outcome"].as_str().unwrap()).or_default() += 1);
    assert!(outcomes["retried"] >= 1 && outcomes["snoozed"] >= 1, "{outcomes:?}");
    assert_eq!(outcomes["succeeded"], jobs.len() - 1);

    let delivered: BTreeMap<String, usize> = serde_json::from_value(report["delivered"].clone()).unwrap();
    let alerts = 1;
    assert_eq!(delivered.values().sum::<usize>(), jobs.len() - 1 + alerts, "{delivered:?}");
    let routed = jobs.iter().filter(|job| job["verdict"]["destination"].is_string());
    assert_eq!(routed.count(), jobs.len() - 1);
}
