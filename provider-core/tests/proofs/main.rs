//! The proofs of the lifecycle: whatever goes wrong, nothing is left, or it is named.
//!
//! Each proof runs many cases against the memory provider; a table of their numbers follows at the end.

mod doubles;
mod edges;
mod faults;
mod gates;
mod hostile;
mod kept;
mod kills;
mod stage;
mod tally;

use libtest_mimic::{Arguments, Failed, Trial};

/// The proofs must stay this many.
const CASES_AT_LEAST: usize = 500;

fn proof(name: &'static str, body: fn()) -> Trial {
    Trial::test(name, move || {
        body();
        Ok::<(), Failed>(())
    })
}

/// Injected panics are part of the proofs; their words would hide those of a failure.
fn hide_injected_panics() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.to_string().contains("injected panic") {
            shown(panic);
        }
    }));
}

fn main() {
    hide_injected_panics();
    kills::be_the_child_if_asked();
    let arguments = Arguments::from_args();
    let trials = vec![
        proof("fault_at_every_request", faults::fault_at_every_request),
        proof("fault_at_every_list", faults::fault_at_every_list),
        proof("drop_at_every_gate", gates::drop_at_every_gate),
        proof("close_at_every_gate", gates::close_at_every_gate),
        proof("runtime_gone", gates::runtime_gone_at_every_gate),
        proof("sweep_dropped_at_every_gate", gates::sweep_dropped_at_every_gate),
        proof("kill_at_every_gate", kills::kill_at_every_gate),
        proof("kill_a_sweep_at_every_gate", kills::kill_a_sweep_at_every_gate),
        proof("order_of_steps", doubles::order_of_steps),
        proof("sloppy_lookups", doubles::sloppy_lookups),
        proof("edges", edges::edges),
        proof("double_everything", doubles::double_everything),
        proof("kept_things_deleted_by_record", kept::deleted_by_record),
    ];
    let trials = trials.into_iter().chain(hostile::trials()).collect();
    gates::assert_every_step_has_a_table();
    let listing = arguments.list;
    let everything = arguments.filter.is_none() && arguments.skip.is_empty();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !listing {
        let empty = tally::print();
        if !conclusion.has_failed() && everything {
            assert!(empty.is_empty(), "empty cells: {empty:?}");
            assert!(tally::total() >= CASES_AT_LEAST, "only {} cases ran", tally::total());
        }
    }
    conclusion.exit();
}
