//! Things that are kept: until their stamp, or until somebody deletes them by their record.

use std::{sync::Arc, time::Duration};

use provider_core::{
    environment::Artifact,
    error::{Code, Result},
    lifecycle::{
        Clock as _, DeleteOptions, Lifetime, ResourceKind, Session, SessionConfig, TeardownReport,
        delete_kept, sweep::SweepOptions,
    },
    memory::{Call, Fault, FaultKind},
    names::Owner,
    provider::LaunchOptions,
};

use crate::{
    stage::{CLOSE, OWNER, Stage, block_on, request},
    tally,
};

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Kept things outlive their session and any sweep, and no longer than their stamp.
pub(crate) fn kept_things() {
    let stage = Stage::new();
    let session = stage.session();
    let now = stage.clock.now();
    let lasting = request().with_lifetime(Lifetime::Until(now.after(WEEK)), now).expect("a lifetime");
    let artifact = block_on(session.build(&stage.provider, lasting)).expect("an artifact");
    let for_session = block_on(session.build(&stage.provider, request())).expect("an artifact");
    let refused = block_on(for_session.keep("it is good")).expect_err("it was made for the session");
    assert_eq!(refused.code(), Code::CapabilityUnsupported);
    let artifact = block_on(artifact.keep("for the next run")).expect("kept");
    let report = block_on(session.close(CLOSE));
    assert_eq!((report.kept.len(), report.deleted.len()), (2, 2), "{report}");
    assert_eq!(stage.ledgers(), 0, "kept rows outlive the ledger elsewhere");

    let config: SessionConfig = stage.config();
    let second = Session::open(config).expect("a session");
    let sandbox =
        block_on(second.launch(&stage.provider, &artifact, LaunchOptions::default())).expect("a launch");
    assert!(block_on(second.close(CLOSE)).is_clean());
    let looked = stage.sweep(SweepOptions::look());
    assert_eq!(looked.kept.len(), 2, "what is kept is not shown: {looked:?}");
    stage.clock.advance(Duration::from_secs(2 * 24 * 3600));
    stage.sweep(SweepOptions::delete());
    assert_eq!(stage.world.holdings().len(), 2, "a kept thing was swept before its stamp");
    stage.clock.advance(WEEK);
    stage.sweep(SweepOptions::delete());
    assert!(
        stage.world.holdings().is_empty(),
        "a kept thing outlived its stamp: {:?}",
        stage.world.holdings()
    );
    let (kept, unreadable) = stage.state_folder().kept().expect("the kept things");
    assert!(kept.is_empty() && unreadable == 0, "{kept:?}");
    stage.assert_foreign_untouched();
    drop((sandbox, Arc::clone(&stage.provider)));
    tally::count("everything twice", "kept until its stamp, then swept", "cases");
}

/// An artifact of a session that is over.
fn keep_one(stage: &Stage) -> Artifact {
    let session = stage.session();
    let now = stage.clock.now();
    let lasting = request().with_lifetime(Lifetime::Until(now.after(WEEK)), now).expect("a lifetime");
    let artifact = block_on(session.build(&stage.provider, lasting)).expect("an artifact");
    let artifact = block_on(artifact.keep("for the proof")).expect("kept");
    assert!(block_on(session.close(CLOSE)).is_clean());
    artifact
}

fn delete_as(stage: &Stage, owner: &str, artifact: &Artifact) -> Result<TeardownReport> {
    let owner = Owner::new(owner).expect("a valid owner");
    let options = DeleteOptions::default().clock(Arc::new(stage.clock.clone()));
    let provider = Arc::clone(&stage.provider);
    block_on(delete_kept(stage.state_folder(), owner, provider, artifact.things(), options))
}

fn remembered(stage: &Stage) -> usize {
    stage.state_folder().kept().expect("the kept things").0.len()
}

/// A kept artifact is deleted by its record, with all that belongs to it, as often as asked, and nothing else is.
pub(crate) fn deleted_by_record() {
    for (name, case) in [
        ("deleted, then already gone", deleted_twice as fn()),
        ("without the folder that remembers it", from_another_machine),
        ("records of others and forged ones", forged_records),
        ("a delete that is refused, then allowed", stuck_then_gone),
        ("a caller that goes away", dropped),
    ] {
        case();
        tally::count("kept things", name, "cases");
    }
}

