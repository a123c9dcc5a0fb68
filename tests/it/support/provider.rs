//! Somebody outside who answers by a script: a model provider, or a destination.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::app::{DESTINATION_SECRET, SOON};
use super::wait::eventually;
use http::HeaderMap;
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers};

/// A server that gives one answer after the other; the last one stays.
pub(crate) struct Scripted {
    server: MockServer,
    script: Script,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) at: Instant,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Call {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The idempotency key of a delivery, after the crate `standardwebhooks`, which is not ours, has
    /// verified its signature.
    #[track_caller]
    pub(crate) fn verified_key(&self) -> String {
        let oracle = standardwebhooks::Webhook::new(DESTINATION_SECRET).unwrap();
        oracle.verify(&self.body, &self.headers).unwrap_or_else(|fault| panic!("{fault}: {self:?}"));
        self.headers["webhook-id"].to_str().unwrap().to_owned()
    }
}

#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<ResponseTemplate>>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Respond for Script {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        self.calls.lock().unwrap().push(Call {
            at: Instant::now(),
            path: request.url.path().to_owned(),
            headers: request.headers.clone(),
            body: request.body.clone(),
        });
        let mut answers = self.answers.lock().unwrap();
        if answers.len() > 1 { answers.pop_front().unwrap() } else { answers.front().unwrap().clone() }
    }
}

impl Scripted {
    pub(crate) async fn start(answers: impl Into<VecDeque<ResponseTemplate>>) -> Self {
        let script = Script::default();
        *script.answers.lock().unwrap() = answers.into();
        let server = MockServer::start().await;
        Mock::given(matchers::any()).respond_with(script.clone()).mount(&server).await;
        Self { server, script }
    }

    /// From now on.
    pub(crate) fn answer(&self, answer: ResponseTemplate) {
        *self.script.answers.lock().unwrap() = [answer].into();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.uri())
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.script.calls.lock().unwrap().clone()
    }

    /// The calls, once there are so many.
    pub(crate) async fn called(&self, times: usize) -> Vec<Call> {
        eventually(SOON, || async {
            let calls = self.calls();
            (calls.len() >= times).then_some(calls)
        })
        .await
    }
}

/// An answer without a body.
pub(crate) fn status(code: u16) -> ResponseTemplate {
    ResponseTemplate::new(code)
}

/// A classification as a model writes it.
pub(crate) fn classification(category: &str) -> String {
    json!({
        "category": category,
        "priority": "high",
        "sentiment": "negative",
        "language": "en",
        "summary": "The customer was charged twice.",
        "confidence": 0.93,
        "reasons": ["charged twice"],
    })
    .to_string()
}

/// A completion in OpenAI's envelope.
pub(crate) fn openai(completion: &str) -> ResponseTemplate {
    openai_message(&json!({"role": "assistant", "content": completion, "refusal": null}), "stop")
}

/// Any message in OpenAI's envelope.
pub(crate) fn openai_message(message: &Value, finish_reason: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "model-x-2026-01-01",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 812, "completion_tokens": 57, "total_tokens": 869},
    }))
}

/// An error in OpenAI's envelope.
pub(crate) fn openai_error(status: u16, kind: &str, code: Option<&str>) -> ResponseTemplate {
    let error = json!({"message": "It did not work out.", "type": kind, "param": null, "code": code});
    ResponseTemplate::new(status).set_body_json(json!({ "error": error }))
}

/// A completion in Anthropic's envelope.
pub(crate) fn anthropic(completion: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "model-y-2026-01-01",
        "content": [{"type": "text", "text": completion}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 812, "output_tokens": 57},
    }))
}
