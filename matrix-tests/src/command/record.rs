//! The record of a kept artifact in a file.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use provider_core::{
    environment::Artifact,
    error::{Code, Error, Result},
};

use crate::recipe::read_text;

/// No record is longer, in bytes.
const RECORD_MAX: usize = 4 << 20;

/// Reads a record.
pub(super) fn read(path: &Path) -> Result<Artifact> {
    let text = read_text(path, RECORD_MAX)?;
    serde_json::from_str(&text).map_err(|source| {
        let words = format!("{} is no record of an artifact: {source}", path.display());
        Error::new(Code::SpecInvalid, words).with_advice("`matrix build --keep --out FILE` writes one")
    })
}

/// A place for a record, held before the work begins, so that it cannot fail at its end for want of one.
pub(super) struct Place {
    path: PathBuf,
    aside: tempfile::NamedTempFile,
}

impl Place {
    /// # Errors
    /// [`Code::FileError`] if something is there already, since it may be the only record of another artifact, or if
    /// no file can be made there.
    pub(super) fn hold(path: &Path) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(Error::new(Code::FileError, format!("{} is there already", path.display()))
                .with_advice(
                    "choose another name; if `matrix delete` says that its artifact is gone, remove the file",
                ));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let aside = tempfile::Builder::new().prefix(".matrix-").tempfile_in(folder);
        Ok(Self { path: path.to_owned(), aside: aside.map_err(|source| cannot(path, &source))? })
    }

    /// Writes the record; whole, or not at all.
    pub(super) fn write(mut self, artifact: &Artifact) -> Result<()> {
        let path = self.path;
        let text = serde_json::to_vec_pretty(artifact).map_err(|source| cannot(&path, &source.into()))?;
        let written = self.aside.write_all(&text).and_then(|()| self.aside.as_file().sync_all());
        written.map_err(|source| cannot(&path, &source))?;
        self.aside.persist_noclobber(&path).map_err(|refused| cannot(&path, &refused.error))?;
        Ok(())
    }
}

fn cannot(path: &Path, source: &std::io::Error) -> Error {
    Error::new(
        Code::FileError,
        format!("the record cannot be written to {}: {}", path.display(), source.kind()),
    )
}