fn deleted_twice() {
    let stage = Stage::new();
    let artifact = keep_one(&stage);
    assert_eq!((artifact.intermediates.len(), remembered(&stage)), (1, 2));
    stage.sweep(SweepOptions::delete());
    assert_eq!(stage.world.holdings().len(), 2, "a sweep took a kept thing");
    let report = delete_as(&stage, OWNER, &artifact).expect("deleted");
    assert_eq!((report.deleted.len(), report.is_clean()), (2, true), "{report}");
    assert_eq!(report.deleted[0].kind, ResourceKind::Artifact, "parents go last: {report}");
    assert!(stage.world.holdings().is_empty());
    assert_eq!(remembered(&stage), 0);
    let again = delete_as(&stage, OWNER, &artifact).expect("nothing to do");
    assert_eq!((again.already_gone.len(), again.deleted.len()), (2, 0), "{again}");
    stage.assert_foreign_untouched();
}

fn from_another_machine() {
    let stage = Stage::new();
    let artifact = keep_one(&stage);
    std::fs::remove_file(stage.folder.path().join("kept.jsonl")).expect("it was there");
    let report = delete_as(&stage, OWNER, &artifact).expect("deleted");
    assert_eq!(report.deleted.len(), 2, "{report}");
    assert!(stage.world.holdings().is_empty());
}

fn forged_records() {
    let stage = Stage::new();
    let artifact = keep_one(&stage);
    let deletes = stage.world.calls().get(&Call::Delete).copied();
    let other = delete_as(&stage, "acmeother", &artifact).expect_err("another owner's");
    assert!(other.code() == Code::SpecInvalid && other.message().contains(OWNER), "{other}");
    let foreign = stage.world.add_foreign(ResourceKind::Artifact, Some("px-acme"));
    let mut forged = artifact.clone();
    // Somebody else's id under a name of ours.
    forged.thing.id = foreign;
    let refused = delete_as(&stage, OWNER, &forged).expect_err("not what the name says");
    assert_eq!(refused.code(), Code::NameTaken, "{refused}");
    // What another run keeps, as if it belonged to this one.
    let other = keep_one(&stage);
    let mut both = artifact.clone();
    both.intermediates.push(other.thing.clone());
    assert_eq!(delete_as(&stage, OWNER, &both).expect_err("of two runs").code(), Code::SpecInvalid);
    forged.thing.name = Some("px-acme".into());
    assert_eq!(delete_as(&stage, OWNER, &forged).expect_err("no mark").code(), Code::SpecInvalid);
    let mut elsewhere = artifact.clone();
    elsewhere.thing.account = "another".into();
    assert_eq!(delete_as(&stage, OWNER, &elsewhere).expect_err("another account").code(), Code::SpecInvalid);
    assert_eq!(stage.world.calls().get(&Call::Delete).copied(), deletes, "something was deleted");
    assert!(stage.world.foreign_touched().is_empty());
    for kept in [artifact, other] {
        assert_eq!(delete_as(&stage, OWNER, &kept).expect("deleted").deleted.len(), 2);
    }
}

fn stuck_then_gone() {
    let stage = Stage::new();
    let artifact = keep_one(&stage);
    stage.world.inject(Fault::always(Call::Delete, FaultKind::Forbidden));
    let report = delete_as(&stage, OWNER, &artifact).expect("a report");
    assert_eq!((report.stuck.len(), report.is_clean()), (2, false), "{report}");
    assert_eq!(remembered(&stage), 2, "what is still there was forgotten");
    stage.world.heal();
    assert_eq!(delete_as(&stage, OWNER, &artifact).expect("deleted").deleted.len(), 2);
    assert_eq!(remembered(&stage), 0);
}

fn dropped() {
    let stage = Stage::new();
    let artifact = keep_one(&stage);
    let owner = Owner::new(OWNER).expect("a valid owner");
    let options = DeleteOptions::default().clock(Arc::new(stage.clock.clone()));
    let provider = Arc::clone(&stage.provider);
    // Begun by the first poll, and given up at once.
    let mut deletion =
        Box::pin(delete_kept(stage.state_folder(), owner, provider, artifact.things(), options));
    let _ = block_on(async { futures_util::poll!(&mut deletion) });
    drop(deletion);
    let report = delete_as(&stage, OWNER, &artifact).expect("deleted");
    assert_eq!(report.deleted.len() + report.already_gone.len(), 2, "{report}");
    assert!(stage.world.holdings().is_empty());
}
