//! The ledger: what a session created, in a file that survives it.
//!
//! One file a run, in the state folder, one JSON object a line. The file is locked as long as its session lives;
//! a free lock means that the session is dead and that a [sweep](super::sweep) may take over. A finished ledger
//! is removed.

mod file;
mod row;
mod state_folder;
mod writer;

pub(crate) use file::is_of_run;
pub use file::{Damage, LedgerFile, Taken, files, take};
pub use row::{DeletedHow, Row, VERSION};
pub use state_folder::{KeptThing, StateFolder};
pub(crate) use writer::Ledger;
