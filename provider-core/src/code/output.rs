//! What code left behind.

use std::fmt;

use crate::sandbox::ExitStatus;

/// What a piece of code left behind, whether it did what it should or not.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeOutput {
    /// How the code ended.
    pub end: CodeEnd,
    /// What `repr` says of the value of the last statement, if that is an expression and its value is not `None`.
    pub value: Option<String>,
    /// What the code and its children wrote to standard output until its end, up to the cap. What background work of
    /// earlier code wrote since that ended comes first.
    pub stdout: Vec<u8>,
    /// The same of standard error.
    pub stderr: Vec<u8>,
    /// Whether one of the texts was longer than the cap.
    pub truncated: bool,
    /// The exception that ended the code. `SystemExit` is one too, and does not end the session.
    pub error: Option<CodeError>,
}

/// How a piece of code ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeEnd {
    /// It came to its end, or to an exception.
    Finished,
    /// It reached its limit, was interrupted, and answered. The state is kept.
    TimedOut,
    /// It reached its limit, did not answer the interrupt, and was killed. The session is lost.
    Killed,
    /// The interpreter ended during the code. The session is lost.
    Died(ExitStatus),
}

impl fmt::Display for CodeEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeEnd::Finished => f.write_str("finished"),
            CodeEnd::TimedOut => f.write_str("interrupted at its time limit"),
            CodeEnd::Killed => f.write_str("killed, since it did not answer the interrupt at its time limit"),
            CodeEnd::Died(status) => write!(f, "the interpreter ended with {status}"),
        }
    }
}

/// An exception. Bytes that are no text were replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeError {
    /// The name of its class.
    pub name: String,
    /// What `str` says of it.
    pub message: String,
    /// The traceback as Python prints it. The lines of the code are in a file `<code N>`, where N is the number of
    /// the run.
    pub traceback: String,
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}

impl CodeOutput {
    /// Whether the code came to its end within its limit, without an exception.
    pub fn success(&self) -> bool {
        self.end == CodeEnd::Finished && self.error.is_none()
    }

    /// Standard output as text; bytes that are not UTF-8 are replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text; bytes that are not UTF-8 are replaced.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl fmt::Debug for CodeOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeOutput")
            .field("end", &self.end)
            .field("value", &self.value)
            .field("stdout", &self.stdout_text())
            .field("stderr", &self.stderr_text())
            .field("truncated", &self.truncated)
            .field("error", &self.error)
            .finish()
    }
}
