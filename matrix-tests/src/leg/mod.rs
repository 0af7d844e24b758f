//! One leg: a provider's row of the matrix, from the first look at the machine to the proof that nothing is left.

mod attempt;
mod board;
#[cfg(unix)]
mod kill;
mod leaks;
mod report;
mod run;

pub(crate) use attempt::build_watched;
#[cfg(unix)]
pub use kill::KillAt;
pub use report::{LegKind, LegReport, RowReport, RowStatus, rows};
pub use run::{LegPlan, Recipe, Start, Watch, run_leg};
pub(crate) use run::{refuse_machine, refuse_recipe};
