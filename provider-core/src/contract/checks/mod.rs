//! The core tier: numbered questions about a running sandbox, answered inside it.
//!
//! A check that returns an error or panics is a failed check, and the checks after it still run. Nothing that a check
//! reports holds the value of a secret.

mod doctor;
mod filesystem;
mod identity;
mod imports;
mod kernel;
mod python;
mod restart;
mod result;
mod scrub;
mod secrets;
mod shutdown;
pub(crate) mod snippets;

use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use async_trait::async_trait;
use futures_util::FutureExt;

pub use result::{CheckResult, Status};

use super::{Contract, LanguageFacts, Row, SANDBOX_V1};
use crate::{
    error::Result,
    identity::User,
    lifecycle::{Clock, SystemClock, Timestamp},
    sandbox::Sandbox,
    secret::SecretSet,
};
use result::Verdict;
use scrub::scrub;

/// The stable ids of the core tier. They name trials, rows of reports, and expected failures.
pub mod ids {
    /// The doctor runs and passes.
    pub const DOCTOR: &str = "core.doctor";
    /// User, groups, home and working directory.
    pub const IDENTITY: &str = "core.identity";
    /// The interpreter's version.
    pub const PYTHON: &str = "core.python";
    /// A code session.
    pub const KERNEL: &str = "core.kernel";
    /// The direct dependencies.
    pub const IMPORTS: &str = "core.imports";
    /// What can be written.
    pub const FILESYSTEM: &str = "core.filesystem";
    /// A code session restarts.
    pub const RESTART: &str = "core.restart";
    /// Processes end in time.
    pub const SHUTDOWN: &str = "core.shutdown";
    /// No secret is left.
    pub const SECRETS: &str = "core.secrets";
}

/// One line of the table of the core tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckInfo {
    /// The stable id.
    pub id: &'static str,
    /// What is asked.
    pub question: &'static str,
    /// Whether it is only asked of an Environment that names a language.
    pub needs_language: bool,
}

/// The core tier in order.
pub const CORE_TIER: [CheckInfo; 9] = [
    CheckInfo {
        id: ids::DOCTOR,
        question: "the doctor runs at its path, reports this contract's version and exits with 0",
        needs_language: false,
    },
    CheckInfo {
        id: ids::IDENTITY,
        question: "user, uid, gid, groups, HOME and working directory are the contract's",
        needs_language: false,
    },
    CheckInfo {
        id: ids::PYTHON,
        question: "the Python version satisfies the Environment; an installer is on PATH",
        needs_language: true,
    },
    CheckInfo {
        id: ids::KERNEL,
        question: "a code session runs `1+1`, keeps state across calls and tells an exception with its traceback",
        needs_language: true,
    },
    CheckInfo {
        id: ids::IMPORTS,
        question: "each direct dependency imports, with exactly the lockfile's version",
        needs_language: true,
    },
    CheckInfo {
        id: ids::FILESYSTEM,
        question: "the working directory takes a real write, read and delete; the reserved path refuses any change",
        needs_language: false,
    },
    CheckInfo {
        id: ids::RESTART,
        question: "a code session restarts: its tree is killed, its state is gone, the sandbox is the same",
        needs_language: true,
    },
    CheckInfo {
        id: ids::SHUTDOWN,
        question: "a process group ends in time after SIGTERM; PID 1 leaves no zombie",
        needs_language: false,
    },
    CheckInfo {
        id: ids::SECRETS,
        question: "no build secret is in variables, arguments, files, names or metadata",
        needs_language: false,
    },
];

/// What a check is given.
#[non_exhaustive]
pub struct CheckContext<'a> {
    /// The sandbox that is asked.
    pub sandbox: &'a Arc<dyn Sandbox>,
    /// What it should provide.
    pub contract: Contract,
    /// The values of the build secrets, which must not be found.
    pub secrets: &'a SecretSet,
    /// Texts that the provider keeps about the artifact and the sandbox (name, labels, log, variables), by what they
    /// are. They are searched for secrets on this side.
    pub metadata: Vec<(String, String)>,
    /// Whether the driver says that supplementary groups of the caller cannot be dropped. Then groups that have no
    /// number inside the sandbox are accepted, and reported.
    pub groups_cannot_be_dropped: bool,
    /// The language that the Environment names. Without one, the checks about it are not asked.
    pub language: Option<LanguageFacts>,
    /// Only files that changed since then, by the sandbox's clock, are searched for secrets: the start of the build,
    /// less a margin for clocks that differ. Absent means all files.
    pub since: Option<Timestamp>,
    /// Who searches for secrets; absent means the contract's user, who cannot read files of others. Where the driver
    /// can run a command as root, that finds more.
    pub search_as: Option<User>,
    /// Where the limits of code sessions take their time from.
    pub clock: Arc<dyn Clock>,
}

