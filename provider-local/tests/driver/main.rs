//! The driver through sessions, with real boxes and processes. Runs as root and as an ordinary user.

#[cfg(embedded)]
mod common;
#[cfg(embedded)]
mod leg;

#[cfg(embedded)]
fn main() {
    use libtest_mimic::{Arguments, Trial};

    /// A trial by the name of its function.
    macro_rules! trials {
        ($($module:ident :: $name:ident),* $(,)?) => {
            vec![$(common::trial(concat!(stringify!($module), "::", stringify!($name)), $module::$name)),*]
        };
    }
    let arguments = Arguments::from_args();
    let trials: Vec<Trial> = trials![leg::the_whole_leg];
    libtest_mimic::run(&arguments, trials).exit();
}

#[cfg(not(embedded))]
fn main() {
    use libtest_mimic::{Arguments, Trial};

    let ignored =
        Trial::test("driver (this system has no embedded engine)", || Ok(())).with_ignored_flag(true);
    libtest_mimic::run(&Arguments::from_args(), vec![ignored]).exit();
}
