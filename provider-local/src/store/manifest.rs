//! The manifest of a layer: what is in it, one line an entry, as text that other programs can read as well.
//!
//! Each line is a JSON object. The first is the [`Head`]: which layer this is and what its builder wrote down. Each
//! other is an [`Entry`], a folder before what is in it and names in the order of their bytes. So one pass over a
//! manifest and its layer side by side finds every difference.

use super::files;
use super::{LayerKey, Layout, StoreError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

/// The version of the form of manifests and of the `meta.json` beside them.
pub(super) const FORM: u32 = 1;

/// No line that this program writes is longer, in bytes.
const LONGEST_LINE: u64 = 4 << 20;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) form: u32,
    pub(super) key: LayerKey,
    pub(super) layout: Layout,
    pub(super) meta: serde_json::Value,
}

/// What something in a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    /// Hides what lies below it.
    Whiteout,
    /// A device, a pipe, a socket.
    Other,
}

/// One thing in a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// From the layer's root, which is empty itself; no slash in front.
    #[serde(with = "escaped")]
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    /// The permission bits, octal.
    pub(super) mode: String,
    /// As the file system numbers it.
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Of a file, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
    /// Of a file's content. A file that its own owner may not read has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
    /// Where a link leads.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "escaped_option")]
    pub(super) target: Option<Vec<u8>>,
    /// What an [`Kind::Other`] is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<String>,
    /// The marks of the overlay, capabilities and other extended attributes of a file or folder: hexadecimal, or the
    /// digest of a long one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) attributes: BTreeMap<String, String>,
}

/// The order of the entries.
pub(super) fn order(left: &[u8], right: &[u8]) -> Ordering {
    let parts = |path| <[u8]>::split(path, |byte| *byte == b'/');
    parts(left).cmp(parts(right))
}

/// Writes a new manifest, and tells its digest.
pub(super) struct Writer<'a> {
    path: &'a Path,
    file: BufWriter<File>,
    digest: Sha256,
}

impl<'a> Writer<'a> {
    pub(super) fn new(path: &'a Path, head: &Head) -> Result<Self, StoreError> {
        let file = BufWriter::new(files::write_new(path, b"")?);
        let mut writer = Self { path, file, digest: Sha256::new() };
        writer.line(head)?;
        Ok(writer)
    }

    pub(super) fn line(&mut self, line: &impl Serialize) -> Result<(), StoreError> {
        let mut text = serde_json::to_vec(line).map_err(|error| StoreError::Unreadable {
            path: self.path.to_owned(),
            reason: error.to_string(),
        })?;
        text.push(b'\n');
        self.digest.update(&text);
        self.file.write_all(&text).map_err(|error| StoreError::io("write", self.path, error))
    }

    /// Everything is on the disk when this comes back.
    pub(super) fn finish(self) -> Result<String, StoreError> {
        let file = self.file.into_inner();
        let file = file.map_err(|error| StoreError::io("write", self.path, error.into_error()))?;
        files::sync(&file, self.path)?;
        Ok(hex(&self.digest.finalize()))
    }
}

/// Reads a manifest, which may have become anything.
pub(super) struct Reader {
    lines: BufReader<File>,
    number: u64,
    is_broken: bool,
}

impl Reader {
    pub(super) fn new(file: File) -> Self {
        Self { lines: BufReader::new(file), number: 0, is_broken: false }
    }

    /// The digest of the whole file, which is read again from its beginning then.
    pub(super) fn digest(&mut self) -> io::Result<String> {
        let mut digest = Sha256::new();
        loop {
            let bytes = self.lines.fill_buf()?;
            if bytes.is_empty() {
                break;
            }
            digest.update(bytes);
            let length = bytes.len();
            self.lines.consume(length);
        }
        self.lines.rewind()?;
        self.number = 0;
        Ok(hex(&digest.finalize()))
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The number of the line, and why it makes no sense.
    pub(super) fn next<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<T>, String> {
        if self.is_broken {
            return Ok(None);
        }
        self.number += 1;
        let mut text = Vec::new();
        let read = self.lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut text);
        match read {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) => {
                self.is_broken = true;
                return Err(format!("line {} cannot be read: {error}", self.number));
            }
        }
        let parsed = serde_json::from_slice(&text);
        parsed.map(Some).map_err(|error| format!("line {} cannot be understood: {error}", self.number))
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS.get(usize::from(value)).copied().unwrap_or(b'0'));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// Bytes as text: what is no UTF-8, is not printed, or is a percent sign, becomes `%` and two hexadecimal digits.
pub(super) fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    let percent = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            text.push('%');
            text.push_str(&hex(&[*byte]));
        }
    };
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter == '%' || letter.is_control() {
                percent(&mut text, letter.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(letter);
            }
        }
        percent(&mut text, chunk.invalid());
    }
    text
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = tail.get(2..)?;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    Some(bytes)
}

/// A path as text; the root is a dot, which no other path is.
pub(super) fn shown(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { escape(path) }
}

mod escaped {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(path: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::shown(path))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = super::unescape(&text).ok_or_else(|| D::Error::custom("a broken path"))?;
        Ok(if bytes == b"." { Vec::new() } else { bytes })
    }
}

mod escaped_option {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        target: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match target {
            Some(target) => serializer.serialize_str(&super::escape(target)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::unescape(&text).ok_or_else(|| D::Error::custom("a broken link"))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_text() {
        for (bytes, text) in [
            (&b"plain name"[..], "plain name"),
            (b"100%", "100%25"),
            (b"a\nb\xff", "a%0ab%ff"),
            ("größe".as_bytes(), "größe"),
            (b"", ""),
        ] {
            assert_eq!(escape(bytes), text);
            assert_eq!(unescape(text).as_deref(), Some(bytes));
        }
        for broken in ["%", "%2", "%zz"] {
            assert_eq!(unescape(broken), None);
        }
    }

    #[test]
    fn a_folder_comes_before_what_is_in_it_and_its_neighbours_after() {
        let sorted: [&[u8]; 6] = [b"", b"a", b"a/b", b"a/b/c", b"a-b", b"a.b/c"];
        for pair in sorted.windows(2) {
            assert_eq!(order(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let entry = Entry {
            path: b"a/\xff".to_vec(),
            kind: Kind::Link,
            mode: "0777".into(),
            uid: 1,
            gid: 2,
            size: None,
            sha256: None,
            target: Some(b".".to_vec()),
            device: None,
            attributes: BTreeMap::from([("trusted.overlay.opaque".into(), "79".into())]),
        };
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(
            text,
            r#"{"path":"a/%ff","kind":"link","mode":"0777","uid":1,"gid":2,"target":".","attributes":{"trusted.overlay.opaque":"79"}}"#
        );
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }
}
