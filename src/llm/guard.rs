//! What several calls together tell that no single failure can.
//!
//! One 500 may be the fault of one ticket; five in a row, for changing tickets, are an outage,
//! and an outage should cost no job an attempt. One refused request is one bad ticket; three in a
//! row, for changing tickets, are a configuration that no ticket passes. Changing means: each is
//! another than the one before it.
//!
//! **Invariants**
//! - One ticket that fails again and again never holds up the lane by itself.

use std::sync::{Mutex, PoisonError};

use super::disposition::{Disposition, ParkCause};

/// So many tickets in a row that failed for transient reasons are an outage.
const OUTAGE_AFTER: u32 = 5;
/// So many tickets in a row that were refused are a fault of the configuration.
const MISCONFIGURED_AFTER: u32 = 3;

/// Counts failures in a row, each of another ticket than the one before.
#[derive(Debug, Default)]
pub(super) struct Guard {
    row: Mutex<Row>,
}

#[derive(Debug, Default)]
struct Row {
    transient: u32,
    refused: u32,
    last_ticket: Option<u64>,
}

impl Guard {
    /// The provider did its part: whatever was counted is forgotten.
    pub(super) fn answered(&self) {
        *self.row.lock().unwrap_or_else(PoisonError::into_inner) = Row::default();
    }

    /// The disposition of a failure in the light of those before it. `ticket` tells tickets apart.
    pub(super) fn judge(&self, alone: Disposition, ticket: u64) -> Disposition {
        let mut row = self.row.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = row.last_ticket != Some(ticket);
        match alone {
            Disposition::Retry { after, .. } => {
                row.transient += u32::from(is_other);
                row.last_ticket = Some(ticket);
                if row.transient >= OUTAGE_AFTER { Disposition::PauseLane { at_least: after } } else { alone }
            }
            Disposition::DeadLetter { .. } => {
                row.refused += u32::from(is_other);
                row.last_ticket = Some(ticket);
                if row.refused >= MISCONFIGURED_AFTER {
                    Disposition::ParkLane { cause: ParkCause::Configuration, at_least: None }
                } else {
                    alone
                }
            }
            // The provider answered about the ticket, so the lane works.
            Disposition::Review { .. } | Disposition::ReAsk { .. } => {
                *row = Row::default();
                alone
            }
            Disposition::PauseLane { .. } | Disposition::ParkLane { .. } | Disposition::StepDown => alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Disposition = Disposition::Retry { after: None, times_max: None };
    const DEAD: Disposition = Disposition::DeadLetter { class: "request_refused" };

    #[test]
    fn the_fifth_ticket_in_a_row_that_fails_makes_it_an_outage() {
        let guard = Guard::default();
        for ticket in 1..5 {
            assert_eq!(guard.judge(RETRY, ticket), RETRY);
        }
        assert_eq!(guard.judge(RETRY, 5), Disposition::PauseLane { at_least: None });
        guard.answered();
        assert_eq!(guard.judge(RETRY, 6), RETRY);
    }

    #[test]
    fn one_ticket_that_fails_for_ever_does_not_hold_up_the_lane() {
        let guard = Guard::default();
        for _ in 0..20 {
            assert_eq!(guard.judge(RETRY, 1), RETRY);
            assert_eq!(guard.judge(DEAD, 1), DEAD);
        }
    }

    #[test]
    fn the_third_ticket_in_a_row_that_is_refused_parks_the_lane() {
        let guard = Guard::default();
        assert_eq!(guard.judge(DEAD, 1), DEAD);
        assert_eq!(guard.judge(DEAD, 2), DEAD);
        let parked = Disposition::ParkLane { cause: ParkCause::Configuration, at_least: None };
        assert_eq!(guard.judge(DEAD, 3), parked);
    }
}
