//! A database for each test, on one throw-away server for the whole run.
//!
//! The first test process of a run starts the server and hands it over to a small shell script that
//! waits for the runner (`cargo` or `nextest`) to end; then the server goes and its folder too. The
//! others find it running. Each test gets a copy of a template that was migrated once, which takes
//! some 30 ms. `HOOKTRIAGE_TEST_DATABASE_URL` names another server to use instead.

#![expect(clippy::disallowed_methods, reason = "tests are switched by a variable of their own")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use hooktriage::postgres::embedded::Leash;
use hooktriage::postgres::{ConnectTo, Embedded, EmbeddedSettings, PoolSettings, connect, migrate};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::process::Command;
use tokio::sync::OnceCell;
use url::Url;

use super::runner::Runner;

/// The advisory lock of whoever makes the template.
const TEMPLATE_LOCK: i64 = 0x7465_6d70_6c61_7465;

/// A database of this test's own. Dropped with the value.
pub(crate) struct TestDatabase {
    pool: PgPool,
    url: String,
    name: String,
}

impl TestDatabase {
    /// A database with the whole schema.
    pub(crate) async fn new() -> Self {
        let template = template().await;
        Self::create(&format!("template {template}")).await
    }

    /// A database without any table.
    pub(crate) async fn empty() -> Self {
        Self::create("template template0").await
    }

    async fn create(how: &str) -> Self {
        let name = format!("test_{}", uuid::Uuid::now_v7().simple());
        let mut admin = admin().await;
        run(&mut admin, format!("create database {name} {how}")).await;
        admin.close().await.expect("the session ends");
        let url = address_of(&name).await;
        Self { pool: pool_for(&url).await, url, name }
    }

    /// A pool with the limits of production, and few sessions.
    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// An address that another process can use, as `DATABASE_URL` of the real binary.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Makes the database go away: it lets nobody in, and whoever was in is thrown out.
    pub(crate) async fn shut(&self) {
        let name = &self.name;
        let mut admin = admin().await;
        run(&mut admin, format!("alter database {name} allow_connections false")).await;
        let out = format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'");
        run(&mut admin, out).await;
        admin.close().await.expect("the session ends");
    }

    /// Brings it back.
    pub(crate) async fn open(&self) {
        let mut admin = admin().await;
        run(&mut admin, format!("alter database {} allow_connections true", self.name)).await;
        admin.close().await.expect("the session ends");
    }
}

impl Drop for TestDatabase {
    /// Best effort, for the disk's sake: the server goes with the run anyway. On a thread, since a
    /// runtime cannot be blocked from within itself.
    fn drop(&mut self) {
        let name = self.name.clone();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut admin = PgConnectOptions::from_str(server().await)?.connect().await?;
                let statement = format!("drop database if exists {name} with (force)");
                sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin).await?;
                Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
            })
        };
        if let Ok(Err(error)) = std::thread::spawn(work).join() {
            tracing::warn!(error, "the database of a test was not dropped");
        }
    }
}

/// The address of the run's server.
async fn server() -> &'static str {
    static SERVER: OnceCell<String> = OnceCell::const_new();
    SERVER
        .get_or_init(|| async {
            match std::env::var("HOOKTRIAGE_TEST_DATABASE_URL") {
                Ok(url) if !url.is_empty() => url,
                _ => shared_server().await,
            }
        })
        .await
}

/// Starts the run's server or finds it running.
async fn shared_server() -> String {
    let runner = Runner::find();
    let folder = runner.folder();
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o755).create(&folder).expect("a folder for the test server");
    let owner = std::fs::metadata(&folder).expect("the folder is there").uid();
    assert_eq!(owner, rustix::process::geteuid().as_raw(), "{} is somebody else's", folder.display());
    let server = Embedded::start(throw_away(&folder)).await.unwrap_or_else(|error| panic!("{error}"));
    let url = server.url();
    if let Some(leash) = server.hand_over() {
        keep_until_gone(&runner, leash);
    }
    url
}

