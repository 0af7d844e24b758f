//! What a person sees: progress while it works, then a table.

use std::{
    fmt::Write as _,
    io::{IsTerminal as _, Write as _},
    path::Path,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use provider_core::{
    environment::Artifact,
    lifecycle::{
        Event, Outcome, ReportLine, TeardownReport,
        sweep::{NotSwept, SweepReport},
    },
    names::ProviderId,
    provider::Finding,
};
use provider_local::CacheReport;

use crate::leg::{LegReport, RowReport, RowStatus, Watch};

/// Shows a leg's progress on standard error: a line that changes on a terminal, else a line for each row.
pub(crate) struct Screen {
    bar: Option<ProgressBar>,
    provider: String,
    logs: bool,
}

impl Screen {
    pub(crate) fn new(provider: &str, logs: bool) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_prefix(provider.to_owned());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, provider: provider.to_owned(), logs }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note(text)),
            None => note(text),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watch for Screen {
    fn event(&self, event: &Event) {
        match (event, &self.bar) {
            (Event::Stage(stage), Some(bar)) => bar.set_message(stage.clone()),
            (Event::Waiting(what), Some(bar)) => bar.set_message(format!("waiting: {what}")),
            (Event::Waiting(what), None) => self.line(&format!("{}  waiting: {what}", self.provider)),
            (Event::Log(line), _) if self.logs => self.line(&format!("{}  | {line}", self.provider)),
            _ => {}
        }
    }

    fn row(&self, row: &RowReport) {
        if !matches!(row.status, RowStatus::NotReached | RowStatus::NotAsked) {
            self.line(&format!("{}  {:16} {} ({})", self.provider, row.id, row.status, took(row.ms)));
        }
    }
}

/// Writes a line to standard error. A closed terminal is no reason to stop a clean-up.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes to standard output. That it is lost is told on standard error, and is no reason to stop a clean-up.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        note(&format!("standard output is lost: {error}"));
    }
}

fn took(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1000.0) }
}

/// The table of a leg.
pub(crate) fn leg(report: &LegReport, environment: &str, cache: Option<&str>) -> String {
    let mut text = format!("\n{}: environment {environment}, run {}\n\n", report.provider, report.run);
    for row in &report.rows {
        let was_run = !matches!(row.status, RowStatus::NotReached | RowStatus::NotAsked);
        let took = if was_run { took(row.ms) } else { String::new() };
        let _ = writeln!(text, "  {:16}  {:11}  {took:>9}  {}", row.id, row.status, row.summary);
        let details = row.details.iter().filter(|_| row.status == RowStatus::Failed);
        for line in details.flat_map(|detail| detail.lines()) {
            let _ = writeln!(text, "  {:16}  {:11}  {:>9}    {line}", "", "", "");
        }
    }
    let cleanup = &report.cleanup;
    text += &lists(cleanup, "\n");
    if let Some(cache) = cache {
        let _ = writeln!(text, "\ncache, for the next build: {cache}");
    }
    for note in &cleanup.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    if let Some(error) = &report.error {
        let _ = writeln!(text, "\nfailed: {error}");
    }
    text += &format!("\n{}", last_line(cleanup));
    text
}

/// Whether something is left.
fn last_line(cleanup: &TeardownReport) -> String {
    match cleanup.stuck.len() + cleanup.unresolved.len() + cleanup.undeletable.len() {
        0 => "Nothing is left behind.\n".to_owned(),
        left => format!("{left} left behind. `matrix sweep --delete` goes on where this ended.\n"),
    }
}

/// What a build came to.
pub(crate) fn build(outcome: &Outcome<Option<Artifact>>, out: Option<&Path>) -> String {
    let mut text = String::new();
    match (&outcome.primary, out) {
        (Ok(Some(artifact)), Some(out)) => {
            let until =
                artifact.expires.map_or("until it is deleted".to_owned(), |end| format!("until {end}"));
            let _ = writeln!(text, "kept: {artifact}");
            let _ = writeln!(text, "record: {}, {until}", out.display());
            let _ = writeln!(text, "`matrix run --artifact` launches it, `matrix delete` deletes it.");
        }
        (Ok(_), _) => text += "built, and deleted again\n",
        (Err(error), _) => {
            let _ = writeln!(text, "failed: {error}");
            for (key, value) in error.context() {
                let _ = writeln!(text, "  {key}: {value}");
            }
        }
    }
    let mut report = outcome.cleanup.clone();
    let is_told = outcome.primary.as_ref().is_ok_and(Option::is_some);
    if is_told {
        report.kept.clear();
    }
    text += &lists(&report, "\n");
    if is_told && outcome.cleanup.is_clean() {
        return text + "\nNothing else is left behind.\n";
    }
    text + "\n" + &last_line(&outcome.cleanup)
}

