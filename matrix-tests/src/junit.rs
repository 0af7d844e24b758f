//! The report as JUnit XML: a suite for each leg, a test case for each row with the row's id.

use std::{path::Path, time::Duration};

use provider_core::error::{Code, Error, Result};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::leg::{LegReport, RowReport, RowStatus};

/// Writes the report of these legs, or why none was tried.
///
/// # Errors
/// [`Code::FileError`] if the file cannot be written.
pub(crate) fn write(path: &Path, legs: &[&LegReport], refused: Option<&Error>) -> Result<()> {
    let cannot = |words: String| {
        Error::new(Code::FileError, format!("the report cannot be written to {}: {words}", path.display()))
    };
    let text = text(legs, refused).map_err(|source| cannot(source.to_string()))?;
    std::fs::write(path, text).map_err(|source| cannot(source.to_string()))
}

fn text(legs: &[&LegReport], refused: Option<&Error>) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("matrix");
    if let Some(error) = refused {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(error.to_string()).set_type(error.code().as_str());
        let mut suite = TestSuite::new("matrix");
        suite.add_test_case(TestCase::new("refused", status));
        report.add_test_suite(suite);
    }
    for leg in legs {
        let mut suite = TestSuite::new(leg.provider.as_str());
        suite.add_property(("run", leg.run.as_str()));
        suite.add_test_cases(leg.rows.iter().map(|row| case(&leg.provider, row)));
        if let Some(error) = &leg.error {
            suite.set_system_err(error.as_str());
        }
        suite.set_system_out(leg.cleanup.to_string());
        report.add_test_suite(suite);
    }
    report.to_string()
}

fn case(provider: &str, row: &RowReport) -> TestCase {
    let status = match row.status {
        RowStatus::Passed => TestCaseStatus::success(),
        RowStatus::Failed => failure(row, "failed"),
        RowStatus::NotReached => failure(row, "not reached"),
        RowStatus::NotAsked => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(row.summary.as_str());
            status
        }
    };
    let mut case = TestCase::new(row.id.as_str(), status);
    case.set_classname(provider).set_time(Duration::from_millis(row.ms));
    if row.status == RowStatus::Passed {
        case.set_system_out(row.summary.as_str());
    }
    case
}

fn failure(row: &RowReport, kind: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(row.summary.as_str()).set_type(kind);
    if !row.details.is_empty() {
        status.set_description(row.details.join("\n"));
    }
    status
}

#[cfg(test)]
mod tests {
    use provider_core::lifecycle::TeardownReport;

    use super::*;

    fn row(id: &str, status: RowStatus, summary: &str, details: &[&str]) -> RowReport {
        RowReport {
            id: id.into(),
            status,
            ms: 1500,
            summary: summary.into(),
            details: details.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    #[test]
    fn each_row_is_a_test_case_of_the_same_id() {
        let leg = LegReport {
            provider: "local".into(),
            run: "r1".into(),
            rows: vec![
                row("core.doctor", RowStatus::Passed, "15 rows pass", &[]),
                row("core.imports", RowStatus::Failed, "a <b> & \u{7} \"c\"", &["one", "two"]),
                row("core.restart", RowStatus::NotReached, "interrupted", &[]),
                row("core.secrets", RowStatus::NotAsked, "no value was given", &[]),
            ],
            error: Some("failed: core.imports".into()),
            cleanup: TeardownReport::default(),
            interrupted: false,
        };
        let text = text(&[&leg], None).unwrap();
        for part in [
            r#"tests="4""#,
            r#"failures="2""#,
            r#"name="core.doctor" classname="local" time="1.500""#,
            "a &lt;b&gt; &amp;",
            "one\ntwo",
            r#"type="not reached""#,
            "<skipped message=\"no value was given\"",
            "0 deleted",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(!text.contains('\u{7}'), "a character that XML forbids");
    }

    #[test]
    fn a_run_that_was_refused_is_an_error() {
        let refused = Error::new(Code::SpecInvalid, "no <name>");
        let text = text(&[], Some(&refused)).unwrap();
        for part in [r#"tests="1""#, r#"errors="1""#, "SPEC_INVALID", "no &lt;name&gt;"] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }
}
