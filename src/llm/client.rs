//! The HTTP client of a lane: one call, bounded in time and in bytes.
//!
//! **Invariants**
//! - One function builds clients, and it installs the TLS provider first: reqwest without one
//!   panics at `build`.
//! - A redirect is not followed: it would carry the key to another host.
//! - There is no retry here but one: when a pooled connection turns out to have been closed by
//!   the server before the answer began, the call is sent once more on a fresh one. Protocol
//!   refusals of HTTP/2, which by definition were not processed, are repeated by reqwest.

use std::error::Error as StdError;
use std::sync::Mutex;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use super::endpoint::is_loopback;
use super::envelope::{RawAnswer, safe};
use super::failure::Failure;
use super::settings::{LaneFault, LaneSettings};

/// How long an idle connection is kept; servers close theirs after 60 s and more, so ours go first.
const POOL_IDLE: Duration = Duration::from_secs(45);
/// A connection that was dead on arrival says so at once; what breaks later may have been read.
const STALE_WITHIN: Duration = Duration::from_secs(1);
/// Of an error page no more than this is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// A client for one URL with one set of headers.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    url: Url,
    total_timeout: Duration,
    answer_bytes_max: usize,
    /// When a call last ended well, which is when its connection went into the pool.
    pooled_at: Mutex<Option<Instant>>,
}

impl Client {
    /// Builds the client for `url` that sends `headers` with each call.
    pub(super) fn build(settings: &LaneSettings, url: Url, headers: HeaderMap) -> Result<Self, LaneFault> {
        // A second installation is refused, which is as good as the first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("hooktriage/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.read_timeout)
            .timeout(settings.total_timeout)
            .pool_idle_timeout(POOL_IDLE);
        if !settings.use_proxy || is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let http =
            builder.build().map_err(|source| LaneFault::Client { lane: settings.name.clone(), source })?;
        Ok(Self {
            http,
            url,
            total_timeout: settings.total_timeout,
            answer_bytes_max: settings.answer_bytes_max,
            pooled_at: Mutex::new(None),
        })
    }

    /// Sends one call and reads the whole answer. Dropping the future closes the connection.
    pub(super) async fn post(&self, body: &Value) -> Result<RawAnswer, Failure> {
        let calls = async {
            let started = Instant::now();
            match self.post_once(body).await {
                Err(Broken::BeforeAnswer(_)) if self.may_be_stale(started) => {
                    tracing::debug!(url = %self.url.host_str().unwrap_or_default(), "stale connection, sent again");
                    self.post_once(body).await
                }
                outcome => outcome,
            }
        };
        let outcome = match tokio::time::timeout(self.total_timeout, calls).await {
            Ok(outcome) => outcome.map_err(|broken| self.failure(broken)),
            Err(_) => Err(Failure::TimedOut(self.total_timeout)),
        };
        if outcome.is_ok() {
            *self.pooled_at() = Some(Instant::now());
        }
        outcome
    }

    async fn post_once(&self, body: &Value) -> Result<RawAnswer, Broken> {
        let request = self.http.post(self.url.clone()).json(body);
        let mut response = request.send().await.map_err(|error| {
            if is_closed_early(&error) { Broken::BeforeAnswer(error) } else { Broken::Other(error) }
        })?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let limit = if status.is_success() { self.answer_bytes_max } else { ERROR_BYTES_MAX };
        let mut read = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(Broken::Other)? {
            if read.len() + chunk.len() > limit {
                if status.is_success() {
                    return Err(Broken::TooLarge);
                }
                read.extend_from_slice(&chunk[..limit - read.len()]);
                break;
            }
            read.extend_from_slice(&chunk);
        }
        Ok(RawAnswer { status: status.as_u16(), headers, body: read })
    }

    /// Whether a connection may have waited in the pool, and broke as fast as a dead one does.
    fn may_be_stale(&self, started: Instant) -> bool {
        let was_pooled = self.pooled_at().is_some_and(|at| started.duration_since(at) <= POOL_IDLE);
        was_pooled && started.elapsed() <= STALE_WITHIN
    }

    fn pooled_at(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.pooled_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn failure(&self, broken: Broken) -> Failure {
        match broken {
            Broken::TooLarge => Failure::AnswerTooLarge(self.answer_bytes_max),
            Broken::BeforeAnswer(error) | Broken::Other(error) => {
                let error = error.without_url();
                if error.is_connect() {
                    Failure::ConnectFailed(safe(&chain(&error)))
                } else if error.is_timeout() {
                    Failure::TimedOut(self.total_timeout)
                } else {
                    Failure::ConnectionLost(safe(&chain(&error)))
                }
            }
        }
    }
}

/// How one call broke.
enum Broken {
    /// The connection was closed before the answer began.
    BeforeAnswer(reqwest::Error),
    /// Any other fault of the transport.
    Other(reqwest::Error),
    /// The answer is longer than the limit.
    TooLarge,
}

/// The header that carries the key, marked so that no log shows it.
pub(super) fn key_header(
    settings: &LaneSettings,
    default_name: &'static str,
    default_prefix: &str,
) -> Result<Option<(HeaderName, HeaderValue)>, LaneFault> {
    let Some(key) = &settings.api_key else { return Ok(None) };
    let lane = || settings.name.clone();
    let (name, prefix) = match &settings.api_key_header {
        None => (HeaderName::from_static(default_name), default_prefix),
        Some(header) => (
            HeaderName::from_bytes(header.as_bytes())
                .map_err(|_| LaneFault::HeaderUnusable { lane: lane(), header: header.clone() })?,
            "",
        ),
    };
    let value = SecretString::from(format!("{prefix}{}", key.expose_secret()));
    let mut value =
        HeaderValue::from_str(value.expose_secret()).map_err(|_| LaneFault::KeyUnusable { lane: lane() })?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

/// The text of an error with its sources: the top one only says "error sending request".
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = inner.source();
    }
    text
}

fn is_closed_early(error: &reqwest::Error) -> bool {
    if !error.is_request() || error.is_connect() || error.is_timeout() {
        return false;
    }
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(hyper) = inner.downcast_ref::<hyper::Error>()
            && (hyper.is_incomplete_message() || hyper.is_closed() || hyper.is_canceled())
        {
            return true;
        }
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            let kinds = [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::BrokenPipe];
            return kinds.contains(&io.kind());
        }
        source = inner.source();
    }
    false
}
