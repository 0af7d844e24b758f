//! Writing down the steps of a clean-up.

use async_trait::async_trait;

use crate::{
    error::Result,
    lifecycle::{Verb, ledger::Row},
};

/// Where the steps of a clean-up are written down.
#[async_trait]
pub(crate) trait Records: Sync {
    /// Writes a row down. A clean-up goes on if that fails.
    async fn record(&self, row: Row) -> Result<()>;
}

pub(crate) fn verb_of(row: &Row) -> Verb {
    match row {
        Row::Open { .. } | Row::Intent(_) => Verb::WriteIntent,
        Row::Acquired { .. } => Verb::WriteAcquired,
        Row::NotMade { .. } | Row::Unresolved { .. } => Verb::WriteOutcome,
        Row::Deleted { .. } | Row::Undeletable { .. } => Verb::WriteDeleted,
        Row::Kept { .. } => Verb::WriteKept,
    }
}
