//! The embedded engine: boxes of this machine's kernel, made by a tiny helper and driven over a socket.
//!
//! A *box* is a mount, process, IPC and host name namespace (and, for an ordinary user, a user namespace)
//! whose root is an overlay: a base, layers, and an upper folder of its own. The network is this machine's. A
//! *build* box makes a layer of what was changed in it; a *run* box executes commands without any privilege,
//! and what they change goes away with it.
//!
//! ```text
//! driver ── control socket ── stage 1 (outside) ── first process (inside) ── commands
//!    └──── folder of the box, its lock shared with stage 1 and the first process
//! ```
//!
//! Nothing of the caller's process is forked, nothing depends on the thread that starts a box, and a runtime
//! is not needed. When the caller's process dies, by whatever death, stage 1 sees the end of the socket and
//! kills the box; what is left is a folder with a free lock, which [`Engine::reap`] of any later process
//! removes.
//!
//! As root, ids in a box are this machine's ids, and the private parts of this machine are hidden. As an
//! ordinary user, one user and one group are mapped; every file in the box belongs to that user, so a
//! reserved path is protected by a read-only mount; and the caller's supplementary groups cannot be dropped
//! ([`Engine::isolation`] lists them).
//!
//! No cgroup is made: there are no limits of memory, processes or CPU yet. The kernel is shared: this is good
//! against accidents, and no wall against hostile code.

#[cfg(embedded)]
mod advice;
mod error;
#[cfg(embedded)]
mod facts;
#[cfg(embedded)]
mod fingerprint;
#[cfg(embedded)]
mod image;
#[cfg(embedded)]
mod launch;
#[cfg(embedded)]
mod link;
mod plan;
#[cfg(embedded)]
mod preflight;
#[cfg(embedded)]
mod process;
#[cfg(embedded)]
mod root;
#[cfg(embedded)]
mod running;
#[cfg(embedded)]
mod wire;

pub use error::{EngineError, Step};
#[cfg(embedded)]
pub use plan::BoxPlan;
#[doc(hidden)]
pub use plan::Fault;
pub use plan::{
    Base, BuildInput, EngineConfig, ExecSpec, Exit, Identity, Isolation, Need, Purpose, SecretBytes,
    SignalScope, Stdin,
};
#[cfg(embedded)]
pub use process::{ExitWait, Process};
#[cfg(embedded)]
pub use running::RunningBox;

#[cfg(embedded)]
mod present;
#[cfg(embedded)]
pub use present::Engine;
#[cfg(embedded)]
use present::Shared;

#[cfg(not(embedded))]
mod absent;
#[cfg(not(embedded))]
pub use absent::Engine;
