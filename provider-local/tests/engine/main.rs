//! The engine against the real kernel: real namespaces, mounts and processes. Runs as root and as an ordinary
//! user; as root it runs a second time as an ordinary user. Where the kernel forbids boxes, or there is no
//! engine, trials are ignored with the reason.

#[cfg(embedded)]
mod suite;

use libtest_mimic::Arguments;

#[cfg(embedded)]
use suite::{clean_up, trials};

/// One trial, which says why there are no others.
#[cfg(not(embedded))]
fn trials() -> Option<Vec<libtest_mimic::Trial>> {
    use libtest_mimic::{Completion, Trial};
    use provider_local::engine::{Engine, EngineConfig};
    let run = || match Engine::open(EngineConfig::new("unused")) {
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(engine) => match engine {},
    };
    Some(vec![Trial::ignorable_test("engine", run)])
}

#[cfg(not(embedded))]
fn clean_up() {}

fn main() {
    if let Some(trials) = trials() {
        let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
        clean_up();
        conclusion.exit();
    }
}
