//! Configuration: defaults, then `hooktriage.toml`, then the environment.
//!
//! The only reader of files and environment. It collects all faults and prints them together, so
//! that an operator mends a configuration in one go. Secrets come from the environment or from
//! files that it names, never from the TOML.
//!
//! **Not here:** what the settings mean; each module defines the type of its own.

mod document;
mod environment;
mod fault;
mod llm;
mod queue;
mod routing;
mod server;
mod sources;
mod taxonomy;
pub mod variables;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;

use document::{File, Section};
pub use environment::Environment;
pub use fault::{Fault, Faults};
pub use queue::QueueConfig;
pub use server::{LogFormat, LogSettings, default_data_dir};

use crate::domain::{DestinationName, RuleSet, Taxonomy, VerdictPolicy};
use crate::ingest::source::Source;
use crate::llm::LaneSettings;
use crate::routing::DestinationSettings;

/// Everything that can be configured, checked.
#[derive(Debug)]
pub struct Config {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Where to keep what must outlive a restart.
    pub data_dir: PathBuf,
    /// Where Postgres is; `None` runs one of our own.
    pub database_url: Option<SecretString>,
    /// Where the programs of Postgres are; `None` searches for them.
    pub pg_bin: Option<PathBuf>,
    /// Asked for by `/v1`; `None` makes one and keeps it in the data folder.
    pub admin_token: Option<SecretString>,
    /// Where the command line finds the service.
    pub service_url: String,
    /// Largest delivery, in bytes.
    pub body_bytes_max: usize,
    /// How long a sender waits for its commit before it is told to come back.
    pub commit_patience: Duration,
    /// Configured senders.
    pub sources: Vec<Source>,
    /// The queue of triage jobs.
    pub triage: QueueConfig,
    /// The queue of deliveries and alerts.
    pub routing: QueueConfig,
    /// The lane that classifies.
    pub lane: LaneSettings,
    /// Allowed labels.
    pub taxonomy: Taxonomy,
    /// How a verdict is drawn.
    pub policy: VerdictPolicy,
    /// Where verdicts go.
    pub rules: RuleSet,
    /// Where can be sent to.
    pub destinations: Vec<DestinationSettings>,
    /// Where alerts go.
    pub alerts: Option<DestinationName>,
    /// What is logged.
    pub log: LogSettings,
    /// For the Postgres of our own.
    pub environment: Environment,
}

/// What it takes to talk to the service: the command line needs no more.
#[derive(Clone, Debug)]
pub struct Access {
    /// Where the service is.
    pub service_url: String,
    /// What `/v1` asks for; `None` is kept in the data folder.
    pub admin_token: Option<SecretString>,
    /// Where a token that was made is kept.
    pub data_dir: PathBuf,
}

impl Access {
    /// Reads what concerns the service's address and token, and nothing else: whoever looks at jobs
    /// from a laptop does not have the secrets of all sources.
    ///
    /// # Errors
    /// Every fault found in that part.
    pub fn load(file: Option<&Path>) -> Result<Self, Faults> {
        let environment = Environment::of_process();
        let (name, text) = config_file(file, &environment)?;
        let faults = RefCell::new(vec![]);
        let file =
            text.map(|text| File::parse(&name, &text)).transpose().map_err(|fault| Faults(vec![fault]))?;
        let root = file.as_ref().map_or_else(|| Section::absent(&faults), |file| file.root(&faults));
        let env = Env { environment: &environment, faults: &faults };
        let server = server::read(root.section("server"), &env);
        let found = faults.take();
        match server.service_url {
            Some(service_url) if found.is_empty() => {
                Ok(Self { service_url, admin_token: server.admin_token, data_dir: server.data_dir })
            }
            _ => Err(Faults(found)),
        }
    }
}

impl Config {
    /// The file that is read when none is named.
    pub const FILE_DEFAULT: &'static str = "hooktriage.toml";

    /// Reads the configuration of this process.
    ///
    /// # Errors
    /// Every fault found.
    pub fn load(file: Option<&Path>) -> Result<Self, Faults> {
        let environment = Environment::of_process();
        let (name, text) = config_file(file, &environment)?;
        Self::read(&name, text.as_deref(), environment)
    }

