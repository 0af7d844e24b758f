//! What a command left behind.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It ran into its limit and was killed with all its descendants.
    TimedOut,
}

impl ExitStatus {
    /// Whether it exited with 0.
    pub fn success(self) -> bool {
        self == ExitStatus::Code(0)
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitStatus::Code(code) => write!(f, "exit code {code}"),
            ExitStatus::Signal(signal) => write!(f, "signal {signal}"),
            ExitStatus::TimedOut => f.write_str("killed at its time limit"),
        }
    }
}

/// What a command left behind: its status and both streams, apart.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output, up to the cap.
    pub stdout: Vec<u8>,
    /// Standard error, up to the cap.
    pub stderr: Vec<u8>,
    /// Whether a stream was longer than the cap.
    pub truncated: bool,
    /// Whether a process that the command left behind still held a stream when reading ended.
    pub held_open: bool,
}

impl Output {
    /// An output with nothing cut off.
    pub fn new(status: ExitStatus, stdout: impl Into<Vec<u8>>, stderr: impl Into<Vec<u8>>) -> Self {
        Self { status, stdout: stdout.into(), stderr: stderr.into(), truncated: false, held_open: false }
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

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("status", &self.status)
            .field("stdout", &self.stdout_text())
            .field("stderr", &self.stderr_text())
            .field("truncated", &self.truncated)
            .field("held_open", &self.held_open)
            .finish()
    }
}
