//! The two dialects, seen from the provider's side: requests in, envelopes and errors out.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::answer::Label;

/// Which dialect a call came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    OpenAi,
    Anthropic,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Whole,
    Truncated,
    Malformed,
}

/// What is said instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    RateLimited(Duration),
    Server,
    ContextLength,
    InvalidRequest(&'static str),
}

impl Dialect {
    /// The labels that the request allows: keys from its schema, texts from its prompt.
    pub(super) fn labels(self, request: &Value) -> Vec<Label> {
        let described = described_labels(&self.system_text(request));
        let Some(keys) = self.schema(request).and_then(|schema| schema.pointer("/properties/category/enum"))
        else {
            return described;
        };
        let keys = keys.as_array().into_iter().flatten().filter_map(Value::as_str);
        let text =
            |key: &str| described.iter().find(|label| label.key == key).map(|label| label.text.clone());
        keys.map(|key| Label { key: key.to_owned(), text: text(key).unwrap_or_default() }).collect()
    }

    /// The ticket in the request: subject and body where they can be told apart.
    pub(super) fn ticket_text(self, request: &Value) -> String {
        let messages = request.get("messages").and_then(Value::as_array).into_iter().flatten();
        let user =
            messages.filter(|message| message["role"] == "user").map(|message| text_of(&message["content"]));
        let user = user.collect::<Vec<_>>().join("\n");
        let ticket = user.lines().find_map(|line| {
            let ticket: Value = serde_json::from_str(line).ok()?;
            Some(format!("{}\n{}", ticket.get("subject")?.as_str()?, ticket.get("body")?.as_str()?))
        });
        ticket.unwrap_or(user)
    }

    fn system_text(self, request: &Value) -> String {
        match self {
            Self::Anthropic => text_of(&request["system"]),
            Self::OpenAi => {
                let messages = request.get("messages").and_then(Value::as_array).into_iter().flatten();
                let system =
                    messages.filter(|message| message["role"] == "system" || message["role"] == "developer");
                system.map(|message| text_of(&message["content"])).collect::<Vec<_>>().join("\n")
            }
        }
    }

    fn schema(self, request: &Value) -> Option<&Value> {
        let places = match self {
            Self::OpenAi => ["/response_format/json_schema/schema", "/tools/0/function/parameters"],
            Self::Anthropic => ["/output_config/format/schema", "/tools/0/input_schema"],
        };
        places.into_iter().find_map(|place| request.pointer(place))
    }

    /// The whole answer to a request.
    pub(super) fn envelope(
        self,
        request: &Value,
        classification: &Value,
        number: u64,
        finish: Finish,
    ) -> Value {
        let whole = classification.to_string();
        let completion = match finish {
            Finish::Whole => whole,
            Finish::Truncated => whole.chars().take(whole.chars().count() / 2).collect(),
            Finish::Malformed => malformed(classification, number),
        };
        let model = request.get("model").cloned().unwrap_or_else(|| json!("simulated"));
        let tokens = |text: &str| text.len().div_ceil(4);
        let input = tokens(&request["messages"].to_string()) + tokens(&request["system"].to_string());
        let output = tokens(&completion);
        match self {
            Self::OpenAi => {
                let reason = if finish == Finish::Truncated { "length" } else { "stop" };
                let mut message = json!({"role": "assistant", "content": completion, "refusal": null});
                if let Some(name) = request.pointer("/tools/0/function/name") {
                    message["content"] = Value::Null;
                    let function = json!({"name": name, "arguments": completion});
                    message["tool_calls"] =
                        json!([{"id": format!("call_{number}"), "type": "function", "function": function}]);
                }
                json!({
                    "id": format!("chatcmpl-simulated-{number}"),
                    "object": "chat.completion",
                    "created": 0,
                    "model": model,
                    "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                    "usage": {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output},
                })
            }
            Self::Anthropic => {
                let tool = request.pointer("/tools/0/name");
                let (reason, block) = match (finish, tool) {
                    (Finish::Truncated, _) => ("max_tokens", json!({"type": "text", "text": completion})),
                    (Finish::Whole, Some(name)) => (
                        "tool_use",
                        json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": name, "input": classification}),
                    ),
                    _ => ("end_turn", json!({"type": "text", "text": completion})),
                };
                json!({
                    "id": format!("msg_simulated_{number}"),
                    "type": "message",
                    "role": "assistant",
                    "model": model,
                    "content": [block],
                    "stop_reason": reason,
                    "usage": {"input_tokens": input, "output_tokens": output},
                })
            }
        }
    }

    /// An error in the words of the dialect.
    pub(super) fn fault(self, fault: &Fault) -> Response {
        let (status, kind, code, message) = match (self, fault) {
            (Self::OpenAi, Fault::RateLimited(_)) => {
                (429, "requests", Some("rate_limit_exceeded"), "Rate limit reached for requests.")
            }
            (Self::Anthropic, Fault::RateLimited(_)) => {
                (429, "rate_limit_error", None, "This request would exceed your rate limit.")
            }
            (Self::OpenAi, Fault::Server) => (500, "server_error", None, "The server had an error."),
            (Self::Anthropic, Fault::Server) => (500, "api_error", None, "Internal server error"),
            (Self::OpenAi, Fault::ContextLength) => (
                400,
                "invalid_request_error",
                Some("context_length_exceeded"),
                "This model's maximum context length is 8192 tokens.",
            ),
            (Self::Anthropic, Fault::ContextLength) => {
                (400, "invalid_request_error", None, "prompt is too long: 250000 tokens > 200000 maximum")
            }
            (_, Fault::InvalidRequest(message)) => (400, "invalid_request_error", None, *message),
        };
        let body = match self {
            Self::OpenAi => json!({"error": {"message": message, "type": kind, "param": null, "code": code}}),
            Self::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(body)).into_response();
        if let Fault::RateLimited(after) = fault {
            // Whole seconds, rounded up: a client that waits so long is never early.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            // As OpenAI does, so that a run with short delays is possible.
            let milliseconds = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            response.headers_mut().insert("retry-after-ms", HeaderValue::from(milliseconds));
        }
        response
    }
}

/// Three ways to miss the schema, one after the other.
fn malformed(classification: &Value, number: u64) -> String {
    match number % 3 {
        0 => "Sure! This ticket looks like a billing question to me.".to_owned(),
        1 => {
            let mut wrong = classification.clone();
            wrong["category"] = json!("miscellaneous stuff");
            wrong.to_string()
        }
        _ => json!({"label": classification["category"]}).to_string(),
    }
}

/// Labels as the prompt lists them: "- key: description", each with its examples indented below.
fn described_labels(system: &str) -> Vec<Label> {
    let Some((_, listed)) = system.split_once("\nLabels:\n") else { return Vec::new() };
    let mut labels: Vec<Label> = Vec::new();
    for line in listed.lines() {
        if let Some((key, text)) = line.strip_prefix("- ").and_then(|line| line.split_once(": ")) {
            labels.push(Label { key: key.to_owned(), text: text.to_owned() });
        } else if let Some(label) = labels.last_mut().filter(|_| line.starts_with("  - ")) {
            label.text.push(' ');
            label.text.push_str(line);
        }
    }
    labels
}

/// The text of a content field, which is a text or a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
