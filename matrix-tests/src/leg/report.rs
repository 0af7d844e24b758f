//! What a leg tells.

use std::{fmt, time::Duration};

use provider_core::{
    contract::checks::{CORE_TIER, CheckResult, Status},
    error::Error,
    lifecycle::TeardownReport,
};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;

/// The ids of the rows beside those of the checks. Each row's id names its trial, its line and its place in reports.
pub mod rows {
    /// Whether the machine and the account can carry the leg out.
    pub const PREFLIGHT: &str = "preflight";
    /// The artifact.
    pub const BUILD: &str = "build";
    /// The sandbox.
    pub const LAUNCH: &str = "launch";
    /// Whether the artifact is what its record says.
    pub const VERIFY: &str = "verify";
    /// Everything was deleted, or is named.
    pub const CLOSE: &str = "close";
    /// The provider lists nothing of this run.
    pub const LEAKS: &str = "leaks";
}

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowStatus {
    /// As it should be.
    Passed,
    /// Not as it should be.
    Failed,
    /// An earlier row failed. It counts as failed.
    NotReached,
    /// It does not apply, for the reason in its summary. It counts neither as passed nor as failed.
    NotAsked,
}

impl RowStatus {
    /// Whether the leg has failed because of it.
    pub fn counts_as_failed(self) -> bool {
        matches!(self, RowStatus::Failed | RowStatus::NotReached)
    }
}

/// Which rows a leg has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegKind {
    /// It builds an artifact.
    Build,
    /// It launches one that was built before.
    Artifact,
}

/// One row of a leg.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowReport {
    /// Its id.
    pub id: String,
    /// How it ended.
    pub status: RowStatus,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// One line.
    pub summary: String,
    /// More lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl RowReport {
    pub(super) fn passed(id: &str, took: Duration, summary: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            status: RowStatus::Passed,
            ms: millis(took),
            summary: summary.into(),
            details: Vec::new(),
        }
    }

    pub(super) fn failed(id: &str, took: Duration, error: &Error) -> Self {
        let details = error.context().iter().map(|(key, value)| format!("{key}: {value}")).collect();
        Self { status: RowStatus::Failed, details, ..Self::passed(id, took, error.to_string()) }
    }

    pub(super) fn not_reached(id: &str, why: &str) -> Self {
        Self { status: RowStatus::NotReached, ..Self::passed(id, Duration::ZERO, why) }
    }

    pub(super) fn not_asked(id: &str, why: impl Into<String>) -> Self {
        Self { status: RowStatus::NotAsked, ..Self::passed(id, Duration::ZERO, why) }
    }

    pub(super) fn of_check(result: CheckResult) -> Self {
        let status = match result.status {
            Status::Passed => RowStatus::Passed,
            Status::NotAsked => RowStatus::NotAsked,
            Status::Failed => RowStatus::Failed,
        };
        Self { status, details: result.details, ..Self::passed(&result.id, result.duration, result.summary) }
    }
}

/// The outcome of a leg: the rows, the first error, and what became of all that was created, side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegReport {
    /// Which provider.
    pub provider: String,
    /// The run's id, as it stands in each name.
    pub run: String,
    /// The rows, in order.
    pub rows: Vec<RowReport>,
    /// The first error. A clean-up error never replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The clean-up.
    pub cleanup: TeardownReport,
    /// Whether the leg was ended from outside.
    pub interrupted: bool,
}

impl LegReport {
    /// The ids of the rows of a leg, in order.
    pub fn row_ids(kind: LegKind) -> impl Iterator<Item = &'static str> {
        let before = match kind {
            LegKind::Build => &[rows::PREFLIGHT, rows::BUILD, rows::LAUNCH, rows::VERIFY][..],
            LegKind::Artifact => &[rows::PREFLIGHT, rows::LAUNCH, rows::VERIFY],
        };
        let checks = CORE_TIER.iter().map(|check| check.id);
        before.iter().copied().chain(checks).chain([rows::CLOSE, rows::LEAKS])
    }

    /// The exit code that the leg deserves. That something was left behind says more than that a check failed.
    pub fn exit(&self) -> Exit {
        let failed = |id: &str| self.rows.iter().any(|row| row.id == id && row.status.counts_as_failed());
        if failed(rows::CLOSE) || failed(rows::LEAKS) {
            Exit::LeftBehind
        } else if self.interrupted {
            Exit::Interrupted
        } else if self.rows.iter().any(|row| row.status.counts_as_failed()) {
            Exit::Failed
        } else {
            Exit::Passed
        }
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Display for RowStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RowStatus::Passed => "passed",
            RowStatus::Failed => "FAILED",
            RowStatus::NotReached => "not reached",
            RowStatus::NotAsked => "not asked",
        })
    }
}
