//! What a sweep did, or would do.

use std::{fmt, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::lifecycle::{ReportLine, TeardownReport};

/// Something that a sweep left alone, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotSwept {
    /// The ledger or thing.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// A thing that a look-only sweep would take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owing {
    /// The thing.
    pub line: ReportLine,
    /// How old it is.
    pub age: Duration,
}

/// What a sweep did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SweepReport {
    /// Whether it deleted.
    pub delete: bool,
    /// Ledgers whose sessions live.
    pub in_use: Vec<PathBuf>,
    /// What could still be owned; only of a sweep that looks.
    pub owing: Vec<Owing>,
    /// What became of it; only of a sweep that deletes.
    pub result: TeardownReport,
    /// What users asked to keep, and until when.
    #[serde(default)]
    pub kept: Vec<ReportLine>,
    /// What was left alone.
    pub not_swept: Vec<NotSwept>,
    /// Lines of ledgers that could not be read.
    pub damage: Vec<NotSwept>,
}

impl SweepReport {
    /// Whether nothing of dead sessions is left, as far as could be seen.
    pub fn is_clean(&self) -> bool {
        self.owing.is_empty() && self.not_swept.is_empty() && self.result.is_clean()
    }

    pub(super) fn leave(&mut self, what: impl fmt::Display, reason: impl Into<String>) {
        self.not_swept.push(NotSwept { what: what.to_string(), reason: reason.into() });
    }
}
