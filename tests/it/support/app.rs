//! The real service on a free port, with a database of its own, and what a sender or an operator
//! does to it over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use hooktriage::app::{Role, Service};
use hooktriage::config::{Config, Environment};
use hooktriage::http::TokenHash;
use hooktriage::ingest::source::Source;
use hooktriage::postgres::{ConnectTo, PoolSettings, connect};
use hooktriage::simulator::deliveries::{Outgoing, SampleDelivery, prepare, sample_delivery, tickets};
use http::{HeaderMap, Method};
use secrecy::SecretString;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::net::TcpListener;

use super::database::TestDatabase;
use super::provider::Scripted;
use super::reply::Reply;
use super::wait::eventually;

/// The bearer token of every service under test.
pub(crate) const TOKEN: &str = "it_token_0123456789abcdef";
/// The secrets of its sources, each with an older one that is still live.
pub(crate) const GITHUB_SECRETS: [&str; 2] =
    ["github-secret-of-the-integration-tests", "github-secret-before-the-rotation"];
const ZENDESK_SECRET: &str = "emVuZGVzay1zZWNyZXQtb2YtdGhlLXRlc3Rz";
/// Of the source that follows Standard Webhooks.
pub(crate) const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// What deliveries to every destination are signed with.
pub(crate) const DESTINATION_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const SHOP_SECRET: &str = "shop-secret-of-the-integration-tests";

/// How long anything that is waited for may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A source of preset `generic`.
const SHOP: &str = r#"
[[source]]
name = "shop"
preset = "generic"
scheme = { header = "X-Shop-Signature", prefix = "sha256=", id = "header:X-Shop-Delivery" }
"#;

/// A service that is about to be started.
pub(crate) struct Setup {
    server: String,
    toml: String,
    variables: Vec<(String, String)>,
    role: Role,
}

impl Setup {
    /// Takes deliveries and serves the API; works on no job.
    pub(crate) fn ingest() -> Self {
        Self { role: Role::Ingest, ..Self::all() }
    }

    /// Does everything, with the offline lane.
    pub(crate) fn all() -> Self {
        // On a busy machine a commit takes its time, and only the tests of outages are about that.
        let server = "[server]\ncommit_patience_ms = 20000\n".to_owned();
        Self { server, toml: SHOP.to_owned(), variables: vec![], role: Role::All }
    }

    /// The section `[server]`, in place of the one for tests.
    pub(crate) fn server(mut self, settings: &str) -> Self {
        self.server = format!("[server]\n{settings}\n");
        self
    }

    /// More of the configuration file.
    pub(crate) fn toml(mut self, text: &str) -> Self {
        self.toml.push_str(text);
        self
    }

    /// One more variable.
    pub(crate) fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// A provider that speaks this dialect there.
    pub(crate) fn llm(self, kind: &str, base_url: String) -> Self {
        self.variable("HOOKTRIAGE_LLM_KIND", kind)
            .variable("HOOKTRIAGE_LLM_BASE_URL", base_url)
            .variable("HOOKTRIAGE_LLM_MODEL", "model-x")
            .variable("HOOKTRIAGE_LLM_API_KEY", "sk-test")
    }

    /// A destination inside this machine.
    pub(crate) fn destination(self, name: &str, url: &str) -> Self {
        let variable = format!("HOOKTRIAGE_DESTINATION_SECRET_{}", name.to_uppercase());
        self.toml(&format!("[[destination]]\nname = \"{name}\"\nurl = \"{url}\"\nallow_private = true\n"))
            .variable(&variable, DESTINATION_SECRET)
    }

    pub(crate) async fn start(self) -> TestApp {
        let database = TestDatabase::new().await;
        let github = GITHUB_SECRETS.join(",");
        let mut pairs = vec![
            ("HOOKTRIAGE_ADMIN_TOKEN", TOKEN),
            ("HOOKTRIAGE_SECRET_GITHUB", github.as_str()),
            ("HOOKTRIAGE_SECRET_ZENDESK", ZENDESK_SECRET),
            ("HOOKTRIAGE_SECRET_STANDARD_WEBHOOKS", STANDARD_SECRET),
            ("HOOKTRIAGE_SECRET_SHOP", SHOP_SECRET),
        ];
        pairs.extend(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let config =
            Config::read("it.toml", Some(&format!("{}{}", self.server, self.toml)), Environment::of(&pairs))
                .unwrap_or_else(|faults| panic!("{faults}"));
        let pool = pool_of(&database).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let token = TokenHash::of(&SecretString::from(TOKEN));
        let service = Service::start(&config, self.role, pool.clone(), listener, token).await.unwrap();
        TestApp { address: service.address(), database, config, service, pool, http: client(), kept: vec![] }
    }
}

async fn pool_of(database: &TestDatabase) -> PgPool {
    let settings = PoolSettings { connections_max: 12, ..PoolSettings::default() };
    connect(&ConnectTo::from_url(&database.url().into()).unwrap(), &settings).await.unwrap()
}

pub(crate) fn client() -> reqwest::Client {
    // A second installation is refused, which is as good as the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().timeout(SOON).build().unwrap()
}

/// A running service.
pub(crate) struct TestApp {
    pub(crate) address: SocketAddr,
    pub(crate) database: TestDatabase,
    pub(crate) config: Config,
    pub(crate) http: reqwest::Client,
    /// The service's own sessions.
    pub(crate) pool: PgPool,
    service: Service,
    kept: Vec<Scripted>,
}

impl TestApp {
    /// The same service; somebody outside whom it needs lives as long.
    pub(crate) fn keeping(mut self, outsider: Scripted) -> Self {
        self.kept.push(outsider);
        self
    }

