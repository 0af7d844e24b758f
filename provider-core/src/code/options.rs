//! How a code session works.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{
    contract::SANDBOX_V1,
    identity::User,
    lifecycle::{Clock, SystemClock},
    sandbox::{Command, Stdin},
};

/// How a code session works. Its `Debug` shows no values of variables, which may be secret.
#[derive(Clone)]
#[non_exhaustive]
pub struct CodeOptions {
    /// The interpreter, Python 3.8 or later. Without a slash it is looked up in `PATH`. Default: the contract's.
    pub python: String,
    /// A word that stands behind the driver's text in the list of processes. Default: none.
    pub label: Option<String>,
    /// The working directory, whose modules can be imported; absent means the contract's.
    pub cwd: Option<String>,
    /// Who runs it; absent means the contract's user.
    pub user: Option<User>,
    /// Variables added to those of the artifact; the same name replaces.
    pub env_vars: BTreeMap<String, String>,
    /// How long the interpreter may take to start and to answer. Default: 60 s.
    pub start_limit: Duration,
    /// How long code may run if a call says nothing else. Default: 10 minutes.
    pub run_limit: Duration,
    /// How long code that has reached its limit may take to answer the interrupt before it is killed. Default: 5 s.
    pub interrupt_grace: Duration,
    /// How many bytes are kept of each of standard output, standard error, the value, and each text of an error. What
    /// follows is dropped in the sandbox. Default: 1 MiB.
    pub output_cap: usize,
    /// Where the limits take their time from.
    pub clock: Arc<dyn Clock>,
}

impl Default for CodeOptions {
    fn default() -> Self {
        Self {
            python: SANDBOX_V1.python.to_owned(),
            label: None,
            cwd: None,
            user: None,
            env_vars: BTreeMap::new(),
            start_limit: Duration::from_secs(60),
            run_limit: Duration::from_secs(600),
            interrupt_grace: Duration::from_secs(5),
            output_cap: 1 << 20,
            clock: Arc::new(SystemClock::new()),
        }
    }
}

impl CodeOptions {
    /// The command that is the session.
    pub(super) fn command(&self) -> Command {
        let words =
            [self.python.as_str(), "-u", "-c", super::DRIVER].into_iter().chain(self.label.as_deref());
        let mut command = Command::argv(words).stdin(Stdin::Piped);
        command.env_vars.clone_from(&self.env_vars);
        command.cwd.clone_from(&self.cwd);
        command.user = self.user;
        command
    }

    /// The label of a command that is a session; for what stands in for a sandbox.
    #[cfg(any(test, feature = "memory"))]
    pub(crate) fn label_of(command: &Command) -> Option<String> {
        let words = command.program.argv();
        match words.as_slice() {
            [_, flag, also, driver, label @ ..]
                if flag == "-u"
                    && also == "-c"
                    && driver == super::DRIVER
                    && command.stdin == Stdin::Piped =>
            {
                Some(label.concat())
            }
            _ => None,
        }
    }
}

impl fmt::Debug for CodeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeOptions")
            .field("python", &self.python)
            .field("label", &self.label)
            .field("cwd", &self.cwd)
            .field("user", &self.user)
            .field("env_vars", &self.env_vars.keys())
            .field("start_limit", &self.start_limit)
            .field("run_limit", &self.run_limit)
            .field("interrupt_grace", &self.interrupt_grace)
            .field("output_cap", &self.output_cap)
            .finish_non_exhaustive()
    }
}
