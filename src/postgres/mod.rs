//! The way to Postgres: the pool, the schema, and a server of our own where none was given.
//!
//! The service stands on Postgres alone, so the same three questions come up at every start: which
//! server, with which limits on a session, and is its schema ours. They are answered here and
//! nowhere else; the layers above receive a `PgPool` and never see an address.
//!
//! **Not here:** no SQL about tickets or jobs, no reading of the environment (every input is a
//! field of a settings type), and no `begin` on a pool (sqlx 0.9.0 leaves a session in an open
//! transaction when that call is cancelled).

pub mod embedded;
pub mod migrate;
pub mod pool;

pub use embedded::{Embedded, EmbeddedError, EmbeddedSettings};
pub use migrate::{MigrationError, PendingMigration};
pub use pool::{ConnectError, ConnectTo, PoolSettings, connect, sibling};
