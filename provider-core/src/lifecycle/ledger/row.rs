//! The rows of a ledger.

use serde::{Deserialize, Serialize};

use crate::{
    lifecycle::{Intent, ResourceKind, ResourceRef, Timestamp},
    names::{Owner, RunId},
};

/// The version of the format that this code writes and reads.
pub const VERSION: u32 = 1;

/// How it was found that a thing is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeletedHow {
    /// We asked for it, and saw it gone.
    Deleted,
    /// It was gone before we asked.
    AlreadyGone,
}

/// One line of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub enum Row {
    /// The first line.
    Open {
        /// The version of the format.
        version: u32,
        /// Whose things these are.
        owner: Owner,
        /// The run.
        run: RunId,
        /// The tool that opened the session.
        tool: String,
        /// When.
        at: Timestamp,
    },
    /// Something is about to be created.
    Intent(Intent),
    /// It was created.
    Acquired {
        /// The intent's number.
        ordinal: u32,
        /// What was created; the first is what was asked for.
        things: Vec<ResourceRef>,
    },
    /// Nothing was created: the provider said so, in a way that leaves no doubt.
    NotMade {
        /// The intent's number.
        ordinal: u32,
    },
    /// Whether something was created is not known. It could not be found so far.
    Unresolved {
        /// The intent's number.
        ordinal: u32,
    },
    /// One thing is gone.
    Deleted {
        /// The intent's number.
        ordinal: u32,
        /// What sort of thing.
        kind: ResourceKind,
        /// The provider's id of the thing.
        id: String,
        /// How that was found.
        how: DeletedHow,
    },
    /// One thing stays on purpose.
    Kept {
        /// The intent's number.
        ordinal: u32,
        /// Why.
        reason: String,
        /// Until when; absent means without a bound.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// One thing cannot be deleted by any call of the provider.
    Undeletable {
        /// The intent's number.
        ordinal: u32,
        /// What sort of thing.
        kind: ResourceKind,
        /// The provider's id of the thing.
        id: String,
        /// Why, how large it is and how long it will exist.
        bound: String,
    },
}
