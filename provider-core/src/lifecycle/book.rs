//! What the rows of a ledger add up to.

use std::collections::BTreeMap;

use super::{
    Intent, ResourceKind, ResourceRef, Timestamp,
    ledger::{DeletedHow, Row},
};

/// Where one thing stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It exists, as far as is known.
    Open,
    /// It is gone.
    Gone(DeletedHow),
    /// No call of the provider can delete it.
    Undeletable(String),
}

/// One intent and what came of it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What was to be created.
    pub intent: Intent,
    /// What was created, and where each stands. Empty until an acquisition is known.
    pub things: Vec<(ResourceRef, Standing)>,
    /// It was looked for and not found; it may still exist.
    pub unresolved: bool,
    /// Nothing was created.
    pub not_made: bool,
    /// Why it stays, and until when, if it was kept.
    pub kept: Option<(String, Option<Timestamp>)>,
}

impl Entry {
    fn new(intent: Intent) -> Self {
        Self { intent, things: Vec::new(), unresolved: false, not_made: false, kept: None }
    }

    /// Takes in a row that speaks of this entry.
    pub(crate) fn apply(&mut self, row: &Row) {
        match row {
            Row::Open { .. } | Row::Intent(_) => {}
            Row::Acquired { things, .. } => {
                for thing in things {
                    if !self.things.iter().any(|(known, _)| known.id == thing.id && known.kind == thing.kind)
                    {
                        self.things.push((thing.clone(), Standing::Open));
                    }
                }
                (self.unresolved, self.not_made) = (false, false);
            }
            Row::NotMade { .. } => self.not_made = self.things.is_empty(),
            Row::Unresolved { .. } => self.unresolved = true,
            Row::Deleted { kind, id, how, .. } => self.stand(*kind, id, &Standing::Gone(*how)),
            Row::Undeletable { kind, id, bound, .. } => {
                self.stand(*kind, id, &Standing::Undeletable(bound.clone()));
            }
            Row::Kept { reason, until, .. } => self.kept = Some((reason.clone(), *until)),
        }
    }

    fn stand(&mut self, kind: ResourceKind, id: &str, new: &Standing) {
        for (_, standing) in self.things.iter_mut().filter(|(thing, _)| thing.kind == kind && thing.id == id)
        {
            *standing = new.clone();
        }
    }

    /// Whether something of it may still have to be deleted.
    pub fn is_open(&self) -> bool {
        if self.kept.is_some() || self.not_made {
            return false;
        }
        self.things.is_empty() || self.things.iter().any(|(_, standing)| *standing == Standing::Open)
    }

    /// The things that have to be deleted, children before parents.
    pub fn open_things(&self) -> Vec<ResourceRef> {
        let mut open: Vec<_> = self
            .things
            .iter()
            .filter(|(_, standing)| *standing == Standing::Open)
            .map(|(thing, _)| thing.clone())
            .collect();
        open.sort_by_key(|thing| thing.kind);
        open
    }
}

/// The entries of one run, by their number.
#[derive(Clone, Debug, Default)]
pub struct Book {
    entries: BTreeMap<u32, Entry>,
}

impl Book {
    /// The book that these rows add up to. Rows that speak of an unknown intent are passed over.
    pub fn replay<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut book = Self::default();
        for row in rows {
            book.apply(row);
        }
        book
    }

    /// Takes one row in.
    pub fn apply(&mut self, row: &Row) {
        match row {
            Row::Open { .. } => {}
            Row::Intent(intent) => {
                self.entries.entry(intent.ordinal).or_insert_with(|| Entry::new(intent.clone()));
            }
            Row::Acquired { ordinal, .. }
            | Row::NotMade { ordinal }
            | Row::Unresolved { ordinal }
            | Row::Deleted { ordinal, .. }
            | Row::Undeletable { ordinal, .. }
            | Row::Kept { ordinal, .. } => {
                if let Some(entry) = self.entries.get_mut(ordinal) {
                    entry.apply(row);
                }
            }
        }
    }

    /// One entry.
    pub fn get(&self, ordinal: u32) -> Option<&Entry> {
        self.entries.get(&ordinal)
    }

    /// All entries, in the order of their numbers.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The numbers of the open entries of each kind, children before parents; of one kind the youngest first.
    pub fn open_by_kind(&self) -> Vec<(ResourceKind, Vec<u32>)> {
        let mut by_kind: BTreeMap<ResourceKind, Vec<u32>> = BTreeMap::new();
        for entry in self.entries.values().rev().filter(|entry| entry.is_open()) {
            by_kind.entry(entry.intent.kind).or_default().push(entry.intent.ordinal);
        }
        by_kind.into_iter().collect()
    }

    /// Whether nothing is left to be deleted.
    pub fn is_settled(&self) -> bool {
        !self.entries.values().any(Entry::is_open)
    }
}
