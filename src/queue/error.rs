//! What can go wrong between the queue and its database.

use thiserror::Error;

/// A statement of the queue failed.
#[derive(Debug, Error)]
pub enum QueueError {
    /// The database did not do what was asked; the source says why.
    #[error("the queue could not {verb}")]
    Database {
        /// What was being done, in the words of the glossary.
        verb: &'static str,
        /// Why it failed.
        #[source]
        source: sqlx::Error,
    },
}

impl QueueError {
    /// Names what was being done when the database failed.
    pub(crate) fn during(verb: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Database { verb, source }
    }

    /// Whether the data is at fault (SQLSTATE class 22 or 23), so that the same statement would
    /// fail again, however healthy the database is.
    #[must_use]
    pub fn is_data_fault(&self) -> bool {
        let Self::Database { source, .. } = self;
        is_data_fault(source)
    }
}

/// SQLSTATE classes 22 (data exception) and 23 (integrity constraint violation), PostgreSQL
/// documentation, appendix A; and values that cannot be encoded for the wire at all.
pub(crate) fn is_data_fault(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(database) => {
            database.code().is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
        }
        sqlx::Error::Encode(_) => true,
        _ => false,
    }
}
