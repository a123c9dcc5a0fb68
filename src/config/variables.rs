//! Every environment variable, in one table. `.env.example` and `docs/CONFIGURATION.md` have a
//! line for each, by test; the command line prints it with `hooktriage check --variables`.

/// One environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name; `<NAME>` stands for the name of a source or destination, upper case, `_` for `-`.
    pub name: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Whether `<name>_FILE` may name a file that holds the value instead.
    pub from_file: bool,
}

const fn plain(name: &'static str, default: &'static str, help: &'static str) -> Variable {
    Variable { name, default, help, from_file: false }
}

const fn secret(name: &'static str, default: &'static str, help: &'static str) -> Variable {
    Variable { name, default, help, from_file: true }
}

/// All of them.
pub const VARIABLES: &[Variable] = &[
    secret(
        "DATABASE_URL",
        "a Postgres of its own",
        "where Postgres is: postgres://user:password@host/database",
    ),
    plain("HOOKTRIAGE_CONFIG", "hooktriage.toml, if there", "the configuration file"),
    plain("HOOKTRIAGE_LISTEN", "127.0.0.1:8080", "address and port that the service listens on"),
    plain(
        "HOOKTRIAGE_DATA_DIR",
        "by platform",
        "folder for the Postgres of its own and the generated admin token",
    ),
    plain(
        "HOOKTRIAGE_PG_BIN",
        "searched for",
        "folder with initdb and postgres, for the Postgres of its own",
    ),
    secret(
        "HOOKTRIAGE_ADMIN_TOKEN",
        "generated into the data folder",
        "bearer token for /v1, at least 16 characters",
    ),
    secret(
        "HOOKTRIAGE_SECRET_<NAME>",
        "none",
        "signing secret of a source; two live ones with a comma between",
    ),
    secret(
        "HOOKTRIAGE_DESTINATION_SECRET_<NAME>",
        "none",
        "secret that deliveries to a destination are signed with",
    ),
    plain("HOOKTRIAGE_LLM_KIND", "offline, or openai with a key or base URL", "openai, anthropic or offline"),
    plain("HOOKTRIAGE_LLM_BASE_URL", "the provider's own", "base URL of the model's API"),
    plain("HOOKTRIAGE_LLM_MODEL", "none", "model name, as the provider spells it"),
    secret("HOOKTRIAGE_LLM_API_KEY", "none", "key of the model's API"),
    plain("HOOKTRIAGE_WORKERS", "8", "tickets worked on at once in this process"),
    plain("HOOKTRIAGE_URL", "http:// and HOOKTRIAGE_LISTEN", "where the command line finds the service"),
    plain("HOOKTRIAGE_LOG_FORMAT", "text", "text or json"),
    plain("RUST_LOG", "info", "which log lines are written, such as hooktriage=debug"),
];
