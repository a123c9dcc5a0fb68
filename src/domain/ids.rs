//! Ids of our own rows: UUIDv7, so that they sort by time of birth and carry their day.

use std::fmt;

use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A fresh id, later in order than those made before it on this machine.
            #[must_use]
            #[expect(clippy::new_without_default, reason = "a default that differs each time surprises")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// Names one event: the fact that a delivery carried, however often it was delivered.
    EventId
);
id!(
    /// Names one ticket: our snapshot of an object in a help desk.
    TicketId
);
id!(
    /// Names one classification: what a lane answered about a ticket, checked.
    ClassificationId
);
