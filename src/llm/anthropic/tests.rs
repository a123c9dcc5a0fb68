//! Envelopes as Anthropic sends them.

use super::*;

macro_rules! body {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/completions/anthropic/", $name))
    };
}

fn read_body(body: &str) -> Result<Content, Failure> {
    let raw = RawAnswer { status: 200, headers: HeaderMap::new(), body: body.as_bytes().to_vec() };
    read(raw, DateTime::UNIX_EPOCH)
}

#[test]
fn a_full_envelope_gives_completion_model_and_usage_with_the_cached_tokens() -> Result<(), Failure> {
    let content = read_body(body!("answered.json"))?;
    assert!(content.completion.starts_with("{\"category\":\"billing\""));
    assert_eq!(content.model.as_deref(), Some("model-y-2026-01-01"));
    assert_eq!(content.usage, Some(Usage { input_tokens: 812, output_tokens: 57 }));
    Ok(())
}

#[test]
fn the_input_of_a_forced_tool_is_the_completion() -> Result<(), Failure> {
    let content = read_body(body!("tool_use.json"))?;
    assert_eq!((content.completion.as_str(), content.usage), (r#"{"category":"billing"}"#, None));
    Ok(())
}

#[test]
fn a_cut_answer_is_truncated_also_where_a_tool_was_called() {
    for body in [body!("truncated.json"), body!("truncated_tool.json")] {
        assert_eq!(read_body(body), Err(Failure::OutputTruncated), "{body}");
    }
}

#[test]
fn a_refusal_and_an_empty_answer_are_told_apart() {
    assert!(matches!(read_body(body!("refusal.json")), Err(Failure::Refused(_))));
    for body in [body!("empty.json"), "{}", r#"{"content":null}"#, r#"{"content":[{"type":"thinking"}]}"#] {
        assert!(matches!(read_body(body), Err(Failure::OutputEmpty(_))), "{body}");
    }
}
