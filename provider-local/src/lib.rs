//! Sandboxes on this machine: namespaces, overlay layers and a tiny static helper, with no daemon.
//!
//! [`engine`] starts boxes and runs commands in them; [`store`] is the folder where layers, records and boxes
//! lie. Neither knows of the provider contract, which the driver puts on top.
//!
//! The kernel is shared with the host. That is good against accidents, and no wall against hostile code.

pub mod engine;
mod helper;
#[cfg(embedded)]
pub mod store;
