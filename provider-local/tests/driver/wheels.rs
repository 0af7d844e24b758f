//! Packages that the trials make themselves, and the one that they fetch.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use provider_core::environment::{PIP, sha256_hex};

/// A wheel with one module of the same name, whose `VERSION` is the version. The same bytes each time.
pub(crate) fn wheel(name: &str, version: &str, tag: &str) -> (String, Vec<u8>) {
    let info = format!("{name}-{version}.dist-info");
    let record = format!("{info}/RECORD");
    let mut files = vec![
        (format!("{name}.py"), format!("VERSION = {version:?}\n")),
        (format!("{info}/METADATA"), format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")),
        (
            format!("{info}/WHEEL"),
            format!("Wheel-Version: 1.0\nGenerator: trial\nRoot-Is-Purelib: true\nTag: {tag}\n"),
        ),
    ];
    let mut listed = String::new();
    for (path, text) in &files {
        let _ = writeln!(listed, "{path},,{}", text.len());
    }
    let _ = writeln!(listed, "{record},,");
    files.push((record, listed));
    (format!("{name}-{version}-{tag}.whl"), zip(&files))
}

/// An archive without compression and without moments.
fn zip(files: &[(String, String)]) -> Vec<u8> {
    let (mut data, mut directory) = (Vec::new(), Vec::new());
    for (path, text) in files {
        let start = u32::try_from(data.len()).expect("a small archive");
        let length = u32::try_from(text.len()).expect("a small file").to_le_bytes();
        let name_length = u16::try_from(path.len()).expect("a short name").to_le_bytes();
        // Version 2.0, no flags, stored, midnight, the first day of 1980.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        common.extend(crc32(text.as_bytes()).to_le_bytes());
        common.extend([length, length].concat());
        common.extend(name_length);
        common.extend([0, 0]);
        data.extend(b"PK\x03\x04");
        data.extend(&common);
        data.extend(path.as_bytes());
        data.extend(text.as_bytes());
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend(start.to_le_bytes());
        directory.extend(path.as_bytes());
    }
    let count = u16::try_from(files.len()).expect("few files").to_le_bytes();
    let sizes = [directory.len(), data.len()].map(|size| u32::try_from(size).expect("small").to_le_bytes());
    data.extend(directory);
    data.extend(b"PK\x05\x06\0\0\0\0");
    data.extend([count, count].concat());
    data.extend(sizes.concat());
    data.extend([0, 0]);
    data
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}

/// The file of the pinned `pip`, fetched by the caller's own `python3` if it is not there from an earlier run; or why
/// it is not to be had.
pub(crate) fn pip() -> Result<&'static Path, &'static str> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(find_pip).as_deref().map_err(String::as_str)
}

fn find_pip() -> Result<PathBuf, String> {
    let is_right = |path: &Path| fs::read(path).is_ok_and(|bytes| sha256_hex(&bytes) == PIP.sha256);
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(PIP.file);
    if is_right(&kept) {
        return Ok(kept);
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (pin, fetched) = (format!("{}=={}", PIP.name, PIP.version), folder.path().join(PIP.file));
    let words = ["-m", "pip", "download", "--no-deps", "--retries", "1", "--timeout", "10", "--dest"];
    let output = Command::new("python3").args(words).arg(folder.path()).arg(&pin).output();
    if !is_right(&fetched) {
        // As the driver does where there is no pip.
        let script = include_str!("../../src/builder/python/fetch.py");
        let words = ["-I", "-B", "-c", script, "get"];
        let mut own = Command::new("python3");
        own.args(words).arg(folder.path()).args([PIP.file, PIP.sha256]);
        let _ = own.env("PROVIDER_INDEXES", provider_local::PUBLIC_INDEX).output();
    }
    if !is_right(&fetched) {
        let said = output.map(|output| String::from_utf8_lossy(&output.stderr).trim().to_owned());
        let last = said.map(|text| text.lines().last().unwrap_or_default().to_owned());
        return Err(format!(
            "{} cannot be fetched: {}",
            PIP.file,
            last.unwrap_or_else(|error| error.to_string())
        ));
    }
    // Complete or not at all, since other runs look at it.
    let aside = kept.with_extension(std::process::id().to_string());
    if fs::copy(&fetched, &aside).and_then(|_| fs::rename(&aside, &kept)).is_ok() {
        return Ok(kept);
    }
    // Of another user; then it is kept for this run alone.
    Ok(folder.keep().join(PIP.file))
}
