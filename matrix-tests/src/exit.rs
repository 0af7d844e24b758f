//! The exit codes of `matrix`.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Everything passed, and nothing is left.
    Passed,
    /// A leg or one of its checks failed.
    Failed,
    /// Nothing was tried: the machine, a setting or an input does not allow it.
    Refused,
    /// Something was left behind, or may have been.
    LeftBehind,
    /// Ended by Ctrl-C.
    Interrupted,
    /// Ended by SIGTERM.
    Terminated,
}

impl Exit {
    /// The code that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Exit::Passed => 0,
            Exit::Failed => 1,
            Exit::Refused => 2,
            Exit::LeftBehind => 3,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// For `--help`.
pub const HELP: &str = "Exit codes:
  0    everything passed and nothing is left
  1    a leg or a check failed
  2    nothing was tried: the machine, a setting or an input does not allow it
  3    something was left behind, or may have been; `matrix sweep --delete` goes on
  130  ended by Ctrl-C      143  ended by SIGTERM";
