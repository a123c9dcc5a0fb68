//! What is wrong with a configuration: every fault, each with its place and its mend.

use std::fmt;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where: a variable, or file, line and key.
    pub place: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// All faults of a configuration; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        writeln!(f, "the configuration has {count} {}:", if count == 1 { "fault" } else { "faults" })?;
        self.0.iter().try_for_each(|fault| writeln!(f, "  {fault}"))
    }
}

impl std::error::Error for Faults {}
