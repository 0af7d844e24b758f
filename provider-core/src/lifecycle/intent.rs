//! What is about to be made, and what was made.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::Timestamp;
use crate::{
    error::{Code, Error, Result},
    names::{Owner, ProviderId, RunId, Stamp, ThingName},
};

/// What sort of thing it is. The order is the order of deletion: children before parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// A running machine.
    Sandbox,
    /// A saved state of a sandbox.
    Snapshot,
    /// What sandboxes are launched from.
    Artifact,
    /// A step on the way to an artifact: an image layer, a machine that builds.
    Intermediate,
    /// Uploaded content that a build reads.
    Context,
    /// A secret that the provider stores.
    Secret,
    /// What groups the others.
    App,
}

impl ResourceKind {
    /// Every kind, in the order of deletion.
    pub const ALL: [ResourceKind; 7] = [
        ResourceKind::Sandbox,
        ResourceKind::Snapshot,
        ResourceKind::Artifact,
        ResourceKind::Intermediate,
        ResourceKind::Context,
        ResourceKind::Secret,
        ResourceKind::App,
    ];

    /// The kind as it appears in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            ResourceKind::Sandbox => "sandbox",
            ResourceKind::Snapshot => "snapshot",
            ResourceKind::Artifact => "artifact",
            ResourceKind::Intermediate => "intermediate",
            ResourceKind::Context => "context",
            ResourceKind::Secret => "secret",
            ResourceKind::App => "app",
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One thing at a provider: all that is needed to look at it and to delete it, by a later process too.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceRef {
    /// What sort of thing it is.
    pub kind: ResourceKind,
    /// Which provider has it.
    pub provider: ProviderId,
    /// The account that owns it: a fingerprint that is no secret.
    pub account: String,
    /// Where the provider is.
    pub endpoint: String,
    /// The provider's own id, by which it is read and deleted.
    pub id: String,
    /// The name that we gave it, where the provider keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What else the driver needs to know about it. No secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} on {}", self.kind, self.id, self.provider)
    }
}

/// Until when a built artifact may exist. Chosen before the build, since its name carries it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// Until the session closes.
    #[default]
    Session,
    /// Until this moment.
    Until(Timestamp),
    /// Until somebody deletes it, for this reason.
    Unbounded {
        /// Why nobody's sweep should delete it.
        reason: String,
    },
}

impl Lifetime {
    /// Refuses a lifetime that says nothing.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if it is over already, or has no bound and no reason.
    pub fn check(&self, now: Timestamp) -> Result<()> {
        match self {
            Lifetime::Until(moment) if *moment <= now => {
                Err(Error::new(Code::SpecInvalid, format!("the lifetime ended at {moment}, before it began")))
            }
            Lifetime::Unbounded { reason } if reason.trim().is_empty() => {
                Err(Error::new(Code::SpecInvalid, "a lifetime without a bound needs a reason"))
            }
            _ => Ok(()),
        }
    }
}

/// What is about to be created. It is written to the ledger before the request is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// Whose it will be.
    pub owner: Owner,
    /// The run that creates it.
    pub run: RunId,
    /// Its number within the run.
    pub ordinal: u32,
    /// What sort of thing.
    pub kind: ResourceKind,
    /// Its part in the work, such as `template` or `context`.
    pub slot: String,
    /// Which provider.
    pub provider: ProviderId,
    /// Which account.
    pub account: String,
    /// Where the provider is.
    pub endpoint: String,
    /// When the thing expires by itself, or may be deleted by any sweep; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// When the intent was written. The request is sent after this moment.
    pub at: Timestamp,
}

impl Intent {
    /// The unique name that the thing is to have.
    pub fn name(&self) -> ThingName {
        ThingName {
            owner: self.owner.clone(),
            stamp: self.expires.map_or(Stamp::Unbounded, Stamp::at),
            run: self.run.clone(),
            ordinal: self.ordinal,
        }
    }

    /// The labels that the thing is to have, where the provider takes labels.
    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("px-owner".to_owned(), self.owner.to_string()),
            ("px-name".to_owned(), self.name().to_string()),
            ("px-kind".to_owned(), self.kind.to_string()),
        ])
    }

    /// How much life is left at `now`, for providers that take a duration; absent means no bound.
    pub fn life_left(&self, now: Timestamp) -> Option<Duration> {
        self.expires.map(|expires| expires.since(now))
    }

    /// A reference to the thing that this intent made.
    pub fn made(&self, id: impl Into<String>) -> ResourceRef {
        ResourceRef {
            kind: self.kind,
            provider: self.provider.clone(),
            account: self.account.clone(),
            endpoint: self.endpoint.clone(),
            id: id.into(),
            name: Some(self.name().to_string()),
            details: BTreeMap::new(),
        }
    }

    /// Whether a thing carries exactly this intent's mark.
    pub fn made_this(&self, thing: &ResourceRef) -> bool {
        thing.provider == self.provider
            && thing.account == self.account
            && thing.endpoint == self.endpoint
            && thing.name.as_deref().is_none_or(|name| name == self.name().to_string())
    }
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) named {} on {}", self.kind, self.slot, self.name(), self.provider)
    }
}
