//! The doctor: a POSIX shell script in every artifact that says row by row whether the contract is kept.
//!
//! [`script`] renders it when an artifact is built. [`DoctorReport::parse`] reads what it printed.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Contract, Row};
use crate::error::{Code, Error, Result};

/// Exit code: every asked row passes.
pub const EXIT_PASS: i32 = 0;
/// Exit code: a row fails. The report names the first.
pub const EXIT_FAIL: i32 = 1;
/// Exit code: the doctor was called with arguments that it does not know.
pub const EXIT_USAGE: i32 = 2;

/// The doctor of a contract that is asked these rows. It belongs at [`Contract::doctor_path`] with mode 0755.
pub fn script(contract: &Contract, asked: &[Row]) -> String {
    let mut facts = String::new();
    let mut fact = |name: &str, value: &str| {
        facts.push_str(&format!("{name}={}\n", quote(value)));
    };
    fact("contract", contract.name);
    fact("version", &contract.version.to_string());
    fact("rows", &words(Row::ALL));
    fact("asked", &words(Row::ALL.into_iter().filter(|row| asked.contains(row))));
    fact("doctor_path", contract.doctor_path);
    fact("machine", contract.architecture.machine);
    fact("os", contract.os);
    fact("os_family", contract.os_family);
    fact("user", contract.user_name);
    fact("uid", &contract.user.uid.to_string());
    fact("gid", &contract.user.gid.to_string());
    fact("home", contract.home);
    fact("workdir", contract.workdir);
    fact("python", contract.python);
    fact("installers", &contract.installers.join(" "));
    fact("reserved_path", contract.reserved_path);
    fact("locale", contract.locale);
    fact("timezone", contract.timezone);
    fact("ca_bundle", contract.ca_bundle);
    fact("reap_seconds", &contract.reap_within.as_secs().to_string());
    for row in Row::ALL {
        fact(&format!("expected_{row}"), &row.expected(contract));
    }
    include_str!("doctor.sh").replacen("#@FACTS@\n", &facts, 1).replacen(
        "#@WRITABLE@\n",
        include_str!("writable.sh"),
        1,
    )
}

fn words(rows: impl IntoIterator<Item = Row>) -> String {
    rows.into_iter().map(Row::name).collect::<Vec<_>>().join(" ")
}

/// A word of the shell that stands for exactly this text.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The doctor's report. The JSON form is exact: unknown, missing and repeated keys are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoctorReport {
    /// The contract's name.
    pub contract: String,
    /// The version of this form.
    pub version: u32,
    /// All rows in order, the ones that are not asked too.
    pub rows: Vec<RowReport>,
    /// The first row that fails.
    #[serde(deserialize_with = "required")]
    pub first_failed: Option<Row>,
}

/// What the doctor says about one row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowReport {
    /// Which row.
    pub row: Row,
    /// Its answer.
    pub status: RowStatus,
    /// What the contract says.
    pub expected: String,
    /// What there is.
    pub found: String,
}

/// The answer of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowStatus {
    /// The contract is kept.
    Pass,
    /// It is not.
    Fail,
    /// The Environment is not asked.
    NotAsked,
}

/// An absent key is an error here, and not the same as `null`.
fn required<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Row>, D::Error> {
    Option::deserialize(from)
}

impl DoctorReport {
    /// Reads what the doctor printed.
    ///
    /// # Errors
    /// [`Code::SmokeTestFailed`] if it is not exactly one whole report with all rows in order, or if it contradicts
    /// itself.
    pub fn parse(stdout: &[u8]) -> Result<Self> {
        let broken =
            |why: String| Error::new(Code::SmokeTestFailed, format!("the doctor's report is broken: {why}"));
        let mut report: DoctorReport = serde_json::from_slice(stdout).map_err(|error| {
            // The parser's words can quote the report, which can hold anything.
            broken(format!("{:?} error in line {}", error.classify(), error.line()))
        })?;
        if !report.rows.iter().map(|row| row.row).eq(Row::ALL) {
            return Err(broken("its rows are not the known ones in order".into()));
        }
        let first = report.rows.iter().find(|row| row.status == RowStatus::Fail).map(|row| row.row);
        if first != report.first_failed {
            return Err(broken("its first failed row is another than the rows say".into()));
        }
        for row in &mut report.rows {
            row.found = bytes_again(&row.found);
        }
        Ok(report)
    }

    /// The report as the doctor prints it, which [`DoctorReport::parse`] reads.
    pub fn to_json(&self) -> Vec<u8> {
        let mut report = self.clone();
        for row in &mut report.rows {
            row.found = row.found.bytes().map(char::from).collect();
        }
        // There is nothing in it that JSON cannot hold.
        serde_json::to_vec(&report).unwrap_or_default()
    }

    /// The exit code that belongs to this report.
    pub fn exit_code(&self) -> i32 {
        if self.first_failed.is_some() { EXIT_FAIL } else { EXIT_PASS }
    }
}

/// The doctor writes each byte outside ASCII as the code point of the same number. This is the text again.
fn bytes_again(found: &str) -> String {
    match found.chars().map(|c| u8::try_from(u32::from(c))).collect::<Result<Vec<u8>, _>>() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => found.to_owned(),
    }
}

impl fmt::Display for RowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}: found {:?}, the contract says {:?}", self.row, self.found, self.expected)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
