//! The `openai` dialect: chat completions, as OpenAI and its many copies speak them.
//!
//! Sources: `POST /v1/chat/completions` of OpenAI's API reference; the deviations of Azure,
//! OpenRouter, Ollama, vLLM, llama.cpp, Groq and Mistral are listed in `docs/PROVIDERS.md`.

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};
use url::Url;

use super::client::{Client, key_header};
use super::endpoint::endpoint;
use super::envelope::{Content, RawAnswer, in_band, is_whole_object, safe};
use super::failure::Failure;
use super::request::{Request, Usage};
use super::settings::{LaneFault, LaneKind, LaneSettings, OutputLimitField, SchemaMode};

/// The name under which the schema goes out.
const SCHEMA_NAME: &str = "classification";

/// A client for one lane.
#[derive(Debug)]
pub(super) struct OpenAi {
    client: Client,
    model: String,
    output_tokens_max: u32,
    output_limit_field: Option<&'static str>,
    extra_body: Map<String, Value>,
}

impl OpenAi {
    /// Builds the lane's client.
    pub(super) fn build(settings: &LaneSettings, base_url: &str) -> Result<Self, LaneFault> {
        let url = endpoint(LaneKind::OpenAi, base_url)
            .map_err(|source| LaneFault::Endpoint { lane: settings.name.clone(), source })?;
        let headers: HeaderMap = key_header(settings, "authorization", "Bearer ")?.into_iter().collect();
        Ok(Self {
            model: settings.model.clone(),
            output_tokens_max: settings.output_tokens_max.get(),
            output_limit_field: limit_field(settings.output_limit_field, &url),
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
        body.insert(
            "messages".into(),
            json!([
                {"role": "system", "content": request.prompt.system},
                {"role": "user", "content": request.prompt.user},
            ]),
        );
        // Always said: some gateways stream unless told otherwise.
        body.insert("stream".into(), json!(false));
        if let Some(field) = self.output_limit_field {
            body.insert(field.into(), json!(self.output_tokens_max.saturating_mul(request.output_factor)));
        }
        let schema = &request.prompt.schema;
        match mode {
            SchemaMode::JsonSchema => {
                let named = json!({"name": SCHEMA_NAME, "strict": true, "schema": schema});
                body.insert("response_format".into(), json!({"type": "json_schema", "json_schema": named}));
            }
            SchemaMode::ForcedTool => {
                let function = json!({"name": SCHEMA_NAME, "strict": true, "parameters": schema});
                body.insert("tools".into(), json!([{"type": "function", "function": function}]));
                let choice = json!({"type": "function", "function": {"name": SCHEMA_NAME}});
                body.insert("tool_choice".into(), choice);
            }
            SchemaMode::JsonObject => {
                body.insert("response_format".into(), json!({"type": "json_object"}));
            }
            SchemaMode::PromptOnly => {}
        }
        Value::Object(body)
    }
}

fn limit_field(setting: OutputLimitField, url: &Url) -> Option<&'static str> {
    let host = url.host_str().unwrap_or_default();
    let is_openai = host == "api.openai.com" || host.ends_with(".azure.com");
    match setting {
        OutputLimitField::Omit => None,
        OutputLimitField::MaxTokens => Some("max_tokens"),
        OutputLimitField::MaxCompletionTokens => Some("max_completion_tokens"),
        OutputLimitField::ByHost if is_openai => Some("max_completion_tokens"),
        OutputLimitField::ByHost => Some("max_tokens"),
    }
}

/// Reads the envelope of an answer, outermost layer first.
pub(super) fn read(raw: RawAnswer, now: DateTime<Utc>) -> Result<Content, Failure> {
    let headers = raw.headers.clone();
    let body = raw.into_json(now)?;
    let choice = body.get("choices").and_then(|choices| choices.get(0));
    let finish = choice.and_then(|choice| choice.get("finish_reason")).and_then(Value::as_str);
    // OpenRouter commits its 200 before the model runs, and reports a late fault in the choice.
    if let Some(choice) = choice
        && (finish == Some("error") || choice.get("error").is_some_and(Value::is_object))
    {
        return Err(in_band(choice, &headers, now));
    }
    if finish == Some("content_filter") {
        return Err(Failure::ContentFiltered("finish reason content_filter".into()));
    }
    let message = choice.and_then(|choice| choice.get("message")).unwrap_or(&Value::Null);
    if let Some(refusal) = refusal(message) {
        return Err(Failure::Refused(safe(refusal)));
    }
    let completion = completion(message);
    if finish == Some("length") && !completion.as_deref().is_some_and(is_whole_object) {
        return Err(Failure::OutputTruncated);
    }
    let Some(completion) = completion else {
        return Err(Failure::OutputEmpty(safe(finish.unwrap_or("none"))));
    };
    Ok(Content {
        completion,
        model: body.get("model").and_then(Value::as_str).map(safe),
        usage: usage(&body),
    })
}

/// A refusal, which may stand beside content that is null, empty or even text.
fn refusal(message: &Value) -> Option<&str> {
    let parts = message.get("content").and_then(Value::as_array).into_iter().flatten();
    let in_parts = parts.filter_map(|part| part.get("refusal").and_then(Value::as_str));
    let mut all = message.get("refusal").and_then(Value::as_str).into_iter().chain(in_parts);
    all.find(|refusal| !refusal.trim().is_empty())
}

/// The text of the answer, wherever this server puts it.
fn completion(message: &Value) -> Option<String> {
    let content = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    };
    if !content.trim().is_empty() {
        return Some(content);
    }
    let arguments = message.pointer("/tool_calls/0/function/arguments");
    match arguments {
        Some(Value::String(text)) if !text.trim().is_empty() => return Some(text.clone()),
        // Ollama's native shape, which some gateways pass on.
        Some(object @ Value::Object(_)) => return Some(object.to_string()),
        _ => {}
    }
    // Some servers leave the content null and put the answer beside the reasoning. Thoughts are no
    // answer, so only a whole object is taken for one.
    let beside = ["reasoning_content", "reasoning"];
    let mut texts = beside.into_iter().filter_map(|field| message.get(field).and_then(Value::as_str));
    texts.find(|text| is_whole_object(text)).map(str::to_owned)
}

fn usage(body: &Value) -> Option<Usage> {
    let usage = body.get("usage")?;
    Some(Usage {
        input_tokens: usage.get("prompt_tokens")?.as_u64()?,
        output_tokens: usage.get("completion_tokens")?.as_u64()?,
    })
}

#[cfg(test)]
mod tests;
