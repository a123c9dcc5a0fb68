//! The stage: a service with a database of its own, a provider and teams that are simulated.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::client::Client;
use super::super::{CliError, output};
use super::mind;
use crate::app::{Database, Role, Service, open_database};
use crate::config::{Config, Environment};
use crate::http::TokenHash;
use crate::ingest::signature::{KeyEncoding, Secret};
use crate::ingest::source::Source;
use crate::simulator::deliveries::{UNCLASSIFIABLE_PHRASE, tickets};
use crate::simulator::inbox::Inbox;
use crate::simulator::provider::{Burst, BurstLength, ProviderSettings, Refusal, RefusalKind, serve_with};

/// Where the teams are, and which verdicts go to whom.
const ROUTES: &str = r#"
[[rule]]
needs_review = true
to = "people"
[[rule]]
category = ["security"]
to = "security-team"
[[rule]]
priority = ["urgent"]
to = "on-call"
[[rule]]
category = ["billing", "cancellation_refund"]
to = "finance"
[[rule]]
category = ["bug_report", "outage", "integration"]
to = "engineering"
[routing]
fallback = "support"
alerts = "on-call"
"#;
const TEAMS: [&str; 6] = ["people", "security-team", "on-call", "finance", "engineering", "support"];

/// Everything that runs for the demo.
pub(super) struct Stage {
    pub(super) config: Config,
    pub(super) inbox: Inbox,
    pub(super) service: Service,
    token: SecretString,
    provider: SocketAddr,
    database: Database,
    extras: CancellationToken,
    tasks: Vec<JoinHandle<std::io::Result<()>>>,
    _folder: TempDir,
}

impl Stage {
    /// Starts everything.
    pub(super) async fn set(environment: &Environment) -> Result<Self, CliError> {
        output::remark(
            "starting a Postgres of our own, the service, a simulated LLM provider and six teams …",
        );
        let extras = CancellationToken::new();
        let folder = folder()?;
        let team_secret = whsec();
        let secret = Secret::parse(&team_secret, KeyEncoding::Whsec).map_err(anyhow::Error::from)?;
        let inbox = Inbox::new(secret);
        let (teams, provider) = (listen_anywhere().await?, listen_anywhere().await?);
        let (teams_at, provider_at) = (address(&teams)?, address(&provider)?);
        let tasks = vec![
            tokio::spawn(inbox.clone().serve(teams, extras.clone().cancelled_owned())),
            tokio::spawn(serve_with(
                provider,
                provider_settings(),
                mind::encoder(),
                extras.clone().cancelled_owned(),
            )),
        ];
        let listener = listen(environment).await?;
        let token = format!("demo_{}", hex::encode(rand::random::<[u8; 16]>()));
        let mut pairs = vec![
            ("HOOKTRIAGE_LISTEN", address(&listener)?.to_string()),
            ("HOOKTRIAGE_DATA_DIR", folder.path().display().to_string()),
            ("HOOKTRIAGE_ADMIN_TOKEN", token.clone()),
            ("HOOKTRIAGE_SECRET_GITHUB", hex::encode(rand::random::<[u8; 24]>())),
            ("HOOKTRIAGE_SECRET_ZENDESK", STANDARD.encode(rand::random::<[u8; 24]>())),
            ("HOOKTRIAGE_SECRET_STANDARD_WEBHOOKS", whsec()),
            ("HOOKTRIAGE_LLM_KIND", "openai".to_owned()),
            ("HOOKTRIAGE_LLM_BASE_URL", format!("http://{provider_at}/v1")),
            ("HOOKTRIAGE_LLM_MODEL", "simulated".to_owned()),
        ];
        let names: Vec<String> = TEAMS.iter().map(|team| secret_variable(team)).collect();
        pairs.extend(names.iter().map(|name| (name.as_str(), team_secret.clone())));
        let environment = environment.with(&["HOOKTRIAGE_PG_BIN", "HOME"], &pairs);
        let config = Config::read("the demo's configuration", Some(&routes(teams_at)), environment)?;
        let database = open_database(&config).await?;
        let hash = TokenHash::of(&SecretString::from(token.clone()));
        let service = Service::start(&config, Role::All, database.pool.clone(), listener, hash).await?;
        let token = SecretString::from(token);
        Ok(Self {
            config,
            inbox,
            service,
            token,
            provider: provider_at,
            database,
            extras,
            tasks,
            _folder: folder,
        })
    }

