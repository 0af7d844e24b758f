//! The providers of the matrix.

use std::{path::Path, sync::Arc};

use provider_core::{
    contract::{Contract, SANDBOX_V1},
    error::{Code, Error, Result},
    identity::User,
    provider::Provider,
};
use provider_local::{CacheLimits, CacheReport, LocalConfig, LocalProvider};

/// The ids of all providers, in the order of the matrix.
pub const IDS: [&str; 1] = ["local"];

/// A provider, and what a leg needs to know about it beside its driver.
#[derive(Debug)]
pub struct Entrant {
    /// The driver.
    pub provider: Arc<dyn Provider>,
    /// The contract as its sandboxes are to keep it.
    pub contract: Contract,
    /// Its sandboxes keep the caller's supplementary groups, and say so.
    pub keeps_groups: bool,
    /// Who sees files of its sandboxes that the contract's user does not, if anybody does.
    pub sees_all: Option<User>,
    local: Option<Box<LocalProvider>>,
}

impl Entrant {
    /// The provider of this id, from its configuration in the environment.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] with the known ids if there is none; what the driver says about its configuration.
    pub fn open(id: &str, bases: &[(String, String)]) -> Result<Self> {
        match id {
            "local" => {
                let mut config = LocalConfig::from_env()?;
                for (name, folder) in bases {
                    let found = Path::new(folder).canonicalize().ok().filter(|path| path.is_dir());
                    let no_folder =
                        || Error::new(Code::SpecInvalid, format!("base {name:?}: {folder} is no folder"));
                    config = config.base(name.clone(), found.ok_or_else(no_folder)?);
                }
                let local = LocalProvider::open(config)?;
                Ok(Self {
                    provider: Arc::new(local.clone()),
                    contract: SANDBOX_V1.on_this_machine(),
                    keeps_groups: !local.kept_groups().is_empty(),
                    sees_all: local.capabilities().exec_user.then_some(User::ROOT),
                    local: Some(Box::new(local)),
                })
            }
            other => Err(Error::new(Code::SpecInvalid, format!("there is no provider {other:?}"))
                .with_advice(format!("choose one of: {}", IDS.join(", ")))),
        }
    }

    /// A provider of a caller's own.
    pub fn own(provider: Arc<dyn Provider>, contract: Contract) -> Self {
        Self { provider, contract, keeps_groups: false, sees_all: None, local: None }
    }
}

impl Entrant {
    /// Removes scratch folders that killed processes left on this machine and that no ledger knows of. Blocks.
    ///
    /// # Errors
    /// What the driver says about its folder.
    pub fn tidy(&self) -> Result<usize> {
        self.local.as_ref().map_or(Ok(0), |local| local.tidy())
    }

    /// Removes what the provider keeps to make builds faster and nothing needs, if it keeps something. Blocks.
    ///
    /// # Errors
    /// What the driver says about its folder.
    pub fn collect_cache(&self, limits: &CacheLimits) -> Result<Option<CacheReport>> {
        self.local.as_ref().map(|local| local.collect_cache(limits)).transpose()
    }

    /// What the provider keeps to make the next build faster, in words, if it keeps something. Blocks for as long as
    /// looking needs.
    pub fn cache(&self) -> Option<String> {
        let cache = self.local.as_ref()?.collect_cache(&CacheLimits::default().dry_run()).ok()?;
        Some(format!(
            "{} layers, {:.1} MiB, in {}",
            cache.removed.len(),
            cache.removed_bytes as f64 / f64::from(1 << 20),
            self.provider.endpoint()
        ))
    }
}

/// The drivers that a sweep can use, and why the others cannot be used. Opens nothing that does not exist yet.
pub fn for_sweep() -> (Vec<Entrant>, Vec<(String, Error)>) {
    let mut usable = Vec::new();
    let mut unusable = Vec::new();
    for id in IDS {
        match existing(id) {
            Ok(Some(entrant)) => usable.push(entrant),
            Ok(None) => {}
            Err(error) => unusable.push((id.to_owned(), error)),
        }
    }
    (usable, unusable)
}

/// A provider whose state lies on this machine has nothing to sweep as long as it has no state.
fn existing(id: &str) -> Result<Option<Entrant>> {
    if id == "local" && !LocalConfig::from_env()?.state_dir.exists() {
        return Ok(None);
    }
    Entrant::open(id, &[]).map(Some)
}
