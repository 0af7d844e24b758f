//! One leg: a provider's row of the matrix, from the first look at the machine to the proof that nothing is left.

#[cfg(unix)]
mod kill;
mod report;
mod run;

#[cfg(unix)]
pub use kill::KillAt;
pub use report::{LegReport, RowReport, RowStatus, rows};
pub use run::{LegPlan, Watch, run_leg};
