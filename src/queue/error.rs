//! What can go wrong between the queue and its database.

use thiserror::Error;

/// The queue could not do what was asked.
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
    /// The application's code that writes effects or is told of dead letters panicked.
    #[error("the code that writes effects panicked; the log has the place")]
    EffectPanicked,
}

impl QueueError {
    /// Names what was being done when the database failed.
    pub(crate) fn during(verb: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Database { verb, source }
    }

    /// Whether the data is at fault, so that the same again would fail again, however healthy the
    /// database is.
    #[must_use]
    pub fn is_data_fault(&self) -> bool {
        match self {
            Self::Database { source, .. } => is_data_fault(source),
            Self::EffectPanicked => true,
        }
    }
}

/// SQLSTATE classes 22 (data exception), 23 (integrity constraint violation) and 54 (program limit
/// exceeded: a key too long for its index), PostgreSQL documentation, appendix A; and values that
/// cannot be encoded for the wire at all.
pub(crate) fn is_data_fault(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(database) => {
            database.code().is_some_and(|code| ["22", "23", "54"].iter().any(|class| code.starts_with(class)))
        }
        sqlx::Error::Encode(_) => true,
        _ => false,
    }
}
