//! The lines of a probe's answer.

use crate::{
    error::{Code, Error, Result},
    hex::unhex,
    sandbox::{ExitStatus, Output},
};

use super::Probe;

/// An answer that is read line by line, in order. Errors name keys and line numbers, and never quote values, which can
/// hold anything.
#[derive(Debug)]
pub(super) struct Answer {
    probe: Probe,
    lines: Vec<(String, String)>,
    next: usize,
}

impl Answer {
    /// Reads a whole answer: the command succeeded, nothing is cut off, and first and last line name the probe.
    pub(super) fn open(probe: Probe, output: &Output) -> Result<Self> {
        let broken = |why: String| broken(probe, why);
        if !output.status.success() {
            return Err(broken(format!("it ended with {}", output.status)));
        }
        if output.truncated {
            return Err(broken("it is longer than an answer can be".into()));
        }
        let text = std::str::from_utf8(&output.stdout).map_err(|_| broken("it is not text".into()))?;
        let body = text.strip_suffix('\n').ok_or_else(|| broken("its last line is cut off".into()))?;
        let mut lines = Vec::new();
        for (number, line) in body.split('\n').enumerate() {
            let parts =
                line.split_once('=').ok_or_else(|| broken(format!("line {} has no key", number + 1)))?;
            lines.push((parts.0.to_owned(), parts.1.to_owned()));
        }
        let is_frame = |line: Option<&(String, String)>, key: &str| {
            line.is_some_and(|(found, value)| found == key && value == probe.name())
        };
        if !is_frame(lines.first(), "probe") {
            return Err(broken("it does not begin as this version of the probe does".into()));
        }
        if lines.len() < 2 || !is_frame(lines.last(), "end") {
            return Err(broken("it does not end as this version of the probe does".into()));
        }
        lines.pop();
        Ok(Self { probe, lines, next: 1 })
    }

    /// The value of the next line, which must have this key.
    pub(super) fn take(&mut self, key: &str) -> Result<String> {
        match self.lines.get(self.next) {
            Some((found, value)) if found == key => {
                self.next += 1;
                Ok(value.clone())
            }
            _ => Err(self.broken(format!("line {} is not {key}", self.next + 1))),
        }
    }

    /// Key and value of the next line, if there is one.
    pub(super) fn take_any(&mut self) -> Option<(String, String)> {
        let line = self.lines.get(self.next).cloned();
        self.next += usize::from(line.is_some());
        line
    }

    /// The bytes of the next line, which must have this key.
    pub(super) fn take_bytes(&mut self, key: &str) -> Result<Vec<u8>> {
        let value = self.take(key)?;
        self.bytes(&value)
    }

    /// The text of the next line, which must have this key. What is not UTF-8 is replaced.
    pub(super) fn take_text(&mut self, key: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.take_bytes(key)?).into_owned())
    }

    /// The number of the next line, which must have this key.
    pub(super) fn take_number<N: std::str::FromStr>(&mut self, key: &str) -> Result<N> {
        let value = self.take(key)?;
        self.number(&value)
    }

    /// Whether a line is left.
    pub(super) fn has_more(&self) -> bool {
        self.next < self.lines.len()
    }

    /// Whether the next line, which must have this key, has the first or the second value.
    pub(super) fn take_either(&mut self, key: &str, yes: &str, no: &str) -> Result<bool> {
        let value = self.take(key)?;
        match value {
            value if value == yes => Ok(true),
            value if value == no => Ok(false),
            _ => Err(self.broken(format!("line {} has no valid value", self.next))),
        }
    }

    /// The number in this text.
    pub(super) fn number<N: std::str::FromStr>(&self, text: &str) -> Result<N> {
        text.parse().map_err(|_| self.broken(format!("line {} holds no valid number", self.next)))
    }

    /// The bytes that these hexadecimal digits stand for.
    pub(super) fn bytes(&self, digits: &str) -> Result<Vec<u8>> {
        unhex(digits).ok_or_else(|| self.broken(format!("line {} holds no hexadecimal digits", self.next)))
    }

    /// Nothing may be left.
    pub(super) fn close(self) -> Result<()> {
        match self.lines.len() - self.next {
            0 => Ok(()),
            left => Err(self.broken(format!("{left} lines are left over"))),
        }
    }

    /// An error about this answer.
    pub(super) fn broken(&self, why: String) -> Error {
        broken(self.probe, why)
    }
}

fn broken(probe: Probe, why: String) -> Error {
    Error::new(Code::SmokeTestFailed, format!("the answer of probe {} cannot be read: {why}", probe.name()))
}

/// An output that is this probe's answer with these lines.
pub(super) fn render(probe: Probe, lines: &[(&str, String)]) -> Output {
    let mut text = format!("probe={}\n", probe.name());
    for (key, value) in lines {
        text.push_str(&format!("{key}={value}\n"));
    }
    text.push_str(&format!("end={}\n", probe.name()));
    Output::new(ExitStatus::Code(0), text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<Answer> {
        Answer::open(Probe::Identity, &Output::new(ExitStatus::Code(0), text, ""))
    }

    #[test]
    fn a_whole_answer_is_read_in_order() {
        let mut answer = open("probe=identity/1\na=6869\nb=no\nend=identity/1\n").unwrap();
        assert_eq!(answer.take_text("a").unwrap(), "hi");
        assert!(!answer.take_either("b", "yes", "no").unwrap());
        answer.close().unwrap();
    }

    #[test]
    fn an_answer_with_anything_amiss_is_an_error() {
        for text in [
            "",
            "\n",
            "probe=identity/1",
            "probe=identity/1\n",
            "end=identity/1\n",
            "probe=identity/1\na=1\n",
            "probe=identity/1\na=1\nend=identity/1",
            "probe=identity/1\nnonsense\nend=identity/1\n",
            "probe=identity/2\na=1\nend=identity/2\n",
            "probe=identity/1\na=1\nend=filesystem/1\n",
            " probe=identity/1\na=1\nend=identity/1\n",
            "welcome!\nprobe=identity/1\na=1\nend=identity/1\n",
            "probe=identity/1\na=1\nend=identity/1\n\n",
        ] {
            assert_eq!(open(text).unwrap_err().code(), Code::SmokeTestFailed, "{text:?}");
        }
        let whole = "probe=identity/1\nend=identity/1\n";
        for status in [ExitStatus::Code(1), ExitStatus::Signal(9), ExitStatus::TimedOut] {
            assert!(Answer::open(Probe::Identity, &Output::new(status, whole, "")).is_err(), "{status}");
        }
        let mut cut = Output::new(ExitStatus::Code(0), whole, "");
        cut.truncated = true;
        assert!(Answer::open(Probe::Identity, &cut).is_err());
    }

    #[test]
    fn wrong_keys_values_and_rests_are_errors() {
        let answer = || open("probe=identity/1\na=canary\nend=identity/1\n").unwrap();
        assert!(answer().take("b").is_err());
        assert!(answer().take_either("a", "yes", "no").is_err());
        assert!(answer().close().is_err());
        let error = answer().take_bytes("a").unwrap_err();
        assert!(!format!("{error:?}").contains("canary"), "the value is quoted: {error:?}");
    }
}
