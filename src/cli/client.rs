//! Talking to the service over REST, as any other program would.

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::{CliError, Common};
use crate::app::known_admin_token;
use crate::config::Access;

/// Longest a request may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(20);

/// Where the service is.
#[derive(Clone, Debug, Args)]
pub(super) struct ServiceArgs {
    /// Address of the service [default: HOOKTRIAGE_URL, else http:// and HOOKTRIAGE_LISTEN]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// A client of one service.
pub(super) struct Client {
    http: reqwest::Client,
    url: String,
    token: Option<SecretString>,
    /// Why there is no token although one is kept.
    token_fault: Option<String>,
}

impl Client {
    /// A client as the command line and the configuration say.
    pub(super) fn of(common: &Common, args: &ServiceArgs) -> Result<Self, CliError> {
        let access = Access::load(common.config.as_deref())?;
        // A token that cannot be read only matters when it is asked for.
        let (token, token_fault) = match known_admin_token(&access) {
            Ok(token) => (token, None),
            Err(fault) => (None, Some(format!("{fault:#}"))),
        };
        Ok(Self { token_fault, ..Self::new(args.url.as_deref().unwrap_or(&access.service_url), token)? })
    }

    /// A client for what asks for no token: probes and webhooks.
    pub(super) fn without_token(common: &Common, args: &ServiceArgs) -> Result<Self, CliError> {
        let access = Access::load(common.config.as_deref())?;
        Self::new(args.url.as_deref().unwrap_or(&access.service_url), None)
    }

    /// A client for an address, with a token.
    pub(super) fn new(url: &str, token: Option<SecretString>) -> Result<Self, CliError> {
        let url = url.trim_end_matches('/').to_owned();
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(CliError::Usage(format!(
                "{url:?} is no address; write for example http://127.0.0.1:8080"
            )));
        }
        // A second installation is refused, which is as good as the first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("hooktriage/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .timeout(REQUEST_TIME_MAX);
        let is_local = ["://127.", "://localhost", "://[::1]"].iter().any(|host| url.contains(host));
        if is_local {
            builder = builder.no_proxy();
        }
        let http = builder.build().context("the HTTP client could not be built")?;
        Ok(Self { http, url, token, token_fault: None })
    }

    /// Where the service is.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, CliError> {
        self.request(Method::GET, path, query, None).await
    }

    pub(super) async fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, CliError> {
        self.request(Method::POST, path, &[], body).await
    }

    /// Posts exact bytes under exact headers; the answer's status is part of the result.
    pub(super) async fn deliver(
        &self,
        path: &str,
        headers: http::HeaderMap,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Value), CliError> {
        let sent = self.http.post(format!("{}{path}", self.url)).headers(headers).body(body).send().await;
        let response = sent.map_err(|fault| self.unreachable(&fault))?;
        let status = response.status();
        let text = response.text().await.context("the answer broke off")?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    /// Asks a probe; an answer that says no is a result, too.
    pub(super) async fn probe(&self, path: &str) -> Result<(StatusCode, Value), CliError> {
        let response = self.http.get(format!("{}{path}", self.url)).send().await;
        let response = response.map_err(|fault| self.unreachable(&fault))?;
        let status = response.status();
        Ok((status, response.json().await.unwrap_or(Value::Null)))
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).query(query);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|fault| self.unreachable(&fault))?;
        let status = response.status();
        let text = response.text().await.context("the answer broke off")?;
        let value: Value = serde_json::from_str(&text).with_context(|| {
            format!("{} answered {status} with something that is no JSON; is it hooktriage?", self.url)
        })?;
        if status.is_success() { Ok(value) } else { Err(self.refused(status, &value)) }
    }

    fn unreachable(&self, fault: &reqwest::Error) -> CliError {
        let mut cause: &dyn std::error::Error = fault;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let url = &self.url;
        CliError::Failed(anyhow!(
            "nobody answers at {url} ({cause}); is `hooktriage serve` running, and is --url right?"
        ))
    }

    fn refused(&self, status: StatusCode, problem: &Value) -> CliError {
        let word = |key: &str| problem.get(key).and_then(Value::as_str);
        // Probes answer with a word of their own and no title.
        let title = word("title").or(word("status")).unwrap_or("the service refused");
        let detail = word("detail").map(|detail| format!(": {detail}")).unwrap_or_default();
        let text = format!("{title}{detail}");
        match status {
            StatusCode::NOT_FOUND => CliError::NotFound(text),
            StatusCode::CONFLICT => CliError::Conflict(text),
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => CliError::Usage(text),
            StatusCode::UNAUTHORIZED => CliError::Failed(match &self.token_fault {
                Some(fault) => anyhow!("{} asks for a token: {fault}", self.url),
                None => anyhow!(
                    "{} does not accept the token; set HOOKTRIAGE_ADMIN_TOKEN to the service's own",
                    self.url
                ),
            }),
            _ => CliError::Failed(anyhow!("{text} ({status})")),
        }
    }
}
