//! What sandboxes of a world find in their reserved path.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    contract::fixtures::{MachineFacts, ScriptedMachine},
    environment::Lockfile,
};

/// The texts of the lockfiles that were built here, by their digests. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Lockfiles(Arc<Mutex<BTreeMap<String, String>>>);

impl Lockfiles {
    pub(super) fn remember(&self, lockfile: &Lockfile) {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        texts.insert(lockfile.digest().to_owned(), lockfile.text().to_owned());
    }

    /// The machine of a sandbox, with what an artifact of this lockfile has in its reserved path.
    pub(super) fn machine(&self, facts: &MachineFacts, lockfile_digest: Option<&str>) -> ScriptedMachine {
        let mut facts = facts.clone();
        if let Some(digest) = lockfile_digest {
            let texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // One that another process built is the one without packages, which is all that the proofs build.
            let text = texts.get(digest).cloned();
            let text = text.unwrap_or_else(|| Lockfile::without_packages().text().to_owned());
            let description = serde_json::json!({ "lockfile_digest": digest }).to_string();
            for (path, text) in
                [(facts.contract.lockfile_path, text), (facts.contract.description_path, description)]
            {
                facts.files.entry(path.to_owned()).or_insert(text.into_bytes());
            }
        }
        ScriptedMachine::new(facts)
    }
}
