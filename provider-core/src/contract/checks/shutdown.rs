//! `core.shutdown`: a process group ends in time after SIGTERM; PID 1 leaves no zombie.

use async_trait::async_trait;

use super::{Check, CheckContext, Verdict};
use crate::{contract::probe, error::Result};

pub(super) struct Shutdown;

#[async_trait]
impl Check for Shutdown {
    async fn ask(&self, context: &CheckContext<'_>) -> Result<Verdict> {
        let contract = &context.contract;
        let output = context.sandbox.exec(probe::Shutdown::command(contract)).await?;
        let seen = probe::Shutdown::parse(&output)?;
        let mut mismatches = Vec::new();
        if seen.members != probe::Shutdown::MEMBERS || !seen.asked {
            let members = seen.members;
            mismatches.push(format!(
                "no group of three processes could be started with setsid(1) and asked to end: {members} ran"
            ));
        }
        if seen.outlived > 0 {
            let (left, limit) = (seen.outlived, contract.stop_within.as_secs());
            mismatches.push(format!("{left} processes of a group still run {limit} s after SIGTERM"));
        }
        if seen.zombies > 0 {
            let (left, limit) = (seen.zombies, contract.reap_within.as_secs());
            mismatches.push(format!("{left} ended processes were not reaped within {limit} s"));
        }
        let took = seen.seconds;
        Ok(Verdict::of(
            mismatches,
            format!("a group of three ended in less than {} s and was reaped", took + 1),
            Vec::new(),
        ))
    }
}
