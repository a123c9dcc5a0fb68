//! Claim: the rules of the house hold. Who may use whom, how large a file may be, which words are
//! used, and that every catalogue in the documents lists exactly what the code has.
//!
//! The rules are read from where people read them (`docs/ARCHITECTURE.md` and the other pages), so
//! neither the page nor the code can drift. The scanners work on tokens, not on lines: comments and
//! strings cannot fool them, and unit tests are left out. Macros that build paths could.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on says where and ends")]

mod architecture;
mod catalogues;
mod files;
mod paths;
mod sizes;
mod source;
mod words;
