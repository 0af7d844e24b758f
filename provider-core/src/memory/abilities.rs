//! What the driver of a world says that it can do.

use std::time::Duration;

use super::Pace;
use crate::{
    capability::{Capabilities, Settle},
    resources::Quantum,
};

pub(super) fn capabilities(pace: Pace) -> Capabilities {
    Capabilities {
        artifact_delete: true,
        artifact_keep: true,
        sandbox_keep: true,
        unpinned_base: true,
        exec_streams_apart: true,
        exec_user: true,
        exec_stdin: true,
        settle: Settle::After(pace.settle),
        reads_until_gone: 2,
        request_deadline: pace.request_deadline,
        build_deadline: Duration::from_secs(1800),
        sandbox_lifetime_max: Duration::from_secs(24 * 3600),
        cpu: Some(Quantum { min: 1000, max: 8000, step: 1000 }),
        memory: Some(Quantum { min: 512, max: 32_768, step: 512 }),
        disk: None,
        ledger_sync: true,
        creates_at_once: 8,
        deletes_at_once: 16,
    }
}
