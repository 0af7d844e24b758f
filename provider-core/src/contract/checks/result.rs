//! What a check reports.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// The answer of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The contract is kept.
    Passed,
    /// It is not, or the check could not be carried out.
    Failed,
    /// It was not asked, since the Environment has nothing that it is about. This is neither of the others.
    NotAsked,
}

/// What one check reports. It holds no value of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckResult {
    /// The check's stable id.
    pub id: String,
    /// Its answer.
    pub status: Status,
    /// One line: what was seen, or what speaks against the sandbox.
    pub summary: String,
    /// Each mismatch, and what else there is to know.
    pub details: Vec<String>,
    /// How long it took; whole milliseconds in the JSON form.
    #[serde(rename = "duration_ms", with = "millis")]
    pub duration: Duration,
}

impl CheckResult {
    /// Whether the check passed.
    pub fn passed(&self) -> bool {
        self.status == Status::Passed
    }

    /// Whether the check failed. One that was not asked has neither passed nor failed.
    pub fn failed(&self) -> bool {
        self.status == Status::Failed
    }
}

impl fmt::Display for CheckResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = match self.status {
            Status::Passed => "passed",
            Status::Failed => "failed",
            Status::NotAsked => "not asked",
        };
        write!(f, "{} {status}: {}", self.id, self.summary)
    }
}

mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// What a check found, before secrets are taken out of the words.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) failed: bool,
    pub(super) summary: String,
    pub(super) details: Vec<String>,
}

impl Verdict {
    /// Failed, with one reason.
    pub(super) fn failed(summary: String) -> Self {
        Self { failed: true, summary, details: Vec::new() }
    }

    /// Passed with these words if there are no mismatches, else failed with them. Notes are added in both cases.
    pub(super) fn of(mismatches: Vec<String>, passed: impl Into<String>, notes: Vec<String>) -> Self {
        let summary = match mismatches.as_slice() {
            [] => passed.into(),
            [only] => only.clone(),
            [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
        };
        let failed = !mismatches.is_empty();
        Self { failed, summary, details: mismatches.into_iter().chain(notes).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_form_is_exact() {
        let result = CheckResult {
            id: "core.doctor".into(),
            status: Status::Failed,
            summary: "no".into(),
            details: vec!["row os".into()],
            duration: Duration::from_micros(1500),
        };
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(
            text,
            r#"{"id":"core.doctor","status":"failed","summary":"no","details":["row os"],"duration_ms":1}"#
        );
        let back: CheckResult = serde_json::from_str(&text).unwrap();
        assert_eq!((back.passed(), back.duration), (false, Duration::from_millis(1)));
        assert!(serde_json::from_str::<CheckResult>(&text.replace("\"summary\"", "\"x\"")).is_err());
    }

    #[test]
    fn one_mismatch_is_enough_to_fail() {
        let passed = Verdict::of(Vec::new(), "fine", vec!["note".into()]);
        assert_eq!((passed.failed, passed.summary.as_str(), passed.details.len()), (false, "fine", 1));
        let failed = Verdict::of(vec!["a".into(), "b".into()], "fine", vec!["note".into()]);
        assert_eq!((failed.failed, failed.summary.as_str()), (true, "a, and 1 more"));
        assert_eq!(failed.details, ["a", "b", "note"]);
    }
}
