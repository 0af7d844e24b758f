//! The state folder: ledgers, kept things, and the owner's mark.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::file::{is_at, sync_folder};
use crate::{
    error::{Code, Error, Result},
    lifecycle::{ResourceRef, Timestamp},
    names::{Owner, RunId},
};

/// One line of `kept.jsonl`: a thing that a user asked to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptThing {
    /// The run that made it.
    pub run: RunId,
    /// What it is.
    pub thing: ResourceRef,
    /// Why it is kept.
    pub reason: String,
    /// Until when; absent means without a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When it was kept.
    pub at: Timestamp,
}

/// The folder in which this tool remembers what it owns. Only its user can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFolder(PathBuf);

impl StateFolder {
    /// The folder at `path`, which need not exist yet. Touches nothing.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn ledgers(&self) -> PathBuf {
        self.0.join("ledgers")
    }

    fn kept_file(&self) -> PathBuf {
        self.0.join("kept.jsonl")
    }

    /// Creates the folder if it does not exist.
    ///
    /// # Errors
    /// [`Code::LedgerUnavailable`] with the path and the system's reason.
    pub fn create(&self) -> Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(self.ledgers()).map_err(|source| self.unusable("cannot be created", source))
    }

    fn unusable(&self, what: &str, source: io::Error) -> Error {
        Error::new(Code::LedgerUnavailable, format!("state folder {} {what}: {source}", self.0.display()))
            .with_advice("make it writable, free some space, or choose another with PROVIDER_STATE_DIR")
            .with_source(source)
    }

    /// The owner's mark that is stored here, if one is.
    ///
    /// # Errors
    /// [`Code::LedgerUnavailable`] if the file is there and cannot be read; [`Code::SpecInvalid`] if it holds none.
    pub fn owner(&self) -> Result<Option<Owner>> {
        match std::fs::read_to_string(self.0.join("owner")) {
            Ok(text) => Owner::new(text.trim()).map(Some),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.unusable("does not give its owner", source)),
        }
    }

    /// The owner's mark that is stored here; a random one is stored if none is. Two processes get the same.
    ///
    /// # Errors
    /// As for [`StateFolder::owner`], and if it cannot be stored.
    pub fn owner_or_new(&self) -> Result<Owner> {
        self.create()?;
        if let Some(owner) = self.owner()? {
            return Ok(owner);
        }
        let aside = self.0.join(format!(".owner-{}", RunId::random()));
        let store = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).open(&aside)?;
            writeln!(file, "{}", Owner::random())?;
            file.sync_all()?;
            // A link fails where a rename would replace the mark of a faster process.
            match std::fs::hard_link(&aside, self.0.join("owner")) {
                Err(source) if source.kind() != io::ErrorKind::AlreadyExists => Err(source),
                _ => sync_folder(&self.0),
            }
        };
        let stored = store();
        let _ = std::fs::remove_file(&aside);
        stored.map_err(|source| self.unusable("cannot be written", source))?;
        self.owner()?.ok_or_else(|| {
            Error::new(Code::LedgerUnavailable, "the owner's mark vanished while it was stored")
        })
    }

    /// Remembers things that stay on purpose, all of them or none. On the disk when this returns.
    ///
    /// # Errors
    /// [`Code::LedgerUnavailable`] if they cannot be written; then they must not be kept.
    pub fn remember_kept(&self, things: &[KeptThing]) -> Result<()> {
        let write = || -> io::Result<()> {
            let mut file = self.locked_kept_file()?;
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            // A line that was not written to its end was never relied on.
            let good_len = content.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1) as u64;
            file.set_len(good_len)?;
            let mut lines = Vec::new();
            for kept in things {
                serde_json::to_writer(&mut lines, kept)?;
                lines.push(b'\n');
            }
            let written = file.write_all(&lines).and_then(|()| file.sync_all());
            if written.is_err() {
                let _ = file.set_len(good_len);
            }
            written.and_then(|()| sync_folder(&self.0))
        };
        write().map_err(|source| self.unusable("cannot take a kept thing", source))
    }

    /// Forgetting replaces the file, so a lock counts only on the file that is still there.
    fn locked_kept_file(&self) -> io::Result<File> {
        let path = self.kept_file();
        loop {
            let file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
            file.lock()?;
            if is_at(&file, &path) {
                return Ok(file);
            }
        }
    }

    /// All things that were kept and not forgotten. Lines that cannot be read are counted, not dropped.
    ///
    /// # Errors
    /// [`Code::LedgerUnavailable`] if the file is there and cannot be read.
    pub fn kept(&self) -> Result<(Vec<KeptThing>, usize)> {
        let mut text = String::new();
        match File::open(self.kept_file()).and_then(|mut file| file.read_to_string(&mut text)) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
            Err(source) => return Err(self.unusable("does not give its kept things", source)),
            Ok(_) => {}
        }
        // A last line without an end was never relied on.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines: Vec<_> = whole.lines().filter(|line| !line.is_empty()).map(serde_json::from_str).collect();
        let unreadable = lines.iter().filter(|line| line.is_err()).count();
        Ok((lines.into_iter().flatten().collect(), unreadable))
    }

    /// Forgets a kept thing after it was deleted. The file is written aside and renamed.
    ///
    /// # Errors
    /// [`Code::LedgerUnavailable`] if it cannot be written.
    pub fn forget_kept(&self, thing: &ResourceRef) -> Result<()> {
        let forget = || -> io::Result<()> {
            let path = self.kept_file();
            if !path.exists() {
                return Ok(());
            }
            let _lock = self.locked_kept_file()?;
            let text = std::fs::read_to_string(&path)?;
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            let is_other = |line: &&str| {
                serde_json::from_str::<KeptThing>(line).map_or(true, |kept| kept.thing != *thing)
            };
            let rest: String = whole.lines().filter(is_other).flat_map(|line| [line, "\n"]).collect();
            let aside = self.0.join(".kept-new");
            let mut file = File::create(&aside)?;
            file.write_all(rest.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&aside, &path)?;
            sync_folder(&self.0)
        };
        forget().map_err(|source| self.unusable("cannot forget a kept thing", source))
    }
}
