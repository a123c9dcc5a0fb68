//! Envelopes as servers really send them, and the request that goes out.

use std::num::NonZeroU32;

use serde_json::json;

use super::*;
use crate::domain::{Category, Taxonomy};
use crate::llm::{Prompt, TicketText};

macro_rules! body {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/completions/openai/", $name))
    };
}

fn read_body(body: &str) -> Result<Content, Failure> {
    let raw = RawAnswer { status: 200, headers: HeaderMap::new(), body: body.as_bytes().to_vec() };
    read(raw, DateTime::UNIX_EPOCH)
}

#[test]
fn a_full_envelope_gives_completion_model_and_usage() -> Result<(), Failure> {
    let content = read_body(body!("answered.json"))?;
    assert!(content.completion.starts_with("{\"category\":\"billing\""));
    assert_eq!(content.model.as_deref(), Some("model-x-2026-01-01"));
    assert_eq!(content.usage, Some(Usage { input_tokens: 812, output_tokens: 57 }));
    Ok(())
}

#[test]
fn the_completion_is_found_wherever_a_server_puts_it() -> Result<(), Failure> {
    for body in [
        body!("bare.json"),
        body!("parts.json"),
        body!("reasoning_only.json"),
        body!("tool_call.json"),
        body!("truncated_but_whole.json"),
    ] {
        let content = read_body(body)?;
        assert_eq!(content.completion, r#"{"category":"billing"}"#, "{body}");
        // Missing, empty and partial usage is unknown, not zero.
        assert_eq!(content.usage, None, "{body}");
    }
    Ok(())
}

#[test]
fn thoughts_are_no_answer() {
    let body = r#"{"choices":[{"message":{"content":null,"reasoning":"The user wants..."},"finish_reason":"stop"}]}"#;
    assert_eq!(read_body(body), Err(Failure::OutputEmpty("stop".into())));
}

#[test]
fn an_answer_that_was_cut_off_is_truncated_and_not_bad_json() {
    for body in [body!("truncated.json"), body!("reasoning_ate_the_limit.json")] {
        assert_eq!(read_body(body), Err(Failure::OutputTruncated), "{body}");
    }
}

#[test]
fn a_refusal_is_seen_beside_any_content() {
    let words = "I'm sorry, I can't help with that.";
    assert_eq!(read_body(body!("refusal.json")), Err(Failure::Refused(words.into())));
    for content in ["null", "\"{}\"", r#"[{"type":"refusal","refusal":"no"}]"#] {
        let body = format!(r#"{{"choices":[{{"message":{{"content":{content},"refusal":"no"}}}}]}}"#);
        assert_eq!(read_body(&body), Err(Failure::Refused("no".into())), "{content}");
    }
}

#[test]
fn a_filtered_answer_is_told_apart_from_an_empty_one() {
    assert!(matches!(read_body(body!("content_filter.json")), Err(Failure::ContentFiltered(_))));
}

#[test]
fn every_kind_of_nothing_is_empty() {
    for body in [
        "{}",
        r#"{"choices":null}"#,
        r#"{"choices":[]}"#,
        r#"{"choices":[{}]}"#,
        r#"{"choices":[{"message":null}]}"#,
        r#"{"choices":[{"message":{"content":null}}]}"#,
        r#"{"choices":[{"message":{"content":" \n"}}]}"#,
        r#"{"choices":[{"message":{"content":[]}}]}"#,
    ] {
        assert!(matches!(read_body(body), Err(Failure::OutputEmpty(_))), "{body}");
    }
}

#[test]
fn a_late_fault_in_the_choice_counts_as_the_status_it_names() {
    let Err(Failure::Rejected(rejection)) = read_body(body!("choice_error.json")) else {
        panic!("expected a rejection")
    };
    assert_eq!((rejection.status, rejection.in_band), (502, true));
    assert_eq!(rejection.message, "Upstream went away");
}

fn sent(settings: &LaneSettings, base_url: &str, mode: SchemaMode) -> Value {
    let category = |key: &str| Category { key: key.into(), description: "d".into(), examples: vec![] };
    let taxonomy = Taxonomy::new("1", vec![category("a"), category("b")]).expect("two categories");
    let prompt = Prompt {
        version: "1",
        system: "system".into(),
        user: "user".into(),
        schema: json!({"type": "object"}),
    };
    let request = Request::new(TicketText { subject: "s", body: "b" }, &taxonomy, &prompt);
    OpenAi::build(settings, base_url).expect("valid settings").body(&request, mode)
}

#[test]
fn the_request_says_no_stream_and_carries_a_strict_schema() {
    let settings = LaneSettings::new("l", LaneKind::OpenAi, "model-x");
    let body = sent(&settings, "https://api.openai.com/v1", SchemaMode::JsonSchema);
    assert_eq!(body["stream"], false);
    assert_eq!(body["model"], "model-x");
    assert_eq!(body["max_completion_tokens"], 1024);
    assert_eq!(body["response_format"]["type"], "json_schema");
    assert_eq!(body["response_format"]["json_schema"]["strict"], true);
    assert_eq!(body["messages"][1], json!({"role": "user", "content": "user"}));
}

#[test]
fn each_weaker_mode_asks_for_less() {
    let settings = LaneSettings::new("l", LaneKind::OpenAi, "m");
    let body = |mode| sent(&settings, "http://localhost:1", mode);
    assert_eq!(body(SchemaMode::ForcedTool)["tool_choice"]["function"]["name"], "classification");
    assert_eq!(body(SchemaMode::JsonObject)["response_format"], json!({"type": "json_object"}));
    assert_eq!(body(SchemaMode::PromptOnly).get("response_format"), None);
    assert_eq!(body(SchemaMode::PromptOnly)["max_tokens"], 1024);
}

#[test]
fn more_fields_can_be_sent_but_ours_win() {
    let mut settings = LaneSettings::new("l", LaneKind::OpenAi, "m");
    settings.output_tokens_max = NonZeroU32::MIN;
    settings.output_limit_field = OutputLimitField::Omit;
    settings.extra_body.insert("temperature".into(), json!(0));
    settings.extra_body.insert("stream".into(), json!(true));
    let body = sent(&settings, "http://localhost:1", SchemaMode::PromptOnly);
    assert_eq!((&body["temperature"], &body["stream"]), (&json!(0), &json!(false)));
    assert_eq!(body.get("max_tokens"), None);
}
