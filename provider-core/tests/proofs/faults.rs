//! A fault of each kind at each kind of request.

use std::{panic::AssertUnwindSafe, time::Duration};

use provider_core::{
    lifecycle::sweep::SweepOptions,
    memory::{Call, Fault, FaultKind},
};

use crate::{
    stage::{CLOSE, Stage, block_on, leg},
    tally,
};

/// Where in the sequence of one kind of call the fault stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    First,
    Second,
    Last,
    Twice,
    Always,
}

impl Place {
    const ALL: [Place; 5] = [Place::First, Place::Second, Place::Last, Place::Twice, Place::Always];

    /// The fault, for a kind of call that a run without faults makes `calls` times.
    fn fault(self, call: Call, calls: usize, kind: FaultKind) -> Fault {
        match self {
            Place::First => Fault::once(call, 1, kind),
            Place::Second => Fault::once(call, 2, kind),
            Place::Last => Fault::once(call, calls.max(1), kind),
            Place::Twice => Fault { times: 2, ..Fault::once(call, 1, kind) },
            Place::Always => Fault::always(call, kind),
        }
    }
}

/// A kind of call is reached by a plain run, or only after another fault.
fn reached_by(call: Call) -> Vec<Fault> {
    let lost = |call| Fault { times: 1, ..Fault::once(call, 1, FaultKind::LostAfter) };
    match call {
        Call::Find => vec![lost(Call::CreateContext), lost(Call::CreateArtifact), lost(Call::CreateSandbox)],
        _ => Vec::new(),
    }
}

fn creates(call: Call) -> bool {
    matches!(call, Call::CreateContext | Call::CreateArtifact | Call::CreateSandbox)
}

/// A61, A63: whatever a request answers, or does without an answer, what it made is found, and the first error stays.
pub(crate) fn fault_at_every_request() {
    for call in Call::ALL.into_iter().filter(|call| *call != Call::List) {
        let befores: Vec<Option<Fault>> = match reached_by(call) {
            faults if faults.is_empty() => vec![None],
            faults => faults.into_iter().map(Some).collect(),
        };
        for before in befores {
            let calls = calls_without_fault(call, before);
            assert!(calls > 0, "{call:?} is never made");
            for kind in FaultKind::ALL {
                for place in Place::ALL {
                    let second = matches!(place, Place::Second);
                    if second && calls < 2 && !creates(call) {
                        continue;
                    }
                    let fault = place.fault(call, calls, kind);
                    let prepared = if second && creates(call) { Some(twice_created(call)) } else { before };
                    run(fault, prepared);
                    tally::count("request x fault", format!("{call:?}"), format!("{kind:?}"));
                }
            }
        }
    }
}

/// A create is made a second time after a first one that had no effect.
fn twice_created(call: Call) -> Fault {
    Fault::once(call, 1, FaultKind::Refused)
}

fn calls_without_fault(call: Call, before: Option<Fault>) -> usize {
    let stage = Stage::new();
    before.into_iter().for_each(|fault| stage.world.inject(fault));
    let session = stage.session();
    let made = block_on(leg(&session, &stage.provider)).expect("a leg without a fault");
    let report = block_on(session.close(CLOSE));
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.deleted.len(), stage.world.created(), "{report}");
    drop(made);
    stage.world.calls().get(&call).copied().unwrap_or(0)
}

fn run(fault: Fault, before: Option<Fault>) {
    let stage = Stage::new();
    let case = format!("{fault:?} after {before:?}");
    // Something of ours exists from the start, so that no case is about nothing.
    let session = stage.session();
    let first = block_on(leg(&session, &stage.provider)).expect("a first leg");
    assert!(!stage.world.holdings().is_empty(), "{case}: nothing of ours exists");
    let done = stage.world.calls();
    let moved =
        |fault: Fault| Fault { nth: fault.nth + done.get(&fault.call).copied().unwrap_or(0), ..fault };
    before.map(moved).into_iter().for_each(|fault| stage.world.inject(fault));
    stage.world.inject(moved(fault));

    // A driver's panic in the caller's own call is the caller's panic; what was created is deleted all the same.
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| block_on(leg(&session, &stage.provider))));
    let report = block_on(session.close(CLOSE));
    let fired = stage.world.fired();
    assert!(
        fired.iter().any(|(call, _, kind)| (*call, *kind) == (fault.call, fault.kind)),
        "{case}: it did not happen"
    );
    if let Ok(Err(error)) = &ended {
        assert!(!error.operation().is_empty() && error.provider().is_some(), "{case}: {error:?}");
    }
    if creates(fault.call) && fault.kind.has_effect() && fault.times == 1 && before.is_none() {
        assert!(matches!(ended, Ok(Ok(_))), "{case}: what was made was not adopted: {ended:?}");
        assert_eq!(stage.world.created(), 6, "{case}: something was made twice");
    }
    let accounted =
        report.deleted.len() + report.already_gone.len() + report.stuck.len() + report.unresolved.len();
    assert!(accounted >= stage.world.created(), "{case}: {} created\n{report}", stage.world.created());
    stage.assert_nothing_left(&report);
    drop((first, ended));
}

/// The list is asked for by sweeps alone, and matters when the ledger is lost with its machine.
pub(crate) fn fault_at_every_list() {
    for kind in FaultKind::ALL {
        for place in [Place::First, Place::Always] {
            let stage = Stage::new();
            let session = stage.session();
            let made = block_on(leg(&session, &stage.provider)).expect("a leg");
            stage.world.inject(Fault::always(Call::Delete, FaultKind::Forbidden));
            let report = block_on(session.close(CLOSE));
            assert_eq!(report.stuck.len(), 3, "{report}");
            stage.world.heal();
            let ledgers =
                provider_core::lifecycle::ledger::files(&stage.state_folder()).expect("the ledgers");
            ledgers.iter().for_each(|path| std::fs::remove_file(path).expect("the ledger is lost"));

            let early = stage.sweep(SweepOptions::delete());
            assert!(early.result.deleted.is_empty(), "what has not expired was deleted: {early:?}");
            stage.clock.advance(Duration::from_secs(3 * 3600));
            let calls = stage.world.calls().get(&Call::List).copied().unwrap_or(0);
            let fault = place.fault(Call::List, 1, kind);
            stage.world.inject(Fault { nth: fault.nth + calls, ..fault });
            let swept = stage.sweep(SweepOptions::delete());
            assert!(
                stage.world.fired().iter().any(|(call, ..)| *call == Call::List),
                "{kind:?} did not happen"
            );
            assert!(!swept.is_clean(), "a failed list was taken for an empty one: {swept:?}");
            stage.assert_sweep_cleans();
            tally::count("request x fault", "List", format!("{kind:?}"));
            drop(made);
        }
    }
}
