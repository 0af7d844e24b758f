//! A command: what is run, by whom, and with what.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    error::{Code, Error, Result},
    identity::User,
};

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A program with its arguments, passed on exactly. The first word is looked up in `PATH` if it has no slash.
    Argv(Vec<String>),
    /// One line for `/bin/sh -c`.
    Shell(String),
}

impl Program {
    /// The words that are executed.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Program::Argv(words) => words.clone(),
            Program::Shell(line) => vec!["/bin/sh".into(), "-c".into(), line.clone()],
        }
    }
}

/// What a command reads.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the end of input at once.
    #[default]
    Closed,
    /// These bytes, then the end of input.
    Bytes(Vec<u8>),
    /// What is written to [`Child::stdin`](super::Child::stdin). Only for [`Sandbox::spawn`](super::Sandbox::spawn).
    Piped,
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stdin::Closed => f.write_str("Closed"),
            Stdin::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Stdin::Piped => f.write_str("Piped"),
        }
    }
}

/// A command to run in a sandbox. Its `Debug` shows no values of variables, which may be secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Command {
    /// What is run.
    pub program: Program,
    /// Variables added to those of the artifact; the same name replaces.
    pub env_vars: BTreeMap<String, String>,
    /// The working directory; absent means the contract's.
    pub cwd: Option<String>,
    /// Who runs it; absent means the contract's user.
    pub user: Option<User>,
    /// What it reads.
    pub stdin: Stdin,
    /// How long it may run. Then the whole tree of processes is killed. Absent means no limit of its own.
    pub timeout: Option<Duration>,
    /// How many bytes of each stream [`Sandbox::exec`](super::Sandbox::exec) keeps; what follows is read and dropped.
    pub output_cap: usize,
}

impl Command {
    /// The default of [`Command::output_cap`]: 16 MiB.
    pub const OUTPUT_CAP: usize = 16 << 20;

    /// A program with arguments.
    pub fn argv<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        Self::new(Program::Argv(words.into_iter().map(Into::into).collect()))
    }

    /// A line for the shell.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(Program::Shell(line.into()))
    }

    fn new(program: Program) -> Self {
        Self {
            program,
            env_vars: BTreeMap::new(),
            cwd: None,
            user: None,
            stdin: Stdin::Closed,
            timeout: None,
            output_cap: Self::OUTPUT_CAP,
        }
    }

    /// Adds a variable.
    #[must_use]
    pub fn env_var(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env_vars.insert(name.into(), value.into());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Sets who runs it.
    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.user = Some(user);
        self
    }

    /// Sets what it reads.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets how long it may run.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets how many bytes of each stream are kept.
    #[must_use]
    pub fn output_cap(mut self, bytes: usize) -> Self {
        self.output_cap = bytes;
        self
    }

    /// Refuses what no provider can pass on.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if there is no program, if a word, name, value or path holds a NUL, or if a variable's
    /// name is empty or holds `=`.
    pub fn check(&self) -> Result<()> {
        let refuse = |words: String| Err(Error::new(Code::SpecInvalid, words).with_operation("exec"));
        let argv = self.program.argv();
        if argv.first().is_none_or(String::is_empty) {
            return refuse("the command has no program".into());
        }
        if argv.iter().chain(&self.cwd).any(|text| text.contains('\0')) {
            return refuse("the command or its working directory holds a NUL".into());
        }
        match self.env_vars.iter().find(|(name, value)| !is_env_name(name) || value.contains('\0')) {
            Some((name, _)) => {
                refuse(format!("variable {name:?} has no valid name or its value holds a NUL"))
            }
            None => Ok(()),
        }
    }
}

fn is_env_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("env_vars", &self.env_vars.keys())
            .field("cwd", &self.cwd)
            .field("user", &self.user)
            .field("stdin", &self.stdin)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
