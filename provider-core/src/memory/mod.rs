//! A provider in memory, for tests: stateful, slow in the ways in which real ones are, and with faults on request.
//!
//! The [`World`] is the provider's side: things with states, names, owners and delays. It may live in the process
//! of the driver or, [served](serve) over a Unix socket, in another, so that what a killed process leaves behind
//! can be looked at. The [`MemoryProvider`] is the driver's side. Time is a [`ManualClock`] that advances by
//! itself when nothing else can happen, so that waits of minutes take no time and hide nothing.

mod abilities;
mod clock;
mod errors;
mod fault;
mod lockfiles;
mod provider;
#[cfg(unix)]
mod remote;
mod sandbox;
mod world;

pub use clock::ManualClock;
pub use fault::{Fault, FaultKind};
pub use provider::MemoryProvider;
#[cfg(unix)]
pub use remote::serve;
pub use world::{Call, Failure, Holding, Pace, Reply, Request, World};
