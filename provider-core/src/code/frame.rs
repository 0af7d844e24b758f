//! Frames: the messages between a session and its driver.
//!
//! A frame is one line of ASCII, which every transport passes on unchanged: the session's nonce, the frame's number in
//! its direction, the run that it belongs to, its kind, the payload's length, and the payload in hexadecimal digits. So
//! a frame that is cut, lost, repeated, or printed by somebody else is noticed.

use std::{fmt, io};

use tokio::io::AsyncReadExt as _;

use crate::{
    hex::{hex, unhex},
    sandbox::ByteReader,
};

/// No payload is longer, in bytes; longer ones go in several frames.
pub(crate) const PAYLOAD_MAX: usize = 32 << 10;

/// No line is longer, in bytes.
const LINE_MAX: usize = 2 * PAYLOAD_MAX + 256;

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Both ways: the first frame.
    Hello,
    /// To the driver: a part of the code.
    Code,
    /// To the driver: run the code. The payload is the cap of each text that comes back.
    Run,
    /// To the driver: interrupt the code.
    Interrupt,
    /// The driver has read the interrupt.
    Acknowledged,
    /// A part of the code's standard output.
    Stdout,
    /// A part of the code's standard error.
    Stderr,
    /// A part of the value of the last expression.
    Value,
    /// A part of the exception's name.
    ErrorName,
    /// A part of the exception's message.
    ErrorMessage,
    /// A part of the exception's traceback.
    Traceback,
    /// The code has ended. The payload is the sum of [`HAS_VALUE`], [`HAS_ERROR`] and [`TRUNCATED`].
    Done,
    /// The interpreter has ended, with this status.
    Ended,
}

/// There is a value.
pub(crate) const HAS_VALUE: u8 = 1;
/// There is an exception.
pub(crate) const HAS_ERROR: u8 = 2;
/// Something was longer than the cap.
pub(crate) const TRUNCATED: u8 = 4;

impl Kind {
    const ALL: [(Kind, &'static str); 13] = [
        (Kind::Hello, "H"),
        (Kind::Code, "C"),
        (Kind::Run, "R"),
        (Kind::Interrupt, "I"),
        (Kind::Acknowledged, "A"),
        (Kind::Stdout, "O"),
        (Kind::Stderr, "E"),
        (Kind::Value, "V"),
        (Kind::ErrorName, "N"),
        (Kind::ErrorMessage, "M"),
        (Kind::Traceback, "T"),
        (Kind::Done, "D"),
        (Kind::Ended, "X"),
    ];

    fn of(letter: &str) -> Option<Kind> {
        Self::ALL.into_iter().find(|(_, known)| *known == letter).map(|(kind, _)| kind)
    }

    fn letter(self) -> &'static str {
        Self::ALL.into_iter().find(|(kind, _)| *kind == self).map_or("?", |(_, letter)| letter)
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The run that it belongs to; 0 for the greeting.
    pub(crate) run: u64,
    /// What it is about.
    pub(crate) kind: Kind,
    /// Its content.
    pub(crate) payload: Vec<u8>,
}

/// Why no frame can be read.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The stream has ended. A part of a frame may have come.
    End,
    /// The stream failed.
    Failed(io::Error),
    /// What came is not the frame that is due.
    Unreadable(&'static str),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::End => f.write_str("its stream ended"),
            Broken::Failed(source) => write!(f, "its stream failed: {source}"),
            Broken::Unreadable(why) => f.write_str(why),
        }
    }
}

/// Writes the frames of one direction.
pub(crate) struct Encoder {
    nonce: String,
    sent: u64,
}

impl Encoder {
    /// The first frame is number 0.
    pub(crate) fn new(nonce: impl Into<String>) -> Self {
        Self { nonce: nonce.into(), sent: 0 }
    }

    /// Appends the frames of a payload, at least one.
    pub(crate) fn encode(&mut self, run: u64, kind: Kind, payload: &[u8], to: &mut Vec<u8>) {
        let mut parts = payload.chunks(PAYLOAD_MAX);
        let mut next = Some(parts.next().unwrap_or_default());
        while let Some(part) = next {
            let (nonce, sent, letter) = (&self.nonce, self.sent, kind.letter());
            let line = format!("{nonce} {sent} {run} {letter} {} {}\n", part.len(), hex(part));
            to.extend_from_slice(line.as_bytes());
            self.sent += 1;
            next = parts.next();
        }
    }
}

/// Reads the frames of one direction out of bytes.
pub(crate) struct Decoder {
    nonce: Option<String>,
    received: u64,
    bytes: Vec<u8>,
    /// What lies before is read.
    start: usize,
}

impl Decoder {
    /// Takes frames of this nonce alone; without one, that of the first frame.
    pub(crate) fn new(nonce: Option<String>) -> Self {
        Self { nonce, received: 0, bytes: Vec::new(), start: 0 }
    }

    /// The nonce, once it is known.
    #[cfg(any(test, feature = "memory"))]
    pub(crate) fn nonce(&self) -> Option<&str> {
        self.nonce.as_deref()
    }

