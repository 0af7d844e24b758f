//! Tests what boxes need, for real.

use super::advice::advice;
use super::error::Step;
use super::plan::{Base, BoxPlan, ExecSpec, Identity, Need};
use super::{Engine, EngineError};
use crate::store::{Store, unique};
use rustix::process::PidfdFlags;
use std::time::Duration;

/// The needs that a start meets one after the other, and the steps of the helper that belong to each.
const STAGES: &[(&str, &[Step])] = &[
    (
        "namespaces",
        &[
            Step::ReceivePlan,
            Step::ReadPlan,
            Step::Namespaces,
            Step::IdMap,
            Step::Process,
            Step::PrivateMounts,
            Step::Hostname,
            Step::FirstProcess,
        ],
    ),
    ("tmpfs", &[Step::Tmpfs, Step::MakeDir, Step::WriteFile, Step::MakeLink, Step::Whiteout, Step::Opaque]),
    ("overlay", &[Step::Overlay]),
    ("root", &[Step::EnterRoot]),
    ("proc", &[Step::Proc]),
    (
        "mounts",
        &[Step::Bind, Step::Devpts, Step::Hide, Step::ReadOnly, Step::Reserve, Step::Take, Step::Loop],
    ),
];

pub(super) fn run(engine: &Engine) -> Vec<Need> {
    let mut needs = vec![pidfd(), memory_program(engine), state_folder(engine.store())];
    if needs.iter().all(|need| need.ok) {
        needs.extend(probe(engine));
    }
    needs
}

fn met(name: &'static str, detail: impl Into<String>) -> Need {
    Need { name, ok: true, detail: detail.into(), fix: String::new() }
}

fn unmet(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Need {
    Need { name, ok: false, detail: detail.into(), fix: fix.into() }
}

fn pidfd() -> Need {
    match rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()) {
        Ok(_) => met("pidfd", "processes can be held by descriptor"),
        Err(error) => unmet("pidfd", format!("pidfd_open: {error}"), "use Linux 5.12 or newer"),
    }
}

/// Not a hard need: the program then lies in the state folder.
fn memory_program(engine: &Engine) -> Need {
    match engine.shared().image.in_memory() {
        Ok(_) => met("helper", "the helper is executed from memory"),
        Err(error) => {
            met("helper", format!("the helper is executed from the state folder, since memory: {error}"))
        }
    }
}

fn state_folder(store: &Store) -> Need {
    match store.try_writing() {
        Ok(()) => met("state_folder", store.root().display().to_string()),
        Err(error) => unmet("state_folder", error.to_string(), "choose a state folder that can be written"),
    }
}

/// Starts a box on an empty base. It has no program to run, so "no such file" is what success looks like.
fn probe(engine: &Engine) -> Vec<Need> {
    let id = format!("preflight-{}", unique());
    // Any folder will do, and this one is there.
    let base = engine.store().path("bin");
    let started = engine.start(&BoxPlan::run(id, Base::Dir(base)));
    let needs = match &started {
        Ok(running) => {
            let mut needs: Vec<Need> = STAGES.iter().map(|(name, _)| met(name, "works")).collect();
            needs.push(exec(&running.spawn(&ExecSpec::new(Identity::SANDBOX, ["/none"]))));
            needs
        }
        Err(error) => explain(engine, error),
    };
    if let Ok(running) = started
        && let Err(error) = running.stop(Duration::ZERO)
    {
        tracing::warn!(%error, "the probe box of the preflight could not be removed at once");
    }
    needs
}

fn exec(answer: &Result<super::Process, EngineError>) -> Need {
    match answer {
        Err(error) if error.is_missing_program() => met("exec", "works"),
        Err(error) => unmet("exec", error.to_string(), ""),
        Ok(_) => unmet("exec", "a program that does not exist was executed", ""),
    }
}

/// Says what worked before the failure, what failed, and what was not reached.
fn explain(engine: &Engine, error: &EngineError) -> Vec<Need> {
    let EngineError::Start { step, source, .. } = error else {
        return vec![unmet("start", error.to_string(), "")];
    };
    let fix = advice(&engine.shared().facts, *step, source.raw_os_error().unwrap_or_default());
    let fix = fix.trim_start_matches("; ");
    let failed = STAGES.iter().position(|(_, steps)| steps.contains(step)).unwrap_or(0);
    let need = |(index, (name, _)): (usize, &(&'static str, &[Step]))| {
        if index < failed {
            met(name, "works")
        } else if index == failed {
            unmet(name, format!("could not {}: {source}", step.words()), fix)
        } else {
            unmet(name, "not tested, since an earlier need is missing", fix)
        }
    };
    STAGES.iter().enumerate().map(need).collect()
}
