//! The engine against the real kernel: real namespaces, mounts and processes. Runs as root and as an ordinary user.

mod basics;
mod common;

use common::Outcome;
use libtest_mimic::{Arguments, Trial};

/// A trial by the name of its function.
macro_rules! trials {
    ($($module:ident :: $name:ident),* $(,)?) => {
        vec![$(trial(concat!(stringify!($module), "::", stringify!($name)), $module::$name)),*]
    };
}

fn trial(name: &str, run: fn() -> Outcome) -> Trial {
    Trial::test(name, run)
}

fn main() {
    let arguments = Arguments::from_args();
    let trials = trials![
        basics::identity_and_groups,
        basics::private_parts_are_hidden,
        basics::layers_stack,
        basics::needs_are_met,
    ];
    libtest_mimic::run(&arguments, trials).exit();
}
