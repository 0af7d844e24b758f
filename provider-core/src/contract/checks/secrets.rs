//! `core.secrets`: no build secret is in variables, arguments, files, names or metadata.

use async_trait::async_trait;

use super::{Check, CheckContext, Verdict, counted, scrub::holds};
use crate::{
    contract::probe::{SecretSearch, SecretsAnswer, Where},
    error::Result,
};

pub(super) struct Secrets;

#[async_trait]
impl Check for Secrets {
    async fn ask(&self, context: &CheckContext<'_>) -> Result<Verdict> {
        let names: Vec<&str> = context.secrets.iter().map(|(id, _)| id).collect();
        if names.is_empty() {
            return Ok(Verdict::of(Vec::new(), "the build was given no secrets", Vec::new()));
        }
        let mut mismatches = Vec::new();
        for (what, text) in &context.metadata {
            for (id, secret) in context.secrets.iter() {
                if holds(secret, what) || holds(secret, text) {
                    mismatches.push(format!("build secret {id:?} is in the provider's metadata: {what}"));
                }
            }
        }
        let mut notes = Vec::new();
        // As the contract's user, and as whoever sees what that user does not.
        let others = context.search_as.map(Some);
        for user in std::iter::once(None).chain(others) {
            let mut search = SecretSearch::new(&context.contract, context.secrets);
            search.since = context.since;
            search.user = user;
            let output = context.sandbox.exec(search.command()).await?;
            let seen = search.parse(&output)?;
            for hit in &seen.hits {
                let id = names.get(hit.secret).copied().unwrap_or("?");
                let path = hit.path.as_ref().map(|path| format!(": {path:?}")).unwrap_or_default();
                let words = format!("build secret {id:?} is in {}{path}", hit.place);
                if !mismatches.contains(&words) {
                    mismatches.push(words);
                }
            }
            mismatches.extend(left_out(&seen));
            notes.extend(limits(&seen));
        }
        notes.push(format!("searched {} texts of metadata", context.metadata.len()));
        let secrets = counted(names.len(), "build secret", "build secrets");
        let passed = format!("searched for {secrets} and found no trace");
        Ok(Verdict::of(mismatches, passed, notes))
    }
}

/// What was not searched, since time was over: the check must not pass for want of time.
fn left_out(seen: &SecretsAnswer) -> Vec<String> {
    let skipped = seen.tallies.iter().filter(|(_, tally)| tally.skipped > 0);
    skipped
        .map(|(place, tally)| {
            let (number, bytes) = (tally.skipped, tally.skipped_bytes);
            format!("time was over before {number} of {place} with {bytes} bytes were searched")
        })
        .collect()
}

/// What was searched, and what was not.
fn limits(seen: &SecretsAnswer) -> Vec<String> {
    let mut notes = Vec::new();
    for (place, tally) in &seen.tallies {
        let mut note = format!("as uid {}, searched {} of {place}", seen.uid, tally.searched);
        if matches!(place, Where::Files | Where::Large) {
            note += &format!(" with {} bytes", tally.bytes);
        }
        if tally.unreadable > 0 {
            note += &format!("; {} could not be read", tally.unreadable);
        }
        notes.push(note);
    }
    for (path, bytes) in &seen.partly {
        notes.push(format!("only the beginning of {path:?} was searched; it has {bytes} bytes"));
    }
    if seen.unlisted {
        notes.push("some folders could not be listed".into());
    }
    notes
}