    /// What it takes to talk to this service.
    #[must_use]
    pub fn access(&self) -> Access {
        Access {
            service_url: self.service_url.clone(),
            admin_token: self.admin_token.clone(),
            data_dir: self.data_dir.clone(),
        }
    }

    /// Reads a configuration from the text of a file, if there is one, and an environment.
    ///
    /// # Errors
    /// Every fault found.
    pub fn read(name: &str, text: Option<&str>, environment: Environment) -> Result<Self, Faults> {
        let faults = RefCell::new(environment.unknown());
        let file = match text.map(|text| File::parse(name, text)).transpose() {
            Ok(file) => file,
            Err(fault) => {
                faults.borrow_mut().push(fault);
                Self::check_environment(&environment, &faults);
                return Err(Faults(faults.take()));
            }
        };
        let root = file.as_ref().map_or_else(|| Section::absent(&faults), |file| file.root(&faults));
        let config = Self::of_sections(&root, environment, &faults);
        root.finish();
        let found = faults.take();
        match config {
            Some(config) if found.is_empty() => Ok(config),
            _ => Err(Faults(found)),
        }
    }

    /// Finds the faults of variables that mean the same whatever a file says.
    fn check_environment(environment: &Environment, faults: &RefCell<Vec<Fault>>) {
        let env = Env { environment, faults };
        let absent = Section::absent(faults);
        server::read(absent.section("server"), &env);
        queue::read(absent.section("queue"), &env);
    }

    fn of_sections(
        root: &Section<'_>,
        environment: Environment,
        faults: &RefCell<Vec<Fault>>,
    ) -> Option<Self> {
        let env = Env { environment: &environment, faults };
        let server = server::read(root.section("server"), &env);
        let (triage, routing) = queue::read(root.section("queue"), &env);
        let lane = llm::read(root.section("llm"), &env, triage.worker.job_timeout);
        let (taxonomy, policy) = taxonomy::read(root.section("taxonomy"));
        let (sources, source_names) = sources::read(root.sections("source"), &env);
        let routes = routing::read(root, &env, taxonomy.as_ref(), &source_names);
        Some(Self {
            listen: server.listen?,
            data_dir: server.data_dir,
            database_url: server.database_url,
            pg_bin: server.pg_bin,
            admin_token: server.admin_token,
            service_url: server.service_url?,
            body_bytes_max: server.body_bytes_max,
            commit_patience: server.commit_patience,
            sources,
            triage,
            routing,
            lane: lane?,
            taxonomy: taxonomy?,
            policy,
            rules: routes.rules,
            destinations: routes.destinations,
            alerts: routes.alerts,
            log: server.log,
            environment: environment.clone(),
        })
    }
}

/// The name and the text of the configuration file; no text where there is none and none was named.
fn config_file(file: Option<&Path>, environment: &Environment) -> Result<(String, Option<String>), Faults> {
    let named = file.map(Path::to_owned).or_else(|| environment.get("HOOKTRIAGE_CONFIG").map(PathBuf::from));
    let path = named.clone().unwrap_or_else(|| PathBuf::from(Config::FILE_DEFAULT));
    let name = path.display().to_string();
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok((name, Some(text))),
        Err(cause) if named.is_none() && cause.kind() == std::io::ErrorKind::NotFound => Ok((name, None)),
        Err(cause) => {
            let problem = format!("the file cannot be read: {cause}");
            Err(Faults(vec![Fault { place: name, problem }]))
        }
    }
}

/// The environment with a place for faults.
struct Env<'a> {
    environment: &'a Environment,
    faults: &'a RefCell<Vec<Fault>>,
}

impl Env<'_> {
    fn text(&self, name: &str) -> Option<String> {
        self.environment.get(name).map(str::to_owned)
    }

    fn secret(&self, name: &str) -> Option<SecretString> {
        match self.environment.secret(name) {
            Ok(secret) => secret.map(SecretString::from),
            Err(fault) => {
                self.faults.borrow_mut().push(fault);
                None
            }
        }
    }

    fn fault(&self, place: &str, problem: impl Into<String>) {
        self.faults.borrow_mut().push(Fault { place: place.to_owned(), problem: problem.into() });
    }
}

#[cfg(test)]
mod tests;
