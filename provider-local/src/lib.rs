//! Sandboxes on this machine: namespaces, overlay layers and a tiny static helper, with no daemon.
//!
//! [`LocalProvider`] is the driver: it builds Environments into artifacts and launches sandboxes from them, through a
//! [`Session`](provider_core::lifecycle::Session). Below it, [`engine`] starts boxes and runs commands in them, and
//! [`store`] is the folder where layers, records and boxes lie; neither knows of the provider contract.
//!
//! ```no_run
//! # async fn example() -> provider_core::error::Result<()> {
//! use std::{sync::Arc, time::Duration};
//! use provider_core::{environment::*, lifecycle::*, provider::Provider, sandbox::Command, secret::SecretSet};
//! use provider_local::{LocalConfig, LocalProvider};
//!
//! let driver = LocalProvider::open(LocalConfig::from_env()?)?;
//! let base = driver.pin_base("host")?;
//! let local: Arc<dyn Provider> = Arc::new(driver);
//! let environment = Environment::new(EnvironmentSpec::named("example"), None)?;
//! let request = BuildRequest::new(environment, Lockfile::without_packages(), base, SecretSet::new())?;
//!
//! let session = Session::open(SessionConfig::new("example"))?;
//! let artifact = session.build(&local, request).await?;
//! let sandbox = session.launch(&local, &artifact, Default::default()).await?;
//! assert_eq!(sandbox.exec(Command::argv(["id", "-u"])).await?.stdout, b"1000\n");
//! let report = session.close(Duration::from_secs(60)).await;
//! assert!(report.is_clean());
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! An artifact is a record that names layers, and the digest of each layer's content is part of the artifact's
//! reference. A process compares a layer with its digest before it first launches from it or builds on it, unless it
//! has just built it; an artifact with a layer that differs is refused, and a cached layer that differs is built again.
//! [`Builder::verify`](provider_core::provider::Builder::verify) compares all layers of an artifact at any time, and
//! names what differs. What changes later than that comparison, the process does not see by itself.
//!
//! Layers stay as cache when their artifacts are deleted. [`LocalProvider::collect_cache`] removes those that nothing
//! needs.
//!
//! # What it cannot do
//!
//! - A sandbox does not outlive the process that launched it, by whatever death; so it cannot be kept, and only this
//!   process can attach to it.
//! - There are no limits of processor, memory or disk yet; a launch that asks for one is refused.
//! - As an ordinary user, a sandbox knows one user and one group, 1000:100, and keeps the caller's supplementary
//!   groups ([`LocalProvider::kept_groups`]).
//! - The network of a sandbox is this machine's.
//! - The kernel is shared with the host. That is good against accidents, and no wall against hostile code.

mod cache;
pub mod config;
pub mod engine;
mod helper;
#[cfg(embedded)]
pub mod store;

#[cfg(embedded)]
mod bases;
#[cfg(embedded)]
mod blocking;
#[cfg(embedded)]
mod boxes;
#[cfg(embedded)]
mod builder;
#[cfg(embedded)]
mod driver;
mod errors;
#[cfg(embedded)]
mod keeper;
#[cfg(embedded)]
mod launch;
#[cfg(embedded)]
mod layers;
#[cfg(embedded)]
mod reclaim;
#[cfg(embedded)]
mod record;
#[cfg(embedded)]
mod sandbox;

pub use cache::{CacheLimits, CacheReport, RemovedLayer};
pub use config::{InstallerWay, LocalConfig};
#[cfg(embedded)]
pub use driver::LocalProvider;

#[cfg(not(embedded))]
mod absent;
#[cfg(not(embedded))]
pub use absent::LocalProvider;
