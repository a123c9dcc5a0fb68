//! The `anthropic` dialect: Messages.
//!
//! Sources: `POST /v1/messages`, "Structured outputs" and "Errors" of Anthropic's API reference.

use chrono::{DateTime, Utc};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::client::{Client, key_header};
use super::endpoint::endpoint;
use super::envelope::{Content, RawAnswer, is_whole_object, safe};
use super::failure::Failure;
use super::request::{Request, Usage};
use super::settings::{LaneFault, LaneKind, LaneSettings, SchemaMode};

/// The version of the API that this dialect was written against.
const VERSION: &str = "2023-06-01";
/// The tool that the model is made to call where schemas are not supported.
const TOOL_NAME: &str = "classification";

/// A client for one lane.
#[derive(Debug)]
pub(super) struct Anthropic {
    client: Client,
    model: String,
    output_tokens_max: u32,
    extra_body: Map<String, Value>,
}

impl Anthropic {
    /// Builds the lane's client.
    pub(super) fn build(settings: &LaneSettings, base_url: &str) -> Result<Self, LaneFault> {
        let url = endpoint(LaneKind::Anthropic, base_url)
            .map_err(|source| LaneFault::Endpoint { lane: settings.name.clone(), source })?;
        let mut headers: HeaderMap = key_header(settings, "x-api-key", "")?.into_iter().collect();
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(VERSION));
        Ok(Self {
            model: settings.model.clone(),
            output_tokens_max: settings.output_tokens_max.get(),
            extra_body: settings.extra_body.clone(),
            client: Client::build(settings, url, headers)?,
        })
    }

    /// Sends one call.
    pub(super) async fn call(&self, request: &Request<'_>, mode: SchemaMode) -> Result<RawAnswer, Failure> {
        self.client.post(&self.body(request, mode)).await
    }

    fn body(&self, request: &Request<'_>, mode: SchemaMode) -> Value {
        let mut body = self.extra_body.clone();
        body.insert("model".into(), json!(self.model));
        body.insert("max_tokens".into(), json!(self.output_tokens_max.saturating_mul(request.output_factor)));
        body.insert("system".into(), json!(request.prompt.system));
        body.insert("messages".into(), json!([{"role": "user", "content": request.prompt.user}]));
        body.insert("stream".into(), json!(false));
        let schema = &request.prompt.schema;
        match mode {
            SchemaMode::JsonSchema => {
                body.insert(
                    "output_config".into(),
                    json!({"format": {"type": "json_schema", "schema": schema}}),
                );
            }
            SchemaMode::ForcedTool => {
                let tool = json!({
                    "name": TOOL_NAME,
                    "description": "Records the classification of the ticket.",
                    "input_schema": schema,
                });
                body.insert("tools".into(), json!([tool]));
                body.insert("tool_choice".into(), json!({"type": "tool", "name": TOOL_NAME}));
            }
            // This dialect has no mode for just any JSON.
            SchemaMode::JsonObject | SchemaMode::PromptOnly => {}
        }
        Value::Object(body)
    }
}

/// Reads the envelope of an answer, outermost layer first.
pub(super) fn read(raw: RawAnswer, now: DateTime<Utc>) -> Result<Content, Failure> {
    let body = raw.into_json(now)?;
    let stop = body.get("stop_reason").and_then(Value::as_str);
    let blocks = body.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text: String = blocks
        .iter()
        .filter(|block| block.get("type").is_none_or(|kind| kind == "text"))
        .filter_map(|block| block.get("text").and_then(Value::as_str))
        .collect();
    if stop == Some("refusal") {
        let said = if text.trim().is_empty() { "stop reason refusal" } else { &text };
        return Err(Failure::Refused(safe(said)));
    }
    let input = blocks.iter().find_map(|block| {
        let is_call = block.get("type").is_some_and(|kind| kind == "tool_use");
        block.get("input").filter(|input| is_call && input.is_object())
    });
    let completion = match input {
        Some(input) => input.to_string(),
        None => text,
    };
    // A tool call that was cut off still has an object for its input, with fields missing.
    let is_cut = input.is_some() || !is_whole_object(&completion);
    if matches!(stop, Some("max_tokens" | "model_context_window_exceeded")) && is_cut {
        return Err(Failure::OutputTruncated);
    }
    if completion.trim().is_empty() {
        return Err(Failure::OutputEmpty(safe(stop.unwrap_or("none"))));
    }
    Ok(Content {
        completion,
        model: body.get("model").and_then(Value::as_str).map(safe),
        usage: usage(&body),
    })
}

/// `input_tokens` leaves cached tokens out, so they are added.
fn usage(body: &Value) -> Option<Usage> {
    let usage = body.get("usage")?;
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
    let cached: u64 =
        cached.into_iter().filter_map(|field| usage.get(field)?.as_u64()).fold(0, u64::saturating_add);
    Some(Usage {
        input_tokens: usage.get("input_tokens")?.as_u64()?.saturating_add(cached),
        output_tokens: usage.get("output_tokens")?.as_u64()?,
    })
}

#[cfg(test)]
mod tests;
