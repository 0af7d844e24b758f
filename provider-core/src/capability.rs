//! What a driver can do, as plain data, so that it can be refused before anything is spent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::resources::Quantum;

/// How soon a created thing can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settle {
    /// Looking it up is authoritative at once: absent means that it was never made.
    Immediate,
    /// It may stay invisible for this long after the request was sent. Even then, absence is no proof.
    After(Duration),
}

/// What a provider does, as its driver declares it. Names say what is true when the flag is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// Artifacts can be deleted.
    pub artifact_delete: bool,
    /// An artifact can outlive the session that built it.
    pub artifact_keep: bool,
    /// A sandbox can outlive the process that launched it, and be attached to.
    pub sandbox_keep: bool,
    /// A base may be named by a fingerprint that no digest proves.
    pub unpinned_base: bool,
    /// Standard output and standard error arrive apart.
    pub exec_streams_apart: bool,
    /// A command may be given any numeric user.
    pub exec_user: bool,
    /// A command may be given standard input.
    pub exec_stdin: bool,
    /// An open row of an intent names where the thing would be found, and when its absence is proof.
    pub settle: Settle,
    /// How many reads in a row must find a thing absent before it counts as gone.
    pub reads_until_gone: u32,
    /// How long a create request may take before it counts as unanswered.
    pub request_deadline: Duration,
    /// How long a build may take.
    pub build_deadline: Duration,
    /// The longest life that a sandbox can be given.
    pub sandbox_lifetime_max: Duration,
    /// The processors that a sandbox can be given, in thousandths; absent where they cannot be chosen.
    pub cpu: Option<Quantum>,
    /// The memory that a sandbox can be given, in MiB; absent where it cannot be chosen.
    pub memory: Option<Quantum>,
    /// The disk that a sandbox can be given, in MiB; absent where it cannot be chosen.
    pub disk: Option<Quantum>,
    /// Ledger rows must be on disk before a create is sent. Not so where a crash of the machine ends the things too.
    pub ledger_sync: bool,
    /// Creates under way at once, per account.
    pub creates_at_once: u32,
    /// Deletes under way at once, per account.
    pub deletes_at_once: u32,
}
