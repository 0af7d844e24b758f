//! `core.doctor`: the doctor runs at its path, reports this contract's version and exits with 0.

use std::time::Duration;

use async_trait::async_trait;

use super::{Check, CheckContext, Verdict};
use crate::{
    contract::doctor::{DoctorReport, EXIT_FAIL, EXIT_PASS, RowStatus},
    error::Result,
    sandbox::{Command, ExitStatus},
};

/// The doctor itself waits at most [`Contract::reap_within`](crate::contract::Contract::reap_within) for each of a few
/// processes.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Doctor;

#[async_trait]
impl Check for Doctor {
    async fn ask(&self, context: &CheckContext<'_>) -> Result<Verdict> {
        let contract = &context.contract;
        let command = Command::argv([contract.doctor_path]).timeout(LIMIT);
        let output = context.sandbox.exec(command).await?;
        let code = match output.status {
            ExitStatus::Code(code @ (EXIT_PASS | EXIT_FAIL)) if !output.truncated => code,
            status => {
                let summary = format!("{} ended with {status}, without a report", contract.doctor_path);
                let mut verdict = Verdict::failed(summary);
                verdict.details = output.stderr_text().lines().take(20).map(str::to_owned).collect();
                return Ok(verdict);
            }
        };
        let report = DoctorReport::parse(&output.stdout)?;
        let mut mismatches = Vec::new();
        if report.contract != contract.name {
            let found = &report.contract;
            mismatches.push(format!("the doctor checks {found:?}, the contract is {}", contract.name));
        }
        if report.version != contract.version {
            let found = report.version;
            mismatches
                .push(format!("the report has version {found}, the contract says {}", contract.version));
        }
        if code != report.exit_code() {
            mismatches.push(format!("the doctor ended with exit code {code}, which its rows contradict"));
        }
        let asked = context.asked_rows();
        for row in &report.rows {
            let expected = row.row.expected(contract);
            if row.expected != expected {
                let found = &row.expected;
                mismatches.push(format!(
                    "row {}: the doctor expects {found:?}, the contract says {expected:?}",
                    row.row
                ));
            }
            match (row.status, asked.contains(&row.row)) {
                (RowStatus::Fail, _) => mismatches.push(row.to_string()),
                (RowStatus::NotAsked, true) => mismatches.push(format!("row {} was not asked", row.row)),
                (RowStatus::Pass, false) => {
                    mismatches
                        .push(format!("row {} was asked, and the Environment names no language", row.row));
                }
                (RowStatus::Pass, true) | (RowStatus::NotAsked, false) => {}
            }
        }
        Ok(Verdict::of(mismatches, format!("{} rows pass", asked.len()), Vec::new()))
    }
}
