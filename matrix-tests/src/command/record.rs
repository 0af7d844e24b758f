//! The record of a kept artifact in a file.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use provider_core::{
    environment::Artifact,
    error::{Code, Error, Result},
};

use crate::recipe::{in_file, read_text};

/// No record is longer, in bytes.
const RECORD_MAX: usize = 4 << 20;

/// Reads a record.
pub(super) fn read(path: &Path) -> Result<Artifact> {
    let text = read_text(path, RECORD_MAX)?;
    let artifact: Artifact = serde_json::from_str(&text).map_err(|source| {
        let words = format!("{} is no record of an artifact: {source}", path.display());
        Error::new(Code::SpecInvalid, words).with_advice("`matrix build --keep --out FILE` writes one")
    })?;
    artifact.check_form().map_err(|error| in_file(path, &error))?;
    Ok(artifact)
}

/// A place for a record, tried before the work begins, so that the work does not fail at its end for want of one.
pub(super) struct Place(PathBuf);

impl Place {
    /// # Errors
    /// [`Code::FileError`] if something is there already, since it may be the only record of another artifact, or if
    /// no file can be made there.
    pub(super) fn find(path: &Path) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(Error::new(Code::FileError, format!("{} is there already", path.display()))
                .with_advice(
                    "choose another name; if `matrix delete` says that its artifact is gone, remove the file",
                ));
        }
        // Gone again at once: what is killed meanwhile leaves no file.
        drop(aside(path).map_err(|source| cannot(path, &source))?);
        Ok(Self(path.to_owned()))
    }

    /// Writes the record; whole, or not at all.
    pub(super) fn write(self, artifact: &Artifact) -> Result<()> {
        let path = self.0;
        let text = serde_json::to_string_pretty(artifact).map_err(|source| cannot(&path, &source.into()))?;
        let write = || {
            let mut aside = aside(&path)?;
            writeln!(aside, "{text}")?;
            aside.as_file().sync_all()?;
            aside.persist_noclobber(&path).map_err(|refused| refused.error)
        };
        write().map(drop).map_err(|source| cannot(&path, &source))
    }
}

/// A file beside the path, to be renamed to it when it is whole.
pub(super) fn aside(path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".matrix-").tempfile_in(folder)
}

fn cannot(path: &Path, source: &std::io::Error) -> Error {
    Error::new(
        Code::FileError,
        format!("the record cannot be written to {}: {}", path.display(), source.kind()),
    )
}