    /// Says what runs where.
    pub(super) fn introduce(&self) {
        let paths: Vec<String> =
            self.config.sources.iter().map(|source| format!("/webhooks/{}", source.name())).collect();
        output::remark(&format!("service   {}   {}", self.url(), paths.join("  ")));
        output::remark(&format!(
            "provider  http://{}/v1   fails on purpose: some 500s, a burst of 429, and it refuses one ticket",
            self.provider
        ));
        output::remark("");
    }

    /// Where the service is.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.service.address())
    }

    /// The token, for the commands that the demo shows.
    pub(super) fn token(&self) -> SecretString {
        self.token.clone()
    }

    /// A client as the command line uses it.
    pub(super) fn client(&self) -> Result<Client, CliError> {
        Client::new(&self.url(), Some(self.token()))
    }

    /// How many jobs the stream makes: one for each different ticket.
    pub(super) fn expected_jobs(&self) -> usize {
        tickets().len()
    }

    /// The source that the n-th ticket is sent through.
    pub(super) fn source(&self, number: usize) -> &Source {
        &self.config.sources[number % self.config.sources.len()]
    }

    /// Mends what made the one ticket fail, as an operator would before a replay.
    pub(super) async fn mend_provider(&self) -> Result<(), CliError> {
        Client::new(&format!("http://{}", self.provider), None)?.post("/_simulator/mend", None).await?;
        Ok(())
    }

    /// Ends everything, in order.
    pub(super) async fn strike(self) {
        self.service.stop(Duration::from_secs(5)).await;
        self.database.close().await;
        // Nobody is left who would miss an answer of theirs.
        self.extras.cancel();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn provider_settings() -> ProviderSettings {
    ProviderSettings {
        seed: 7,
        latency: Duration::from_millis(120),
        jitter: Duration::from_millis(180),
        failing: 0.1,
        burst: Some(Burst {
            after_calls: 14,
            lasts: BurstLength::Time(Duration::from_millis(1500)),
            retry_after: Duration::from_secs(2),
        }),
        refuse: Some(Refusal { phrase: UNCLASSIFIABLE_PHRASE.to_owned(), kind: RefusalKind::InvalidRequest }),
        ..ProviderSettings::default()
    }
}

fn routes(teams_at: SocketAddr) -> String {
    let destinations = TEAMS.iter().map(|team| {
        format!(
            "[[destination]]\nname = \"{team}\"\nurl = \"http://{teams_at}/{team}\"\nallow_private = true\n"
        )
    });
    destinations.chain([ROUTES.to_owned()]).collect()
}

fn secret_variable(team: &str) -> String {
    format!("HOOKTRIAGE_DESTINATION_SECRET_{}", team.to_ascii_uppercase().replace('-', "_"))
}

fn whsec() -> String {
    format!("whsec_{}", STANDARD.encode(rand::random::<[u8; 32]>()))
}

/// A folder that the account of the database can enter, too.
fn folder() -> Result<TempDir, CliError> {
    let mode = std::fs::Permissions::from_mode(0o755);
    let made = tempfile::Builder::new().prefix("hooktriage-demo-").permissions(mode).tempdir();
    Ok(made.context("no temporary folder can be made")?)
}

/// The configured address, or any free port when the usual one is taken.
async fn listen(environment: &Environment) -> Result<TcpListener, CliError> {
    let wanted = environment.get("HOOKTRIAGE_LISTEN");
    let address = wanted.unwrap_or("127.0.0.1:8080");
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(_) if wanted.is_none() => {
            output::remark(&format!("{address} is taken, so another port is used"));
            listen_anywhere().await
        }
        Err(cause) => {
            Err(CliError::Usage(format!("HOOKTRIAGE_LISTEN: {address} cannot be listened on: {cause}")))
        }
    }
}

async fn listen_anywhere() -> Result<TcpListener, CliError> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port can be listened on")?)
}

fn address(listener: &TcpListener) -> Result<SocketAddr, CliError> {
    Ok(listener.local_addr().context("the listener has no address")?)
}
