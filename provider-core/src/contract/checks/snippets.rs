//! The code that the checks send to code sessions. Each piece says in its first line what it is, for what stands in for
//! an interpreter.

/// A piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Snippet {
    /// The value is 2.
    Sum,
    /// Sets the variable to a number.
    Keep(u64),
    /// The value is the variable times three.
    Recall,
    /// The value says whether there is the variable.
    HasKept,
    /// Prints a word to both streams, each with the stream's name before it.
    Print(String),
    /// Raises `ValueError` with this message from a function [`Snippet::RAISER`].
    Raise(String),
    /// Starts a child; the value is its number and its start time.
    StartChild,
    /// The value says what became of a child, after at most so many seconds: `gone`, `ended`, or `running`.
    ChildState {
        /// Its number.
        pid: u64,
        /// Its start time, since numbers are used again.
        started: u64,
        /// How long to wait for it to be gone.
        seconds: u64,
    },
    /// Writes a text to a file of the working directory.
    WriteFile(String, String),
    /// The value is the content of a file of the working directory.
    ReadFile(String),
    /// Removes a file of the working directory.
    RemoveFile(String),
}

impl Snippet {
    /// The function that raises.
    pub(crate) const RAISER: &str = "raise_on_purpose";

    /// The code. Words must hold only letters, digits, `-`, `.` and `_`.
    pub(crate) fn code(&self) -> String {
        let raiser = Self::RAISER;
        match self {
            Snippet::Sum => "1+1".to_owned(),
            Snippet::Keep(number) => format!("# keep {number}\nkept = {number}"),
            Snippet::Recall => "# recall\nkept * 3".to_owned(),
            Snippet::HasKept => "# has-kept\n'kept' in globals()".to_owned(),
            Snippet::Print(word) => {
                format!(
                    "# print {word}\nimport sys\nprint('out-{word}')\nprint('err-{word}', file=sys.stderr)"
                )
            }
            Snippet::Raise(word) => {
                format!("# raise {word}\ndef {raiser}():\n    raise ValueError('{word}')\n{raiser}()")
            }
            Snippet::StartChild => {
                format!(
                    "# start-child\n{LOOK}import subprocess\nchild = subprocess.Popen(['sleep', '3600'])\n\
                     [child.pid, int(look(child.pid)[19])]"
                )
            }
            Snippet::ChildState { pid, started, seconds } => format!(
                "# child-state {pid} {started} {seconds}\n\
                 {LOOK}import time\n\
                 until = time.monotonic() + {seconds}\n\
                 while True:\n\
                 \x20   seen = look({pid})\n\
                 \x20   is_there = seen is not None and int(seen[19]) == {started}\n\
                 \x20   if not is_there or time.monotonic() > until: break\n\
                 \x20   time.sleep(0.05)\n\
                 'gone' if not is_there else 'ended' if seen[0] == 'Z' else 'running'"
            ),
            Snippet::WriteFile(name, text) => {
                format!("# write-file {name} {text}\nwith open('{name}', 'w') as file: file.write('{text}')")
            }
            Snippet::ReadFile(name) => {
                format!("# read-file {name}\nwith open('{name}') as file: content = file.read()\ncontent")
            }
            Snippet::RemoveFile(name) => format!("# remove-file {name}\nimport os\nos.remove('{name}')"),
        }
    }

    /// The piece that this code is, exactly.
    #[cfg(any(test, feature = "memory"))]
    pub(crate) fn of(code: &str) -> Option<Snippet> {
        let words: Vec<&str> = code.lines().next()?.trim_start_matches("# ").split(' ').collect();
        let text = |word: &str| word.to_owned();
        let snippet = match words[..] {
            ["1+1"] => Snippet::Sum,
            ["keep", number] => Snippet::Keep(number.parse().ok()?),
            ["recall"] => Snippet::Recall,
            ["has-kept"] => Snippet::HasKept,
            ["print", word] => Snippet::Print(text(word)),
            ["raise", word] => Snippet::Raise(text(word)),
            ["start-child"] => Snippet::StartChild,
            ["child-state", pid, started, seconds] => Snippet::ChildState {
                pid: pid.parse().ok()?,
                started: started.parse().ok()?,
                seconds: seconds.parse().ok()?,
            },
            ["write-file", name, content] => Snippet::WriteFile(text(name), text(content)),
            ["read-file", name] => Snippet::ReadFile(text(name)),
            ["remove-file", name] => Snippet::RemoveFile(text(name)),
            _ => return None,
        };
        (snippet.code() == code).then_some(snippet)
    }
}

/// Defines what reads the fields of a process behind its name: the state is the first, the start time number 19.
const LOOK: &str = "def look(pid):\n    \
                    try:\n        \
                    with open('/proc/%d/stat' % pid) as file: return file.read().rsplit(') ', 1)[1].split()\n    \
                    except (FileNotFoundError, ProcessLookupError): return None\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_known_by_its_code() {
        let word = || "ab-1".to_owned();
        for snippet in [
            Snippet::Sum,
            Snippet::Keep(7),
            Snippet::Recall,
            Snippet::HasKept,
            Snippet::Print(word()),
            Snippet::Raise(word()),
            Snippet::StartChild,
            Snippet::ChildState { pid: 1, started: 2, seconds: 3 },
            Snippet::WriteFile(word(), word()),
            Snippet::ReadFile(word()),
            Snippet::RemoveFile(word()),
        ] {
            assert_eq!(Snippet::of(&snippet.code()), Some(snippet.clone()));
            assert_eq!(Snippet::of(&format!("{}\n2", snippet.code())), None);
        }
    }
}