impl<'a> CheckContext<'a> {
    /// The context of a sandbox that should keep [`SANDBOX_V1`], of an Environment without a language.
    pub fn new(sandbox: &'a Arc<dyn Sandbox>, secrets: &'a SecretSet) -> Self {
        Self {
            sandbox,
            contract: SANDBOX_V1,
            secrets,
            metadata: Vec::new(),
            groups_cannot_be_dropped: false,
            language: None,
            since: None,
            search_as: None,
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Whether the Environment names a language.
    pub fn names_language(&self) -> bool {
        self.language.is_some()
    }

    /// The rows that the doctor must have been asked.
    pub fn asked_rows(&self) -> Vec<Row> {
        Row::asked(self.names_language())
    }
}

impl fmt::Debug for CheckContext<'_> {
    /// Without the metadata, which may hold what is looked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckContext")
            .field("sandbox", &format_args!("{}", self.sandbox))
            .field("contract", &self.contract.name)
            .field("secrets", &self.secrets)
            .field("metadata", &self.metadata.len())
            .field("groups_cannot_be_dropped", &self.groups_cannot_be_dropped)
            .field("language", &self.language)
            .field("since", &self.since)
            .field("search_as", &self.search_as)
            .finish()
    }
}

/// One question about a sandbox.
#[async_trait]
trait Check: Sync {
    /// Asks. What speaks against the sandbox is in the verdict; an error means that it could not be asked.
    async fn ask(&self, context: &CheckContext<'_>) -> Result<Verdict>;
}

/// The checks, in the order of [`CORE_TIER`].
const CHECKS: [&dyn Check; CORE_TIER.len()] = [
    &doctor::Doctor,
    &identity::Identity,
    &python::Python,
    &kernel::Kernel,
    &imports::Imports,
    &filesystem::Filesystem,
    &restart::Restart,
    &shutdown::Shutdown,
    &secrets::Secrets,
];

/// Runs the checks of the core tier in order, each to its end.
///
/// Cancel safe: a dropped future stops asking. The command under way is then the driver's to end.
pub async fn run_core_tier(context: &CheckContext<'_>) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for (info, check) in CORE_TIER.iter().zip(CHECKS) {
        results.push(run(info, check, context).await);
    }
    results
}

/// Runs one check of the core tier by its id. `None` if there is no such check.
///
/// Cancel safe, as [`run_core_tier`] is.
pub async fn run_check(id: &str, context: &CheckContext<'_>) -> Option<CheckResult> {
    let (info, check) = CORE_TIER.iter().zip(CHECKS).find(|(info, _)| info.id == id)?;
    Some(run(info, check, context).await)
}

async fn run(info: &CheckInfo, check: &dyn Check, context: &CheckContext<'_>) -> CheckResult {
    let start = Instant::now();
    let (status, verdict) = if info.needs_language && !context.names_language() {
        (Status::NotAsked, Verdict::of(Vec::new(), "the Environment names no language", Vec::new()))
    } else {
        let verdict = ask(check, context).await;
        (if verdict.failed { Status::Failed } else { Status::Passed }, verdict)
    };
    CheckResult {
        id: info.id.to_owned(),
        status,
        summary: scrub(context.secrets, &one_line(&verdict.summary)),
        details: verdict.details.iter().map(|line| scrub(context.secrets, line)).collect(),
        duration: start.elapsed(),
    }
}

async fn ask(check: &dyn Check, context: &CheckContext<'_>) -> Verdict {
    // A context is only read, so a check that panics leaves nothing half done in it.
    match AssertUnwindSafe(check.ask(context)).catch_unwind().await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(error)) => Verdict::failed(format!("the check could not be carried out: {error}")),
        Err(panic) => Verdict::failed(format!("the check panicked: {}", panic_words(&*panic))),
    }
}

fn panic_words(panic: &(dyn std::any::Any + Send)) -> &str {
    let words = panic.downcast_ref::<&str>().copied();
    words.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

/// A number with the word for what it counts.
fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
