//! What artifacts start from: this machine's root, or a configured folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use provider_core::{
    environment::BasePin,
    error::{Code, Error, Result},
};

use crate::{
    config::HOST,
    engine::{Base, Engine},
    errors::{error, from_engine},
};

/// The known bases by name.
#[derive(Debug)]
pub(crate) struct Bases(BTreeMap<String, Base>);

impl Bases {
    pub(crate) fn new(folders: BTreeMap<String, PathBuf>) -> Self {
        let mut bases: BTreeMap<_, _> =
            folders.into_iter().map(|(name, folder)| (name, Base::Dir(folder))).collect();
        bases.insert(HOST.to_owned(), Base::Host);
        Self(bases)
    }

    /// The base of this name.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] with the names of all bases.
    pub(crate) fn get(&self, name: &str) -> Result<Base> {
        self.0.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let words = format!("there is no base {name:?}; known are {}", known.join(", "));
            error(Code::SpecInvalid, words)
                .with_advice("name one of them in spec.base.ref, or configure a folder under that name")
        })
    }

    /// The base as it is now. Blocks.
    ///
    /// # Errors
    /// As for [`Bases::get`]; [`Code::ArtifactMissing`] if it cannot be read.
    pub(crate) fn pin(&self, engine: &Engine, name: &str) -> Result<BasePin> {
        let base = self.get(name)?;
        let fingerprint = engine.fingerprint(&base).map_err(from_engine)?;
        BasePin::unpinned(name, fingerprint)
    }

    /// The base, if it is still what it was. Blocks.
    ///
    /// # Errors
    /// As for [`Bases::pin`]; [`Code::ArtifactMissing`] if the base has changed.
    pub(crate) fn unchanged(&self, engine: &Engine, name: &str, fingerprint: &str) -> Result<Base> {
        let base = self.get(name)?;
        let now = engine.fingerprint(&base).map_err(from_engine)?;
        if now == fingerprint { Ok(base) } else { Err(changed(name, fingerprint, &now)) }
    }
}

fn changed(name: &str, then: &str, now: &str) -> Error {
    error(Code::ArtifactMissing, format!("base {name:?} is not what it was when it was pinned"))
        .with_advice("pin the base again, and build again")
        .with_context("fingerprint then", then)
        .with_context("fingerprint now", now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_base_is_refused_with_the_known_names() {
        let bases = Bases::new([("debian".to_owned(), PathBuf::from("/srv/debian"))].into());
        let error = bases.get("ubuntu").unwrap_err();
        assert_eq!(error.code(), Code::SpecInvalid);
        assert!(error.message().contains("debian, host"), "{error}");
        assert_eq!(bases.get(HOST).unwrap(), Base::Host);
    }
}