/// Settings of a server that nobody will miss.
pub(crate) fn throw_away(folder: &std::path::Path) -> EmbeddedSettings {
    EmbeddedSettings {
        search_path: std::env::var_os("PATH"),
        bin_dir: std::env::var_os("HOOKTRIAGE_PG_BIN").map(Into::into),
        temp_dir: std::env::temp_dir(),
        durable: false,
        connections_max: 400,
        ..EmbeddedSettings::new(folder)
    }
}

/// Holds the leash of the server until the runner has gone, then removes its folder. In a process
/// group of its own: a Ctrl-C reaches the runner, and this has to outlive it.
fn keep_until_gone(runner: &Runner, leash: Leash) {
    const SCRIPT: &str = r#"
        alive() { [ -d "/proc/$1" ] || ps -p "$1"; }
        while alive "$1" >/dev/null 2>&1; do sleep 0.2; done
        exec >&-
        for _ in 1 2 3 4 5 6 7 8 9 10; do
          [ -e "$2"/pg*/postmaster.pid ] || break
          sleep 0.2
        done
        rm -rf "$2"
    "#;
    let mut keeper = Command::new("/bin/sh");
    keeper.args(["-c", SCRIPT, "hooktriage-test-keeper", &runner.pid.to_string()]).arg(runner.folder());
    keeper.stdin(Stdio::from(leash.lock)).stdout(Stdio::from(leash.pipe)).stderr(Stdio::null());
    keeper.current_dir("/").process_group(0).spawn().expect("the keeper starts");
}

/// The name of the migrated template, made by whoever is first. It is keyed by the migrations, so a
/// server that outlives a change of them is no trap.
async fn template() -> &'static str {
    static TEMPLATE: OnceCell<String> = OnceCell::const_new();
    TEMPLATE
        .get_or_init(|| async {
            let mut key = DefaultHasher::new();
            migrate::migrator().iter().for_each(|migration| migration.checksum.hash(&mut key));
            let name = format!("template_{:016x}", key.finish());
            let mut admin = admin().await;
            lock(&mut admin).await;
            if !exists(&mut admin, &name).await {
                make_template(&mut admin, &name).await;
            }
            admin.close().await.expect("the session ends");
            name
        })
        .await
}

/// Migrates under another name first: a template that bears its name is finished.
async fn make_template(admin: &mut PgConnection, name: &str) {
    run(admin, format!("drop database if exists {name}_new with (force)")).await;
    run(admin, format!("create database {name}_new template template0")).await;
    let pool = pool_for(&address_of(&format!("{name}_new")).await).await;
    migrate::run(&pool).await.unwrap_or_else(|error| panic!("the migrations do not run: {error:?}"));
    pool.close().await;
    run(admin, format!("alter database {name}_new rename to {name}")).await;
}

async fn admin() -> PgConnection {
    let options = PgConnectOptions::from_str(server().await).expect("an address of a server");
    options.connect().await.unwrap_or_else(|error| panic!("the test server does not answer: {error}"))
}

async fn address_of(database: &str) -> String {
    let mut url = Url::parse(server().await).expect("an address of a server");
    url.set_path(database);
    url.into()
}

async fn pool_for(url: &str) -> PgPool {
    let settings = PoolSettings {
        connections_max: 10,
        acquire_timeout: Duration::from_secs(20),
        ..PoolSettings::default()
    };
    let to = ConnectTo::from_url(&url.into()).expect("an address");
    connect(&to, &settings).await.unwrap_or_else(|error| panic!("{error:?}"))
}

async fn lock(admin: &mut PgConnection) {
    sqlx::query("select pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(admin).await.expect("the lock");
}

async fn exists(admin: &mut PgConnection, name: &str) -> bool {
    let found: (bool,) = sqlx::query_as("select exists (select from pg_database where datname = $1)")
        .bind(name)
        .fetch_one(admin)
        .await
        .expect("the list of databases");
    found.0
}

async fn run(admin: &mut PgConnection, statement: String) {
    let done = sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(admin).await;
    done.unwrap_or_else(|error| panic!("{statement}: {error}"));
}
