//! The ledger of a dead session, in which its sweep goes on writing.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::{
    error::Result,
    lifecycle::{
        gate::Gates,
        ledger::{Ledger, Row},
        teardown::{Records, verb_of},
    },
};

pub(super) struct SweepRecords<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) gates: Gates,
    pub(super) rows: Mutex<Vec<Row>>,
}

#[async_trait]
impl Records for SweepRecords<'_> {
    async fn record(&self, row: Row) -> Result<()> {
        let written = self.gates.around(verb_of(&row), self.ledger.append(&row, false)).await;
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        written
    }
}