/// What a comparison of an artifact with its record found.
pub(crate) fn verified(
    artifact: &Artifact,
    findings: &[Finding],
    outcome: &Outcome<Vec<Finding>>,
    time: Duration,
) -> String {
    let mut text = format!("{artifact}\n");
    for finding in findings {
        let _ = writeln!(text, "  differs: {}: {}", finding.place, finding.words);
    }
    match &outcome.primary {
        Err(error) => {
            let _ = writeln!(text, "failed: {error}");
        }
        Ok(_) if findings.is_empty() => {
            let time = took(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            let _ = writeln!(text, "  lockfile {}", artifact.lockfile_digest);
            let _ = writeln!(text, "verified: content and lockfile are what the record says ({time})");
        }
        Ok(_) => text += "NOT what its record says\n",
    }
    text + &last_line(&outcome.cleanup)
}

/// What the deletion of a kept artifact came to.
pub(crate) fn deleted(what: &str, report: &TeardownReport) -> String {
    let mut text = lists(report, "");
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text += &match (report.is_clean(), report.deleted.is_empty()) {
        (true, true) => format!("{what} was already gone.\n"),
        (true, false) => format!("{what} is deleted and seen to be gone.\n"),
        (false, _) => "Something is left. Ask again, or leave it to a sweep after its stamp.\n".to_owned(),
    };
    text
}

/// What became of a provider's cache.
pub(crate) fn collected(provider: &ProviderId, report: &CacheReport) -> String {
    let verb = if report.dry_run { "would be removed" } else { "removed" };
    let mib = report.removed_bytes as f64 / f64::from(1 << 20);
    let mut text = format!("{provider}: {} layers {verb}, {mib:.1} MiB\n", report.removed.len());
    for layer in &report.removed {
        let _ = writeln!(text, "  {} ({} KiB)", layer.key, layer.bytes.div_ceil(1024));
    }
    for (layers, why) in [
        (&report.kept_for_artifacts, "an artifact needs"),
        (&report.kept_in_use, "a sandbox or build uses"),
        (&report.kept_recent, "were used of late"),
    ] {
        if !layers.is_empty() {
            let _ = writeln!(text, "  {} stay that {why}", layers.len());
        }
    }
    text
}

fn lists(report: &TeardownReport, before: &str) -> String {
    let mut text = String::new();
    for (title, lines) in report.lists().into_iter().filter(|(_, lines)| !lines.is_empty()) {
        let _ = writeln!(text, "{before}{title}:");
        lines.iter().for_each(|line| text += &report_line(line));
    }
    text
}

fn report_line(line: &ReportLine) -> String {
    let reason = line.reason.as_deref().map(|reason| format!("  {reason}")).unwrap_or_default();
    format!("  {:13} {}{reason}\n", line.kind, line.id.as_deref().unwrap_or(&line.name))
}

/// What a sweep did or found.
pub(crate) fn sweep(report: &SweepReport) -> String {
    let mut text = String::new();
    for path in &report.in_use {
        let _ = writeln!(text, "in use by a run that lives: {}", path.display());
    }
    if !report.owing.is_empty() {
        text += "could still be owned:\n";
    }
    for owing in &report.owing {
        let age = humantime::format_duration(Duration::from_secs(owing.age.as_secs()));
        let line = report_line(&owing.line);
        let _ = writeln!(text, "{}  {age} old on {}", line.trim_end(), owing.line.provider);
    }
    for line in &report.kept {
        let until = line.bound.map_or("no bound".to_owned(), |bound| format!("until {bound}"));
        let _ = writeln!(text, "kept, {until}:\n{}", report_line(line).trim_end());
    }
    let result = &report.result;
    text += &lists(result, "");
    for (title, notes) in [("not swept", &report.not_swept), ("damaged", &report.damage)] {
        for NotSwept { what, reason } in notes {
            let _ = writeln!(text, "{title}: {what}: {reason}");
        }
    }
    text += match (report.is_clean(), report.delete) {
        (true, _) => "Nothing of dead runs is left.\n",
        (false, true) => "Something is left.\n",
        (false, false) => "Nothing was changed. `matrix sweep --delete` deletes what can be deleted.\n",
    };
    text
}
