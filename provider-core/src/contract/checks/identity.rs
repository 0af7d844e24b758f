//! `core.identity`: user, uid, gid, groups, `HOME` and working directory are the contract's.

use async_trait::async_trait;

use super::{Check, CheckContext, Verdict};
use crate::{contract::probe, error::Result};

/// The number under which the kernel shows a group that has none in this namespace.
const UNMAPPED_GROUP: u32 = 65534;

pub(super) struct Identity;

#[async_trait]
impl Check for Identity {
    async fn ask(&self, context: &CheckContext<'_>) -> Result<Verdict> {
        let output = context.sandbox.exec(probe::Identity::command()).await?;
        let found = probe::Identity::parse(&output)?;
        let wanted = probe::Identity::of(&context.contract);
        let mut mismatches = Vec::new();
        let mut texts = |what: &str, found: &str, wanted: &str| {
            if found != wanted {
                mismatches.push(format!("{what} is {found:?}, the contract says {wanted:?}"));
            }
        };
        texts("the user's name", &found.user, &wanted.user);
        texts("HOME", &found.home, &wanted.home);
        texts("the working directory", &found.workdir, &wanted.workdir);
        // A driver that sets only the effective id leaves a way back to the old one.
        let kinds = ["", "effective ", "saved ", "file system "];
        for (name, found, wanted) in [("uid", found.uids, wanted.uids), ("gid", found.gids, wanted.gids)] {
            for (kind, (found, wanted)) in kinds.iter().zip(found.into_iter().zip(wanted)) {
                if found != wanted {
                    mismatches.push(format!("{kind}{name} is {found}, the contract says {wanted}"));
                }
            }
        }
        let mut notes = Vec::new();
        let own = context.contract.user.gid;
        for group in found.groups.iter().filter(|group| **group != own) {
            if context.groups_cannot_be_dropped && *group == UNMAPPED_GROUP {
                notes.push(
                    "groups of the caller remain without a number, since this driver cannot drop them".into(),
                );
            } else {
                mismatches
                    .push(format!("supplementary group {group} is set, the contract says none but {own}"));
            }
        }
        notes.dedup();
        let user = context.contract.user;
        Ok(Verdict::of(mismatches, format!("{} is {user} at {}", wanted.user, wanted.workdir), notes))
    }
}
