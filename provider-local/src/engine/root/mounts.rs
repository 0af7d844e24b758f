//! Which paths of this machine are mount points.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The mount points of this process's mount namespace.
#[derive(Debug)]
pub(crate) struct MountPoints(Vec<PathBuf>);

impl MountPoints {
    /// Reads them; a machine that does not tell has none.
    pub(crate) fn look() -> Self {
        Self::parse(&fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n');
        let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4).map(unescape));
        Self(points.map(|point| PathBuf::from(OsString::from_vec(point))).collect())
    }

    /// Whether this path is one.
    pub(crate) fn at(&self, path: &Path) -> bool {
        self.0.iter().any(|point| point == path)
    }

    /// Whether there is one below this path.
    pub(crate) fn below(&self, path: &Path) -> bool {
        self.0.iter().any(|point| point != path && point.starts_with(path))
    }
}

/// Blanks and the like are written as three octal digits after a backslash.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match code {
            Some(byte) => {
                plain.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read() {
        let points = MountPoints::parse(
            b"1 0 8:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / /var/a\\040b rw - tmpfs x rw\n\
              3 1 0:3 / /usr rw - x y z\n\nodd",
        );
        assert!(points.at(Path::new("/usr")) && points.at(Path::new("/var/a b")));
        assert!(points.below(Path::new("/var")) && !points.below(Path::new("/usr")));
    }

    #[test]
    fn a_lone_backslash_stays() {
        assert_eq!(unescape(b"a\\"), b"a\\");
        assert_eq!(unescape(b"\\9xy"), b"\\9xy");
    }
}
