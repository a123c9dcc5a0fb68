//! What can go wrong between our tables and their reader.

use thiserror::Error;

/// A statement on our own tables failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The database did not do what was asked; the source says why.
    #[error("the store could not {verb}")]
    Database {
        /// What was being done.
        verb: &'static str,
        /// Why it failed.
        #[source]
        source: sqlx::Error,
    },
    /// A row holds a word that this version of the program does not know.
    #[error(
        "{what} in the database is {word:?}, which this version does not know; was it written by a newer one?"
    )]
    UnknownWord {
        /// Which column.
        what: &'static str,
        /// What stands there.
        word: String,
    },
}

impl StoreError {
    /// Names what was being done when the database failed.
    pub(crate) fn during(verb: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Database { verb, source }
    }
}
