//! Whole configurations, good and bad.

use super::*;

const SECRET: &str = "a-secret-of-some-length-0123456789";
const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn read(text: &str, pairs: &[(&str, &str)]) -> Result<Config, Faults> {
    Config::read("hooktriage.toml", Some(text), Environment::of(pairs))
}

fn faults(text: &str, pairs: &[(&str, &str)]) -> Vec<String> {
    read(text, pairs)
        .err()
        .map(|faults| faults.0.iter().map(ToString::to_string).collect())
        .unwrap_or_default()
}

#[test]
fn nothing_configured_is_a_working_configuration() -> Result<(), Faults> {
    let config = Config::read("none", None, Environment::of(&[]))?;
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.lane.kind, crate::llm::LaneKind::Offline);
    assert!(config.sources.is_empty() && config.database_url.is_none());
    Ok(())
}

#[test]
fn a_secret_in_the_environment_switches_its_preset_on() -> Result<(), Faults> {
    let pairs = [("HOOKTRIAGE_SECRET_GITHUB", SECRET), ("HOOKTRIAGE_SECRET_STANDARD_WEBHOOKS", WHSEC)];
    let config = read("", &pairs)?;
    let names: Vec<&str> = config.sources.iter().map(Source::name).collect();
    assert_eq!(names, ["github", "standard-webhooks"]);
    Ok(())
}

#[test]
fn a_key_alone_means_the_openai_dialect() -> Result<(), Faults> {
    let config = read("", &[("HOOKTRIAGE_LLM_API_KEY", "sk-test"), ("HOOKTRIAGE_LLM_MODEL", "small")])?;
    assert_eq!(config.lane.kind, crate::llm::LaneKind::OpenAi);
    Ok(())
}

#[test]
fn an_anthropic_key_alone_means_the_anthropic_dialect() -> Result<(), Faults> {
    let config = read("", &[("HOOKTRIAGE_LLM_API_KEY", "sk-ant-test"), ("HOOKTRIAGE_LLM_MODEL", "small")])?;
    assert_eq!(config.lane.kind, crate::llm::LaneKind::Anthropic);
    Ok(())
}

#[test]
fn a_model_without_a_provider_is_a_fault_and_not_ignored() {
    let found = faults("", &[("HOOKTRIAGE_LLM_MODEL", "small")]);
    assert!(found.len() == 1 && found[0].starts_with("HOOKTRIAGE_LLM_MODEL: a model is named"), "{found:#?}");
}

#[test]
fn a_rule_about_a_source_with_a_fault_is_not_at_fault_itself() {
    let found = faults("[[source]]\nname = 'github'\n[[rule]]\nsource = 'github'\nto = 'nobody'", &[]);
    assert!(!found.iter().any(|fault| fault.contains("rule[0].source")), "{found:#?}");
}

#[test]
fn two_destinations_that_share_a_variable_are_told() {
    let text = "
        [[destination]]
        name = 'a-b'
        url = 'https://a.example.com/'
        [[destination]]
        name = 'a_b'
        url = 'https://b.example.com/'
    ";
    let found = faults(text, &[("HOOKTRIAGE_DESTINATION_SECRET_A_B", WHSEC)]);
    assert!(found.len() == 1 && found[0].contains("share the variable"), "{found:#?}");
}

#[test]
fn a_language_that_no_verdict_can_have_is_a_fault() {
    let found = faults("[[rule]]\nlanguage = ['English', 'de']\nto = 'nobody'", &[]);
    assert!(found.iter().any(|fault| fault.contains("\"English\" is no language code")), "{found:#?}");
    assert!(!found.iter().any(|fault| fault.contains("\"de\"")), "{found:#?}");
}

#[test]
fn an_address_that_is_no_postgres_is_a_fault_and_is_not_repeated() {
    let found = faults("", &[("DATABASE_URL", "mysql://u:s3cret@host/db")]);
    assert!(found.len() == 1 && found[0].starts_with("DATABASE_URL: "), "{found:#?}");
    assert!(!found[0].contains("s3cret"), "{found:#?}");
}

