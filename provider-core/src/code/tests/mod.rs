//! Sessions with a real interpreter, and with a driver that does what it should not.

mod fake;
mod faults;
#[cfg(target_os = "linux")]
mod real;
