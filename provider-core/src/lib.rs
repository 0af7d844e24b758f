//! The vocabulary, the traits, the lifecycle and the contract of provider drivers.
//!
//! A tool that imports this crate and a driver builds an [Environment](environment::EnvironmentSpec) into an
//! [artifact](environment::Artifact), launches [sandboxes](sandbox::Sandbox) from it, runs commands, and leaves
//! nothing behind: whatever was created, on any path, is deleted and seen to be gone, or named in a
//! [report](lifecycle::TeardownReport).
//!
//! On the provider in memory (feature `memory`):
//!
#![cfg_attr(any(test, feature = "memory"), doc = "```")]
#![cfg_attr(not(any(test, feature = "memory")), doc = "```ignore")]
//! # use std::{sync::Arc, time::Duration};
//! # use provider_core::{
//! #     environment::{BasePin, BuildRequest, Environment, EnvironmentSpec, Lockfile},
//! #     lifecycle::{Session, SessionConfig},
//! #     memory::{ManualClock, MemoryProvider, Pace, World},
//! #     provider::Provider,
//! #     sandbox::Command,
//! #     secret::SecretSet,
//! # };
//! # async fn example() -> provider_core::error::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("provider-core-example-{}", std::process::id()));
//! let clock = Arc::new(ManualClock::new());
//! let world = World::new(clock.clone(), Pace::SLOW);
//! let memory: Arc<dyn Provider> = Arc::new(MemoryProvider::new(&world, clock.clone()));
//!
//! let environment = Environment::new(EnvironmentSpec::named("hello"), None)?;
//! let base = BasePin::unpinned("memory", "any")?;
//! let request = BuildRequest::new(environment, Lockfile::without_packages(), base, SecretSet::new())?;
//!
//! let session = Session::open(SessionConfig::new("my-tool").state_folder(&folder).clock(clock))?;
//! let artifact = session.build(&memory, request).await?;
//! let sandbox = session.launch(&memory, &artifact, Default::default()).await?;
//! let out = sandbox.exec(Command::argv(["echo", "hello"])).await?;
//! assert_eq!(out.stdout_text(), "hello\n");
//!
//! let report = session.close(Duration::from_secs(60)).await;
//! assert!(report.is_clean() && world.holdings().is_empty(), "{report}");
//! # let _ = std::fs::remove_dir_all(folder);
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
//! ```

pub mod capability;
pub mod code;
pub mod config;
pub mod contract;
pub mod environment;
pub mod error;
mod hex;
pub mod identity;
pub mod lifecycle;
pub mod limits;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod names;
pub mod provider;
pub mod resources;
pub mod retry;
pub mod sandbox;
pub mod secret;