#[test]
fn the_environment_wins_over_the_file() -> Result<(), Faults> {
    let config =
        read("[queue]\nworkers = 3\n[server]\nlisten = '127.0.0.1:1'", &[("HOOKTRIAGE_WORKERS", "5")])?;
    assert_eq!((config.triage.worker.slots, config.listen.port()), (5, 1));
    Ok(())
}

#[test]
fn every_fault_is_told_at_once_with_its_place() {
    let text = "
        [server]
        listen = 'nowhere'
        [queue]
        wrokers = 3
        attempts_max = 0
        [[source]]
        name = 'acme'
        preset = 'gihub'
        [[rule]]
        category = 'nonsense'
        to = 'nobody'
    ";
    let found = faults(text, &[("HOOKTRIAGE_WORKERS", "many"), ("HOOKTRIAGE_ADMIN_TOKEN", "short")]);
    for place in [
        "hooktriage.toml:3 server.listen: is \"nowhere\"",
        "hooktriage.toml:5 queue.wrokers: there is no such setting; did you mean workers?",
        "hooktriage.toml:6 queue.attempts_max: is 0; it must be 1 to 100",
        "hooktriage.toml:9 source[0].preset: is \"gihub\"",
        "hooktriage.toml:11 rule[0].category: \"nonsense\" is not in the taxonomy",
        "hooktriage.toml:12 rule[0].to: names \"nobody\"",
        "HOOKTRIAGE_WORKERS: is \"many\"",
        "HOOKTRIAGE_ADMIN_TOKEN: must be",
    ] {
        assert!(found.iter().any(|fault| fault.starts_with(place)), "{place} is not in {found:#?}");
    }
}

#[test]
fn a_source_without_a_secret_does_not_start() {
    let found = faults("[[source]]\nname = 'github'", &[]);
    assert!(found[0].contains("HOOKTRIAGE_SECRET_GITHUB") && found[0].contains("secret"), "{found:#?}");
}

#[test]
fn a_secret_for_nothing_is_a_fault() {
    let found = faults("", &[("HOOKTRIAGE_SECRET_GITHUBB", SECRET)]);
    assert!(found[0].starts_with("HOOKTRIAGE_SECRET_GITHUBB: no source is named"), "{found:#?}");
}

#[test]
fn broken_toml_is_told_with_its_line() {
    let found = faults("[server]\nlisten = ", &[]);
    assert!(found[0].starts_with("hooktriage.toml:2: no valid TOML"), "{found:#?}");
}

#[test]
fn rules_and_destinations_are_read() -> Result<(), Faults> {
    let text = "
        [[destination]]
        name = 'finance'
        url = 'https://finance.example.com/hooks'
        [[rule]]
        category = ['billing']
        priority = ['high', 'urgent']
        to = 'finance'
        [routing]
        alerts = 'finance'
    ";
    let config = read(text, &[("HOOKTRIAGE_DESTINATION_SECRET_FINANCE", WHSEC)])?;
    assert_eq!(config.rules.rules.len(), 1);
    assert_eq!(config.alerts.map(|name| name.to_string()), Some("finance".to_owned()));
    Ok(())
}

#[test]
fn no_secret_shows_in_the_debug_text_of_a_configuration() -> Result<(), Faults> {
    let config = read(
        "",
        &[
            ("HOOKTRIAGE_SECRET_GITHUB", SECRET),
            ("HOOKTRIAGE_LLM_API_KEY", "sk-hidden"),
            ("HOOKTRIAGE_LLM_MODEL", "m"),
        ],
    )?;
    let text = format!("{config:?}");
    assert!(!text.contains(SECRET) && !text.contains("sk-hidden"), "{text}");
    Ok(())
}
