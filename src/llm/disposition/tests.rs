//! One test for each row of the failure table (`docs/PROVIDERS.md`).

use chrono::{DateTime, Utc};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::llm::envelope::RawAnswer;

/// The failure that an HTTP answer leads to, as the adapters read it.
fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Failure {
    let value = |text: &str| HeaderValue::from_str(text).expect("a valid header");
    let headers: HeaderMap =
        headers.iter().map(|(name, text)| (HeaderName::from_static(name), value(text))).collect();
    let raw = RawAnswer { status, headers, body: body.as_bytes().to_vec() };
    let now: DateTime<Utc> = "2026-11-29T12:00:00Z".parse().expect("a valid time");
    raw.into_json(now).expect_err("a refusal")
}

fn fixture(status: u16, body: &str) -> Disposition {
    disposition(&answer(status, &[], body))
}

const RETRY: Disposition = Disposition::Retry { after: None, times_max: None };
const fn paused(at_least: Option<Duration>) -> Disposition {
    Disposition::PauseLane { at_least }
}
const fn parked(cause: ParkCause) -> Disposition {
    Disposition::ParkLane { cause, at_least: None }
}
const S: fn(u64) -> Duration = Duration::from_secs;

macro_rules! body {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/completions/", $name))
    };
}

#[test]
fn a_fault_of_the_transport_is_tried_again() {
    assert_eq!(disposition(&Failure::ConnectFailed("dns".into())), RETRY);
    assert_eq!(disposition(&Failure::ConnectionLost("reset".into())), RETRY);
}

#[test]
fn a_timeout_is_tried_again_but_fewer_times() {
    let expected = Disposition::Retry { after: None, times_max: Some(3) };
    assert_eq!(disposition(&Failure::TimedOut(S(60))), expected);
}

#[test]
fn a_transient_status_is_tried_again_and_its_delay_is_a_floor() {
    for status in [408, 409, 425, 500, 502, 504, 520, 521, 522, 523, 524] {
        assert_eq!(fixture(status, "<html>oops</html>"), RETRY, "{status}");
    }
    let delayed = disposition(&answer(502, &[("retry-after", "7")], ""));
    assert_eq!(delayed, Disposition::Retry { after: Some(S(7)), times_max: None });
}