    /// The address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn source(&self, name: &str) -> &Source {
        self.config.sources.iter().find(|source| source.name() == name).unwrap()
    }

    /// The headers that the sender of a source would put on a body now, with a fresh delivery id.
    pub(crate) fn signed(&self, source: &str, body: &[u8]) -> HeaderMap {
        self.signed_at(source, body, None, Utc::now())
    }

    /// The same with an id of the test's choice, at some time.
    pub(crate) fn signed_at(
        &self,
        source: &str,
        body: &[u8],
        delivery_id: Option<&str>,
        now: DateTime<Utc>,
    ) -> HeaderMap {
        let source = self.source(source);
        let path = format!("/webhooks/{}", source.name());
        let outgoing =
            Outgoing { preset: source.preset(), target: &path, body, event_type: None, delivery_id };
        prepare(source.scheme(), source.secrets().first(), &outgoing, now).unwrap()
    }

    /// A sample ticket as the sender of a source would deliver it; the same number is the same ticket.
    pub(crate) fn sample(&self, source: &str, number: usize) -> SampleDelivery {
        let ticket = &tickets()[number % tickets().len()];
        sample_delivery(self.source(source), ticket, number as u64, Utc::now()).unwrap()
    }

    pub(crate) async fn send(&self, delivery: &SampleDelivery) -> Reply {
        self.post(&delivery.path, delivery.headers.clone(), delivery.body.clone()).await
    }

    /// Delivers a body as the sender of a source would.
    pub(crate) async fn deliver(&self, source: &str, body: impl Into<Vec<u8>>) -> Reply {
        let body = body.into();
        self.post(&format!("/webhooks/{source}"), self.signed(source, &body), body).await
    }

    /// Posts bytes under headers, without the token.
    pub(crate) async fn post(&self, path: &str, headers: HeaderMap, body: impl Into<Vec<u8>>) -> Reply {
        Reply::of(self.http.post(self.url(path)).headers(headers).body(body.into())).await
    }

    /// Reads with the token.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        Reply::of(self.http.get(self.url(path)).bearer_auth(TOKEN)).await
    }

    /// Posts JSON with the token.
    pub(crate) async fn post_json(&self, path: &str, body: &Value) -> Reply {
        Reply::of(self.http.post(self.url(path)).bearer_auth(TOKEN).json(body)).await
    }

    /// Any request, without the token.
    pub(crate) async fn bare(&self, method: Method, path: &str) -> Reply {
        Reply::of(self.http.request(method, self.url(path))).await
    }

    /// Submits a ticket over REST and returns the id of its job.
    pub(crate) async fn submit(&self, subject: &str, body: &str) -> String {
        let reply = self.post_json("/v1/tickets", &json!({"subject": subject, "body": body})).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        reply.text("/job_id")
    }

    pub(crate) async fn job(&self, job_id: &str) -> Value {
        let reply = self.get(&format!("/v1/jobs/{job_id}")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    /// The job once it has ended.
    pub(crate) async fn ended(&self, job_id: &str) -> Value {
        self.job_when(job_id, |job| job["finished_at"].is_string()).await
    }

    /// The job once something is true of it.
    pub(crate) async fn job_when(&self, job_id: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually(SOON, || async {
            let job = self.job(job_id).await;
            is(&job).then_some(job)
        })
        .await
    }

    /// The items of a list.
    pub(crate) async fn items(&self, path: &str) -> Vec<Value> {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["items"].as_array().unwrap().clone()
    }

    /// How many rows a table has.
    pub(crate) async fn count(&self, table: &'static str) -> i64 {
        let statement = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
        sqlx::query_scalar(statement).fetch_one(self.database.pool()).await.unwrap()
    }

    /// Turns readiness off, as the first step of a stop does.
    pub(crate) async fn announce_stop(&self, notice: Duration) {
        self.service.announce_stop(notice).await;
    }

    /// Stops as SIGTERM does.
    pub(crate) async fn stop(self, drain: Duration) {
        self.service.stop(drain).await;
    }
}
