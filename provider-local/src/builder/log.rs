//! The log of a build's commands: in lines, without the values of secrets, and the end of it kept for an error.

use std::{collections::VecDeque, sync::Mutex};

use provider_core::{environment::BuildRequest, lifecycle::Progress, sandbox::ByteReader, secret::SecretSet};
use tokio::io::AsyncReadExt as _;

/// What follows in a longer line is dropped, in bytes.
const LINE_MAX: usize = 32 << 10;
/// How much of the end is kept, in bytes and lines.
const TAIL_BYTES: usize = 8 << 10;
const TAIL_LINES: usize = 40;

/// What no log of a build may show: the values of its secrets, and the passwords in the variables of its installers.
pub(super) fn hidden(request: &BuildRequest) -> SecretSet {
    let mut hidden = request.installer_variables().hidden();
    for (id, secret) in request.secrets().iter() {
        // What a set has taken once, another takes too.
        let _ = hidden.insert(format!("secret {id}"), secret.expose());
    }
    hidden
}

/// Where both streams of a command go.
pub(super) struct Log<'a> {
    progress: &'a Progress,
    secrets: &'a SecretSet,
    longest_secret: usize,
    hides_addresses: bool,
    lines_kept: usize,
    bytes_kept: usize,
    tail: Mutex<VecDeque<String>>,
}

impl<'a> Log<'a> {
    pub(super) fn new(progress: &'a Progress, secrets: &'a SecretSet) -> Self {
        let longest_secret = secrets.iter().map(|(_, secret)| secret.expose().len()).max().unwrap_or(0);
        Self {
            progress,
            secrets,
            longest_secret,
            hides_addresses: false,
            lines_kept: TAIL_LINES,
            bytes_kept: TAIL_BYTES,
            tail: Mutex::default(),
        }
    }

    /// For an installer: keeps more, so that the cause of a failure is found in it, and shows no user of an address,
    /// however short the password is.
    pub(super) fn of_installer(progress: &'a Progress, secrets: &'a SecretSet) -> Self {
        let (lines_kept, bytes_kept) = (TAIL_LINES * 25, TAIL_BYTES * 25);
        Self { hides_addresses: true, lines_kept, bytes_kept, ..Self::new(progress, secrets) }
    }

    /// Reads a stream to its end.
    ///
    /// Cancel safe: what was read so far is in the log, but for a line that has not ended.
    pub(super) async fn read(&self, mut stream: ByteReader) {
        let mut chunk = vec![0; 16 << 10];
        let mut line = Line::default();
        // A stream that breaks ends: how the command ended is told by its status.
        while let Ok(count @ 1..) = stream.read(&mut chunk).await {
            for byte in &chunk[..count] {
                match byte {
                    b'\n' => self.end(&mut line),
                    _ if line.bytes.len() < LINE_MAX => line.bytes.push(*byte),
                    _ => line.is_cut = true,
                }
            }
        }
        if !line.bytes.is_empty() {
            self.end(&mut line);
        }
    }

    /// The last lines.
    pub(super) fn tail(&self) -> Vec<String> {
        let tail = self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tail.iter().cloned().collect()
    }

    fn end(&self, line: &mut Line) {
        let Line { bytes, is_cut } = std::mem::take(line);
        let text = String::from_utf8_lossy(&bytes);
        let mut text = self.secrets.redact(text.trim_end_matches('\r'));
        if is_cut {
            // The beginning of a secret at the cut is not recognised, so it must not stay.
            let mut end = text.len().saturating_sub(self.longest_secret);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str(" [cut]");
        }
        if self.hides_addresses {
            text = without_users(&text);
        }
        self.progress.log(text.clone());
        let mut tail = self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tail.push_back(text);
        while tail.len() > self.lines_kept
            || tail.len() > 1 && tail.iter().map(String::len).sum::<usize>() > self.bytes_kept
        {
            tail.pop_front();
        }
    }
}

/// The text with the user, and the password, of each address in it replaced.
pub(super) fn without_users(text: &str) -> String {
    let mut pieces = text.split("://");
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| c.is_whitespace() || "/?#'\"`<>,)".contains(c)).unwrap_or(piece.len());
        let (authority, rest) = piece.split_at(end);
        let host =
            authority.rsplit_once('@').map_or(authority.to_owned(), |(_, host)| format!("[secret]@{host}"));
        shown += &format!("://{host}{rest}");
    }
    shown
}

#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    is_cut: bool,
}

#[cfg(test)]
mod tests {
    use provider_core::sandbox::reader_of;

    use super::*;

    const CANARY: &str = "canary-4711-value";

    fn log_of(text: String) -> Vec<String> {
        let mut secrets = SecretSet::new();
        secrets.insert("token", CANARY).unwrap();
        let progress = Progress::none();
        let log = Log::new(&progress, &secrets);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(log.read(reader_of(text)));
        log.tail()
    }

    #[test]
    fn a75_lines_hold_no_secret() {
        assert_eq!(log_of(format!("a\nb {CANARY} c\r\nd")), ["a", "b [secret] c", "d"]);
    }

    #[test]
    fn a75_a_cut_line_holds_no_beginning_of_a_secret() {
        for shift in 0..CANARY.len() {
            let line = format!("{}{CANARY}{CANARY}", "\u{e9}x".repeat(LINE_MAX / 3 - 1) + &"y".repeat(shift));
            let tail = log_of(line).join("\n");
            assert!(tail.ends_with("[cut]") && !tail.contains("cana"), "{}", &tail[tail.len() - 60..]);
        }
    }

    #[test]
    fn a75_users_of_addresses_are_not_shown() {
        for (text, shown) in [
            ("get https://u:pw@a.example/x@y now", "get https://[secret]@a.example/x@y now"),
            ("(http://token@a:8080) 'ftp://b@c'", "(http://[secret]@a:8080) 'ftp://[secret]@c'"),
            ("https://a.example/simple a@b", "https://a.example/simple a@b"),
        ] {
            assert_eq!(without_users(text), shown);
        }
    }

    #[test]
    fn the_end_is_kept_and_bounded() {
        let tail = log_of((0..10_000).map(|n| format!("{n}\n")).collect());
        assert_eq!((tail.len(), tail.last().unwrap().as_str()), (TAIL_LINES, "9999"));
        let tail = log_of(format!("{}\n", "x".repeat(1000)).repeat(20));
        assert!(tail.concat().len() <= TAIL_BYTES);
    }
}