#[test]
fn a_lack_of_capacity_pauses_the_lane_and_costs_no_attempt() {
    assert_eq!(fixture(529, body!("anthropic/overloaded.json")), paused(None));
    assert_eq!(fixture(498, r#"{"error":{"code":"capacity_exceeded"}}"#), paused(None));
    assert_eq!(fixture(503, body!("openai/llama_cpp_loading.json")), paused(None));
    let delayed = disposition(&answer(503, &[("retry-after", "20")], ""));
    assert_eq!(delayed, paused(Some(S(20))));
}

#[test]
fn a_rate_limit_pauses_the_lane_for_as_long_as_it_says() {
    let limited = |headers: &[(&'static str, &str)]| {
        disposition(&answer(429, headers, body!("openai/rate_limited.json")))
    };
    assert_eq!(limited(&[("retry-after", "20")]), paused(Some(S(20))));
    assert_eq!(limited(&[("retry-after-ms", "1500")]), paused(Some(Duration::from_millis(1500))));
    assert_eq!(limited(&[("retry-after", "Sun, 29 Nov 2026 12:01:00 GMT")]), paused(Some(S(60))));
    // The prose of this body says "try again in 120ms".
    assert_eq!(limited(&[]), paused(Some(Duration::from_millis(120))));
    assert_eq!(fixture(429, body!("openai/mistral_rate_limited.json")), paused(None));
    assert_eq!(fixture(429, body!("openai/azure_rate_limited.json")), paused(Some(S(45))));
    assert_eq!(fixture(429, body!("anthropic/rate_limited.json")), paused(None));
}

#[test]
fn the_fraction_of_a_gemini_delay_survives_and_its_window_wins_over_its_prose() {
    let delay = Duration::from_nanos(45_837_906_927);
    assert_eq!(fixture(429, body!("openai/gemini_per_minute.json")), paused(Some(delay)));
}

#[test]
fn a_rate_limit_longer_than_the_cap_parks_the_lane_until_then() {
    let long = disposition(&answer(429, &[("retry-after", "86400")], ""));
    assert_eq!(long, Disposition::ParkLane { cause: ParkCause::Quota, at_least: Some(S(86_400)) });
}

#[test]
fn an_empty_account_parks_the_lane_whatever_the_status() {
    for (status, body) in [
        (429, body!("openai/insufficient_quota.json")),
        (429, body!("anthropic/spend_limit.json")),
        (400, body!("anthropic/credit_too_low.json")),
        (402, r#"{"error":{"message":"Payment required"}}"#),
        (429, body!("openai/gemini_per_day.json")),
        (403, r#"{"error":{"code":"billing_not_active"}}"#),
    ] {
        assert_eq!(fixture(status, body), parked(ParkCause::Quota), "{status} {body}");
    }
}

#[test]
fn a_rate_limit_that_is_not_to_be_retried_and_names_no_time_is_a_quota() {
    let no_retry = answer(429, &[("x-should-retry", "false")], body!("anthropic/rate_limited.json"));
    assert_eq!(disposition(&no_retry), parked(ParkCause::Quota));
}

#[test]
fn a_bad_key_parks_the_lane() {
    for (status, body) in [
        (401, body!("openai/invalid_key.json")),
        (403, r#"{"error":{"type":"permission_error","message":"no"}}"#),
        (400, r#"{"error":{"status":"INVALID_ARGUMENT","message":"API key not valid."}}"#),
    ] {
        assert_eq!(fixture(status, body), parked(ParkCause::Credential), "{status} {body}");
    }
}

#[test]
fn an_unknown_model_or_path_parks_the_lane() {
    for (status, body) in [
        (404, body!("openai/model_not_found.json")),
        (400, r#"{"error":{"code":"model_not_found","message":"no such model"}}"#),
        (404, "<html>nginx</html>"),
        (405, ""),
        (301, ""),
        (400, r#"{"error":{"code":"unsupported_parameter","param":"temperature","message":"no"}}"#),
    ] {
        assert_eq!(fixture(status, body), parked(ParkCause::Configuration), "{status} {body}");
    }
}

#[test]
fn a_ticket_that_is_too_long_is_asked_once_more_with_a_shorter_body() {
    let shorter = Disposition::ReAsk { change: Change::ShorterInput, times_max: 1, then: Ending::DeadLetter };
    for (status, body) in [
        (400, body!("openai/context_length.json")),
        (400, r#"{"error":{"message":"prompt is too long: 250000 tokens > 200000 maximum"}}"#),
        (413, "<html>Request Entity Too Large</html>"),
        (400, r#"{"error":"the request exceeds the available context size"}"#),
        (
            429,
            r#"{"error":{"code":"rate_limit_exceeded","message":"Request too large for gpt-x on tokens per min"}}"#,
        ),
    ] {
        assert_eq!(fixture(status, body), shorter, "{status} {body}");
    }
    assert_eq!(answer(413, &[], "").class(), "input_too_large");
}

#[test]
fn a_refused_schema_steps_the_lane_down() {
    for body in [
        body!("openai/schema_refused.json"),
        r#"{"error":{"message":"Either \"json_schema\" or \"grammar\" can be specified, but not both"}}"#,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"The compiled grammar is too large"}}"#,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"output_config: Extra inputs are not permitted"}}"#,
    ] {
        assert_eq!(fixture(400, body), Disposition::StepDown, "{body}");
    }
}

#[test]
fn a_blocked_ticket_goes_to_a_person_and_is_never_sent_again() {
    let blocked = fixture(400, body!("openai/azure_content_filter.json"));
    assert!(matches!(blocked, Disposition::Review { reason: ReviewReason::Refused, .. }), "{blocked:?}");
    let blocked = disposition(&Failure::ContentFiltered("content_filter".into()));
    assert!(matches!(blocked, Disposition::Review { reason: ReviewReason::Refused, .. }), "{blocked:?}");
}

#[test]
fn a_refusal_goes_to_a_person() {
    let refused = disposition(&Failure::Refused("I cannot".into()));
    let expected =
        Disposition::Review { reason: ReviewReason::Refused, detail: "the model declined: I cannot".into() };
    assert_eq!(refused, expected);
}

#[test]
fn a_truncated_answer_is_asked_once_more_with_more_room() {
    let more = Disposition::ReAsk { change: Change::MoreOutput, times_max: 1, then: Ending::DeadLetter };
    assert_eq!(disposition(&Failure::OutputTruncated), more);
}

#[test]
fn an_empty_answer_is_asked_twice_more() {
    let again = Disposition::ReAsk { change: Change::Nothing, times_max: 2, then: Ending::DeadLetter };
    assert_eq!(disposition(&Failure::OutputEmpty("stop".into())), again);
}

#[test]
fn a_bad_answer_is_asked_once_more_and_then_goes_to_a_person() {
    let again = Disposition::ReAsk { change: Change::Nothing, times_max: 1, then: Ending::Review };
    assert_eq!(disposition(&Failure::BadOutput("unknown label".into())), again);
}

#[test]
fn an_answer_that_is_too_large_is_asked_once_more() {
    let again = Disposition::ReAsk { change: Change::Nothing, times_max: 1, then: Ending::DeadLetter };
    assert_eq!(disposition(&Failure::AnswerTooLarge(1)), again);
}

#[test]
fn an_error_inside_a_success_counts_as_its_status() {
    assert_eq!(fixture(200, body!("openai/in_band_429.json")), paused(None));
    assert_eq!(fixture(200, r#"{"error":{"message":"upstream error"}}"#), RETRY);
    assert_eq!(fixture(200, body!("anthropic/overloaded.json")), paused(None));
    assert_eq!(fixture(200, r#"{"error":{"code":401,"message":"no"}}"#), parked(ParkCause::Credential));
}

#[test]
fn an_unreadable_success_is_tried_again_but_fewer_times() {
    let expected = Disposition::Retry { after: None, times_max: Some(3) };
    assert_eq!(fixture(200, "<html>Sign in</html>"), expected);
}

#[test]
fn a_request_refused_without_a_known_reason_is_a_dead_letter() {
    let refused = fixture(400, r#"{"error":{"type":"invalid_request_error","message":"Invalid message."}}"#);
    assert_eq!(refused, Disposition::DeadLetter { class: "request_refused" });
    assert_eq!(fixture(422, "no"), Disposition::DeadLetter { class: "request_refused" });
}

#[test]
fn the_provider_s_own_word_about_retrying_is_obeyed() {
    let again = answer(400, &[("x-should-retry", "true")], r#"{"error":{"message":"odd"}}"#);
    assert_eq!(disposition(&again), RETRY);
    let never = answer(500, &[("x-should-retry", "false")], r#"{"error":{"message":"odd"}}"#);
    assert_eq!(disposition(&never), Disposition::DeadLetter { class: "provider_error" });
}
