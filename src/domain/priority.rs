//! How urgent a ticket is. The model may propose, rules decide, and a rule can only raise.

use std::fmt;
use std::str::FromStr;

/// Urgency in four steps, ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Can wait for days.
    Low,
    /// The ordinary case.
    Normal,
    /// Someone cannot work, or money is at stake.
    High,
    /// Many cannot work, or safety or security is at stake.
    Urgent,
}

impl Priority {
    /// Every priority, lowest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Urgent];

    /// The word used in configuration, SQL, prompts and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Urgent => "urgent",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Priority {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|priority| priority.as_str() == text).ok_or(())
    }
}
