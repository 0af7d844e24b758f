//! The lifecycle: whatever is created is deleted and seen to be gone, or named in a report.
//!
//! Drivers supply verbs; the loops, retries, waits, records and clean-up are here, once. A [`Session`] owns what a
//! run creates. Each creating request goes through [`Creator::create`], the one door: the intent is written to
//! the [ledger] before the request is sent, the acquisition before the guard is handed out. All of
//! that runs on a thread of its own, so that neither a dropped future nor the end of the caller's runtime can
//! interrupt it. What a killed process left behind is found in its ledger by [`sweep`](sweep::sweep).

mod book;
mod clock;
pub(crate) mod control;
mod creator;
mod door;
mod gate;
mod intent;
mod kept;
mod lease;
pub mod ledger;
mod owned;
mod progress;
mod report;
mod session;
pub mod sweep;
mod teardown;

pub use book::{Book, Entry, Standing};
pub use clock::{Busy, Clock, Elapsed, SystemClock, Timestamp, timeout};
pub use creator::{Creator, Made};
pub use gate::{Gate, Point, Side, Verb};
pub use intent::{Intent, Lifetime, ResourceKind, ResourceRef};
pub use kept::{DeleteOptions, delete_kept};
pub use owned::Owned;
pub use progress::{Event, Progress, ProgressEvents};
pub use report::{Outcome, ReportLine, TeardownReport};
pub use session::{Session, SessionConfig};
