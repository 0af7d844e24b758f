//! A specification together with the content of its files.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::{EnvironmentSpec, FileSpec, Format, SPEC_MAX, parse, sha256_hex};
use crate::error::{Code, Error, Result};

const FILE_MAX: usize = 1 << 20;
const FILES_TOTAL_MAX: usize = 8 << 20;

/// The content of one file of an Environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    /// Where it is put, absolute.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// The content.
    pub bytes: Vec<u8>,
}

/// A specification whose files were read and agree with their digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    spec: EnvironmentSpec,
    files: Vec<FileContent>,
}

impl Environment {
    /// Reads a specification from a `.toml` or `.json` file, and the files that it names beside it. Blocks for as
    /// long as the disk needs.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming the place; [`Code::FileError`] naming the file that cannot be read.
    pub fn load(path: &Path) -> Result<Self> {
        let format = Format::of_path(path)?;
        let bytes = read_at_most(path, SPEC_MAX)?.map_err(|len| parse::too_long("the specification", len))?;
        let in_file = |error: Error| {
            Error::new(error.code(), format!("{}: {}", path.display(), error.message()))
                .with_advice(error.advice().to_owned())
        };
        let text = String::from_utf8(bytes)
            .map_err(|error| {
                Error::new(
                    Code::SpecInvalid,
                    format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()),
                )
            })
            .map_err(in_file)?;
        let spec = EnvironmentSpec::parse(&text, format).map_err(in_file)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self::new(spec, Some(folder)).map_err(in_file)
    }

    /// Checks a specification and reads the files that it names in `folder`; without a folder it may name none.
    ///
    /// # Errors
    /// As for [`Environment::load`].
    pub fn new(spec: EnvironmentSpec, folder: Option<&Path>) -> Result<Self> {
        crate::provider::Finding::refuse_all(&spec.check())?;
        let mut spec = spec;
        let mut files: Vec<FileContent> = Vec::new();
        for (index, file) in spec.spec.files.iter_mut().enumerate() {
            let place = format!("spec.files[{index}]");
            let bytes = match &file.content {
                Some(text) => text.clone().into_bytes(),
                None => read_beside(folder, file, &place)?,
            };
            let total = bytes.len() + files.iter().map(|file| file.bytes.len()).sum::<usize>();
            if bytes.len() > FILE_MAX || total > FILES_TOTAL_MAX {
                let words =
                    format!("{place}: a file may have {FILE_MAX} bytes, and all together {FILES_TOTAL_MAX}");
                return Err(Error::new(Code::SpecInvalid, words));
            }
            let digest = sha256_hex(&bytes);
            if let Some(expected) = &file.sha256
                && *expected != digest
            {
                let words =
                    format!("{place}.sha256: the content's is {digest}, the specification says {expected}");
                return Err(Error::new(Code::SpecInvalid, words));
            }
            let mode = file.permissions().unwrap_or(0o644);
            files.push(FileContent { path: file.path.clone(), mode, bytes });
            // The digest of the specification then covers the content too.
            file.sha256 = Some(digest);
        }
        Ok(Self { spec, files })
    }

    /// The specification, with the digests of its files filled in.
    pub fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    /// The files, in the order of the specification.
    pub fn files(&self) -> &[FileContent] {
        &self.files
    }
}

fn read_beside(folder: Option<&Path>, file: &FileSpec, place: &str) -> Result<Vec<u8>> {
    let reference = file.content_ref.as_deref().unwrap_or_default();
    let refuse = |words: String| Error::new(Code::SpecInvalid, format!("{place}.contentRef: {words}"));
    let Some(folder) = folder else {
        return Err(refuse("a specification that is not in a file cannot name files beside it".into()));
    };
    let real = |path: PathBuf| {
        path.canonicalize().map_err(|source| {
            Error::new(
                Code::FileError,
                format!("{place}.contentRef: {} cannot be read: {source}", path.display()),
            )
            .with_source(source)
        })
    };
    let (root, path) = (real(folder.to_owned())?, real(folder.join(reference))?);
    if !path.starts_with(&root) {
        return Err(refuse(format!("{reference:?} leads out of the specification's folder")));
    }
    read_at_most(&path, FILE_MAX)?
        .map_err(|len| refuse(format!("{reference:?} has {len} bytes, and {FILE_MAX} are allowed")))
}

/// The content, or the length of a file that is longer than `max`.
pub(super) fn read_at_most(path: &Path, max: usize) -> Result<Result<Vec<u8>, u64>> {
    let cannot = |source: std::io::Error| {
        Error::new(Code::FileError, format!("{} cannot be read: {source}", path.display()))
            .with_source(source)
    };
    // A pipe or device has no end that could be waited for.
    let metadata = std::fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err(Error::new(Code::FileError, format!("{} is not a regular file", path.display())));
    }
    if metadata.len() > max as u64 {
        return Ok(Err(metadata.len()));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(max as u64 + 1).read_to_end(&mut bytes)).map_err(cannot)?;
    Ok(if bytes.len() > max { Err(bytes.len() as u64) } else { Ok(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(files: &[(&str, &[u8])]) -> Result<Environment> {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("escape")).unwrap();
        Environment::load(&folder.path().join("env.toml"))
    }

    fn with_file(line: &str) -> String {
        format!("[metadata]\nname = \"a\"\n[[spec.files]]\npath = \"/a\"\n{line}\n")
    }

    #[test]
    fn content_is_read_beside_the_specification_and_digested() {
        let spec = with_file("contentRef = \"data\"");
        let one = load(&[("env.toml", spec.as_bytes()), ("data", b"one\r\n\0")]).unwrap();
        assert_eq!(one.files()[0].bytes, b"one\r\n\0");
        let two = load(&[("env.toml", spec.as_bytes()), ("data", b"two")]).unwrap();
        assert_ne!(one.spec().digest().unwrap(), two.spec().digest().unwrap());
    }

    #[test]
    fn each_wrong_file_is_refused_with_its_place() {
        let zeros = "0".repeat(63) + "1";
        let big = vec![b'x'; FILE_MAX + 1];
        for (line, code, words) in [
            ("contentRef = \"missing\"".to_owned(), Code::FileError, "spec.files[0].contentRef"),
            ("contentRef = \"escape\"".to_owned(), Code::SpecInvalid, "leads out"),
            ("contentRef = \"big\"".to_owned(), Code::SpecInvalid, "1048577 bytes"),
            (format!("content = \"x\"\nsha256 = \"{zeros}\""), Code::SpecInvalid, "the content's is"),
            ("content = \"x\"\ncontentRef = \"big\"".to_owned(), Code::SpecInvalid, "exactly one"),
        ] {
            let error = load(&[("env.toml", with_file(&line).as_bytes()), ("big", &big)]).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.message().contains(words), "{words:?} is not in: {error}");
        }
    }

    #[test]
    fn a_specification_of_50_mib_or_of_other_bytes_is_refused() {
        let error = load(&[("env.toml", &vec![b'#'; 50 << 20])]).unwrap_err();
        assert!(error.message().contains("52428800 bytes"), "{error}");
        let error = load(&[("env.toml", b"a = \"\xff\"")]).unwrap_err();
        assert!(error.message().contains("byte 5 is not UTF-8"), "{error}");
        let error = Environment::load(Path::new("/dev/zero.toml")).unwrap_err();
        assert_eq!(error.code(), Code::FileError);
    }
}