    /// Takes bytes that have come.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, if it is there as a whole.
    pub(crate) fn take(&mut self) -> Result<Option<Frame>, Broken> {
        let rest = &self.bytes[self.start..];
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
            return match rest.len() {
                ..=LINE_MAX => Ok(None),
                _ => Err(Broken::Unreadable("it sent a line that is longer than a frame")),
            };
        };
        let frame = Self::parse(&rest[..length], self.received, self.nonce.as_deref());
        let (nonce, frame) =
            frame.ok_or(Broken::Unreadable("it sent something other than the frame that is due"))?;
        self.nonce.get_or_insert(nonce);
        self.start += length + 1;
        self.received += 1;
        Ok(Some(frame))
    }

    fn parse(line: &[u8], number: u64, nonce: Option<&str>) -> Option<(String, Frame)> {
        let words: Vec<&str> = std::str::from_utf8(line).ok()?.split(' ').collect();
        let [found, sent, run, letter, length, digits] = words[..] else {
            return None;
        };
        let payload = unhex(digits)?;
        let is_due = nonce.is_none_or(|nonce| nonce == found)
            && sent.parse() == Ok(number)
            && length.parse() == Ok(payload.len())
            && payload.len() <= PAYLOAD_MAX;
        let frame = Frame { run: run.parse().ok()?, kind: Kind::of(letter)?, payload };
        is_due.then(|| (found.to_owned(), frame))
    }
}

/// Reads the frames of one direction from a stream.
pub(crate) struct FrameReader {
    stream: ByteReader,
    decoder: Decoder,
    chunk: Vec<u8>,
}

impl FrameReader {
    /// Reads frames of this nonce.
    pub(crate) fn new(stream: ByteReader, nonce: String) -> Self {
        Self { stream, decoder: Decoder::new(Some(nonce)), chunk: vec![0; 64 << 10] }
    }

    /// The next frame. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Frame, Broken> {
        loop {
            if let Some(frame) = self.decoder.take()? {
                return Ok(frame);
            }
            match self.stream.read(&mut self.chunk).await.map_err(Broken::Failed)? {
                0 => return Err(Broken::End),
                read => self.decoder.push(&self.chunk[..read]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new("abc");
        encoder.encode(0, Kind::Hello, b"", &mut bytes);
        encoder.encode(7, Kind::Stdout, payload, &mut bytes);
        encoder.encode(7, Kind::Done, b"0", &mut bytes);
        bytes
    }

    #[test]
    fn frames_are_read_as_they_are_written_however_they_arrive() {
        let payload: Vec<u8> = (0..PAYLOAD_MAX + 10).map(|it| it.to_le_bytes()[0]).collect();
        let bytes = encoded(&payload);
        for size in [1, 7, 1000, bytes.len()] {
            let mut decoder = Decoder::new(None);
            let mut frames = Vec::new();
            for chunk in bytes.chunks(size) {
                decoder.push(chunk);
                while let Some(frame) = decoder.take().unwrap() {
                    frames.push(frame);
                }
            }
            let kinds: Vec<_> = frames.iter().map(|frame| (frame.run, frame.kind)).collect();
            let both = (7, Kind::Stdout);
            assert_eq!(kinds, [(0, Kind::Hello), both, both, (7, Kind::Done)], "{size}");
            assert_eq!([&frames[1].payload[..], &frames[2].payload].concat(), payload);
        }
    }

    #[test]
    fn a66_what_is_not_the_frame_that_is_due_is_noticed() {
        let whole = "abc 0 1 D 1 30\n";
        for broken in [
            "\n",
            "hello\n",
            "abd 0 1 D 1 30\n",
            "abc 1 1 D 1 30\n",
            "abc 0 -1 D 1 30\n",
            "abc 0 1 Q 1 30\n",
            "abc 0 1 D 2 30\n",
            "abc 0 1 D 1 3\n",
            "abc 0 1 D 1 zz\n",
            "abc 0 1 D 1 30 \n",
            "abc 0 1 D 1\n",
            " abc 0 1 D 1 30\n",
            "\u{e9} 0 1 D 1 30\n",
        ] {
            let mut decoder = Decoder::new(Some("abc".into()));
            decoder.push(broken.as_bytes());
            assert!(matches!(decoder.take(), Err(Broken::Unreadable(_))), "{broken:?}");
        }
        let mut decoder = Decoder::new(Some("abc".into()));
        decoder.push(whole.as_bytes());
        assert!(decoder.take().unwrap().is_some());
        // The same frame again is not due.
        decoder.push(whole.as_bytes());
        assert!(decoder.take().is_err());
        let mut decoder = Decoder::new(Some("abc".into()));
        decoder.push(&vec![b'a'; LINE_MAX]);
        assert!(decoder.take().unwrap().is_none());
        decoder.push(b"a");
        assert!(decoder.take().is_err(), "a line without an end takes no more memory");
    }
}
