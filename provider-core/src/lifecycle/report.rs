//! What became of everything that a session or a sweep was responsible for.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Entry, Intent, ResourceKind, ResourceRef, Standing, Timestamp, ledger::DeletedHow};
use crate::{
    error::{Error, Result},
    names::ProviderId,
};

/// One thing in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportLine {
    /// What sort of thing.
    pub kind: ResourceKind,
    /// Where.
    pub provider: ProviderId,
    /// The provider's id, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name that we gave it.
    pub name: String,
    /// Why it is listed, where that needs words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ends by itself, or may be deleted by any sweep; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Timestamp>,
}

impl ReportLine {
    /// Of a thing whose intent is in no book at hand.
    pub(crate) fn of(thing: &ResourceRef, bound: Option<Timestamp>, reason: Option<String>) -> Self {
        Self {
            kind: thing.kind,
            provider: thing.provider.clone(),
            id: Some(thing.id.clone()),
            name: thing.name.clone().unwrap_or_default(),
            reason,
            bound,
        }
    }

    pub(crate) fn of_intent(intent: &Intent, reason: Option<String>) -> Self {
        Self {
            kind: intent.kind,
            provider: intent.provider.clone(),
            id: None,
            name: intent.name().to_string(),
            reason,
            bound: intent.expires,
        }
    }

    pub(crate) fn of_thing(intent: &Intent, thing: &ResourceRef, reason: Option<String>) -> Self {
        Self { kind: thing.kind, id: Some(thing.id.clone()), ..Self::of_intent(intent, reason) }
    }
}

impl fmt::Display for ReportLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} on {}", self.kind, self.id.as_deref().unwrap_or(&self.name), self.provider)?;
        if let Some(reason) = &self.reason {
            write!(f, ": {reason}")?;
        }
        Ok(())
    }
}

/// The end of a session: each thing that it created is in exactly one of these lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TeardownReport {
    /// Deleted by us and seen to be gone.
    pub deleted: Vec<ReportLine>,
    /// Gone before we asked.
    pub already_gone: Vec<ReportLine>,
    /// Kept because the user asked for it.
    pub kept: Vec<ReportLine>,
    /// No call of the provider can delete them.
    pub undeletable: Vec<ReportLine>,
    /// Not seen to be gone in time; the ledger still lists them and a sweep goes on.
    pub stuck: Vec<ReportLine>,
    /// Perhaps made, not found; the ledger still lists them and sweeps look again until they must have expired.
    pub unresolved: Vec<ReportLine>,
    /// What went wrong beside that.
    pub notes: Vec<String>,
}

impl TeardownReport {
    /// Whether nothing is left that the user did not ask to keep.
    pub fn is_clean(&self) -> bool {
        self.stuck.is_empty() && self.unresolved.is_empty() && self.undeletable.is_empty()
    }

    /// The lists with their names, in the order in which they are shown.
    pub fn lists(&self) -> [(&'static str, &[ReportLine]); 6] {
        [
            ("deleted", &self.deleted),
            ("already gone", &self.already_gone),
            ("kept", &self.kept),
            ("undeletable", &self.undeletable),
            ("stuck", &self.stuck),
            ("unresolved", &self.unresolved),
        ]
    }

    /// One error for what is left, or `Ok` if nothing is.
    ///
    /// # Errors
    /// [`NotSeenGone`](crate::error::Code::NotSeenGone) naming each thing that is left.
    pub fn into_result(self) -> Result<()> {
        let left: Vec<String> = [&self.stuck, &self.unresolved, &self.undeletable]
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        Err(Error::new(crate::error::Code::NotSeenGone, format!("left behind: {}", left.join("; "))))
    }

    /// Takes an entry in, with the reason why it is still open if it is.
    pub(crate) fn add(&mut self, entry: &Entry, still_open: Option<&str>) {
        let intent = &entry.intent;
        if let Some((reason, until)) = &entry.kept {
            for (thing, _) in &entry.things {
                let line = ReportLine::of_thing(intent, thing, Some(reason.clone()));
                self.kept.push(ReportLine { bound: *until, ..line });
            }
            return;
        }
        for (thing, standing) in &entry.things {
            let line = |reason| ReportLine::of_thing(intent, thing, reason);
            match standing {
                Standing::Gone(DeletedHow::Deleted) => self.deleted.push(line(None)),
                Standing::Gone(DeletedHow::AlreadyGone) => self.already_gone.push(line(None)),
                Standing::Undeletable(bound) => self.undeletable.push(line(Some(bound.clone()))),
                Standing::Open => {
                    let reason = still_open.unwrap_or("not seen to be gone in time").to_owned();
                    self.stuck.push(line(Some(reason)));
                }
            }
        }
        if entry.is_open() && entry.things.is_empty() {
            let reason = still_open.unwrap_or("it may have been made and was not found");
            self.unresolved.push(ReportLine::of_intent(intent, Some(reason.to_owned())));
        }
    }
}

impl fmt::Display for TeardownReport {
    /// One line of counts, then a line for each thing that is left or kept.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.lists().map(|(name, lines)| format!("{} {name}", lines.len()));
        f.write_str(&counts.join(", "))?;
        // Nothing more is to be said of what is gone.
        for (name, lines) in &self.lists()[2..] {
            for line in *lines {
                write!(f, "\n  {name}: {line}")?;
                match line.bound {
                    Some(bound) => write!(f, " (until {bound})")?,
                    None => write!(f, " (no bound)")?,
                }
            }
        }
        self.notes.iter().try_for_each(|note| write!(f, "\n  note: {note}"))
    }
}

/// The result of some work and of the clean-up after it. A clean-up error never replaces the first.
#[derive(Debug)]
pub struct Outcome<T> {
    /// What the work gave.
    pub primary: Result<T>,
    /// What became of what it created.
    pub cleanup: TeardownReport,
}

impl<T> Outcome<T> {
    /// Whether the work succeeded and nothing is left.
    pub fn is_success(&self) -> bool {
        self.primary.is_ok() && self.cleanup.is_clean()
    }
}

impl<T> fmt::Display for Outcome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.primary {
            Ok(_) => write!(f, "done; clean-up: {}", self.cleanup),
            Err(error) => write!(f, "failed: {error}; clean-up: {}", self.cleanup),
        }
    }
}
