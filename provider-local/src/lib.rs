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
//! # Packages
//!
//! An Environment that names Python gets a virtual environment at `/opt/venv`, in a layer of its own, from the base's
//! own `python3`. Exactly the packages of the lockfile are in it, `pip` among them, each compared with its hashes
//! before it is used; the environment belongs to the contract's user, so that a sandbox can install more. Commands of
//! the build run after that, with the environment on their path.
//!
//! The first of these that can, and that the Environment's `manager` allows, installs ([`InstallerWay`]):
//!
//! 1. `uv` from the caller's `PATH` ([`LocalConfig::uv`]), which the build reads and runs in its box. One that cannot
//!    run there, such as one for another C library, is passed over.
//! 2. `pip` of the base, from version 22.3 on.
//! 3. `pip` in the pinned version, which the base's `python3` fetches with its standard library alone, from folders of
//!    links or from an index, and which is run from its file once its hash is the right one.
//!
//! The base needs `python3`, and for `pip` its modules `venv`, `json`, `ssl` and `zlib`; it needs neither `ensurepip`
//! nor any package. What is missing is named before anything is installed.
//!
//! Installers get the caller's variables that say where packages come from and how they are fetched: indexes, folders
//! of links, certificates, proxies, time limits and settings files, and no other. Files and folders that they name are
//! read-only in the box. Without certificates of the caller, those of the base count. Passwords in them are in no log,
//! error, record or layer. They are no part of a layer's key: a layer that was installed from one index serves a
//! build that names another.
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
//! - Packages of the distribution (`apt`), `conda`, Dockerfiles and images: [`validate`] names each, with what to do.
//! - A source distribution is built in the box, as root of the box. What its build needs is fetched by the installer,
//!   and the lockfile does not pin it.
//! - Users and passwords of indexes come from variables alone: `.netrc` and key rings are not asked. Paths in a
//!   settings file are those of the box, and an index that only such a file names is not asked for the pinned `pip`.
//! - Packages have no bytecode, so that the same lockfile makes the same layer; the first import in a sandbox compiles.
//! - A sandbox does not outlive the process that launched it, by whatever death; so it cannot be kept, and only this
//!   process can attach to it.
//! - There are no limits of processor, memory or disk yet; a launch that asks for one is refused.
//! - As an ordinary user, a sandbox knows one user and one group, 1000:100, and keeps the caller's supplementary
//!   groups ([`LocalProvider::kept_groups`]).
//! - The network of a sandbox is this machine's.
//! - The kernel is shared with the host. That is good against accidents, and no wall against hostile code.
//!
//! [`validate`]: provider_core::provider::Builder::validate

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
pub use config::{InstallerWay, LocalConfig, PUBLIC_INDEX};
#[cfg(embedded)]
pub use driver::LocalProvider;

#[cfg(not(embedded))]
mod absent;
#[cfg(not(embedded))]
pub use absent::LocalProvider;
