//! Records: what the driver remembers of an artifact.

use super::files::{self, Held, Want};
use super::{LayerKey, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A record: the layers that it keeps from collection, and whatever else the driver wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The layers it needs, the lowest first.
    pub layers: Vec<LayerKey>,
    /// The driver's own data.
    pub body: serde_json::Value,
}

impl Store {
    /// Writes a record, in place of an older one of the same name. After a power cut the old or the new one
    /// is there, whole.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`] when it names a layer that does not exist; a malformed name; or the system
    /// refuses, and the older record stays.
    pub fn put_record(&self, name: &str, record: &Record) -> Result<(), StoreError> {
        let path = self.record_path(name)?;
        let _no_collection = self.collection_guard()?;
        for key in &record.layers {
            self.require_layer(key)?;
        }
        let text = serde_json::to_vec(record)
            .map_err(|error| StoreError::Unreadable { path: path.clone(), reason: error.to_string() })?;
        let aside = self.path("tmp").join(format!("{name}.json.{}", files::unique()));
        let answer = self.write_aside(&aside, &text).and_then(|_held| {
            fs::rename(&aside, &path).map_err(|error| StoreError::io("write", &path, error))?;
            files::sync_dir(&self.path("art"))
        });
        if answer.is_err() {
            let _ = fs::remove_file(&aside);
        }
        answer
    }

    /// A file that is locked while it is in `tmp`, so that a sweep leaves it alone.
    fn write_aside(&self, aside: &Path, text: &[u8]) -> Result<Option<Held>, StoreError> {
        let _newborn = self.newborn_guard()?;
        let file = files::write_new(aside, text)?;
        files::sync(&file, aside)?;
        Held::attempt(file, aside, Want::Exclusive)
    }

    /// A record; `None` when there is none of this name.
    ///
    /// # Errors
    /// A malformed name, or a file that cannot be read or understood.
    pub fn record(&self, name: &str) -> Result<Option<Record>, StoreError> {
        let path = self.record_path(name)?;
        let Some(text) = files::read_if_there(&path)? else {
            return Ok(None);
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| StoreError::Unreadable { path, reason: error.to_string() })
    }

    /// All records with their names.
    ///
    /// # Errors
    /// As for [`Store::record`].
    pub fn records(&self) -> Result<Vec<(String, Record)>, StoreError> {
        let mut records = Vec::new();
        for file in files::names(&self.path("art"))? {
            let Some(name) = file.strip_suffix(".json") else {
                continue;
            };
            if let Some(record) = self.record(name)? {
                records.push((name.to_owned(), record));
            }
        }
        Ok(records)
    }

    /// Removes a record; says whether it was there. Its layers stay until a collection.
    ///
    /// # Errors
    /// A malformed name, or the system refuses.
    pub fn remove_record(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.record_path(name)?;
        match fs::remove_file(&path) {
            Ok(()) => files::sync_dir(&self.path("art")).map(|()| true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::io("remove", &path, error)),
        }
    }

    fn record_path(&self, name: &str) -> Result<PathBuf, StoreError> {
        files::check_name("record name", name, 128, true)?;
        Ok(self.path("art").join(format!("{name}.json")))
    }
}
