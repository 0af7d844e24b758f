//! `core.filesystem`: the working directory takes a real write, read and delete; the reserved path refuses any change.

use async_trait::async_trait;

use super::{Check, CheckContext, Verdict};
use crate::{contract::probe, error::Result};

pub(super) struct Filesystem;

#[async_trait]
impl Check for Filesystem {
    async fn ask(&self, context: &CheckContext<'_>) -> Result<Verdict> {
        let contract = &context.contract;
        // Another text each time, so that an old file cannot pass for this one.
        let text = format!("written by a check: {:032x}\n", fastrand::u128(..));
        let output = context.sandbox.exec(probe::Filesystem::command(contract, &text)).await?;
        let seen = probe::Filesystem::parse(&output)?;
        let mut mismatches = Vec::new();
        if !seen.written {
            mismatches.push(format!("no file can be written in {}", contract.workdir));
        } else if seen.read != text.as_bytes() {
            mismatches.push(format!("what was read back in {} is not what was written", contract.workdir));
        }
        if seen.written && !seen.removed {
            mismatches.push(format!("a file in {} cannot be deleted", contract.workdir));
        }
        if !seen.reserved || seen.entries == 0 {
            mismatches.push(format!("{} is no directory", contract.reserved_path));
        }
        for offence in &seen.offences {
            let path = &offence.path;
            mismatches.push(format!("{} {path:?}, which the contract reserves", offence.kind.words()));
        }
        let passed = format!("{} takes a file, {} refuses changes", contract.workdir, contract.reserved_path);
        let notes = vec![format!("tried to change {} entries of {}", seen.entries, contract.reserved_path)];
        Ok(Verdict::of(mismatches, passed, notes))
    }
}
