//! A provider that lets a test look on: calls wait at a gate, and the test learns that they came.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::app::SOON;
use super::provider::classification;

/// A provider of kind `openai` with a gate.
pub(crate) struct GatedProvider {
    address: SocketAddr,
    gate: Arc<Gate>,
}

struct Gate {
    calls: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

impl GatedProvider {
    /// Starts it, closed.
    pub(crate) async fn start() -> Self {
        let gate = Arc::new(Gate { calls: watch::Sender::new(0), open: watch::Sender::new(false) });
        let router =
            axum::Router::new().route("/v1/chat/completions", post(answer)).with_state(Arc::clone(&gate));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, gate }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Resolves when so many calls have come.
    pub(crate) async fn called(&self, times: usize) {
        let mut calls = self.gate.calls.subscribe();
        let enough = calls.wait_for(|calls| *calls >= times);
        tokio::time::timeout(SOON, enough).await.expect("the provider is called").unwrap();
    }

    /// Lets waiting and later calls pass.
    pub(crate) fn open(&self) {
        self.gate.open.send_replace(true);
    }
}

async fn answer(State(gate): State<Arc<Gate>>) -> Response {
    gate.calls.send_modify(|calls| *calls += 1);
    gate.open.subscribe().wait_for(|open| *open).await.unwrap();
    let message = json!({"role": "assistant", "content": classification("billing")});
    Json(json!({"model": "model-x", "choices": [{"message": message, "finish_reason": "stop"}]}))
        .into_response()
}
