use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::{
    contract::fixtures::{MachineFacts, ScriptedMachine, ScriptedSandbox, Tamper, Tampered},
    lifecycle::{ResourceKind, ResourceRef},
    names::ProviderId,
    secret::Secret,
};

const CANARY: &str = "canary \"4711\" \\x é";

fn secrets() -> SecretSet {
    let mut set = SecretSet::new();
    set.insert("a-token", CANARY).unwrap();
    set.insert("b-token", "another-canary-0815").unwrap();
    set
}

fn machine(facts: MachineFacts) -> Arc<dyn Sandbox> {
    let reference = ResourceRef {
        kind: ResourceKind::Sandbox,
        provider: ProviderId::new("scripted").unwrap(),
        account: "none".into(),
        endpoint: "none".into(),
        id: "1".into(),
        name: None,
        details: BTreeMap::new(),
    };
    Arc::new(ScriptedSandbox::new(reference, ScriptedMachine::new(facts)))
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Runs the tier over a sandbox after a change of the context.
fn tier_with(sandbox: &dyn Sandbox, change: impl FnOnce(&mut CheckContext<'_>)) -> Vec<CheckResult> {
    let secrets = secrets();
    let mut context = CheckContext::new(sandbox, &secrets);
    context.metadata = vec![("label owner".into(), "someone".into())];
    change(&mut context);
    let results = block_on(run_core_tier(&context));
    let everything = format!("{results:?} {} {context:?}", serde_json::to_string(&results).unwrap());
    assert!(!everything.contains("canary"), "a secret is shown: {everything}");
    results
}

fn tier(sandbox: &dyn Sandbox) -> Vec<CheckResult> {
    tier_with(sandbox, |_| {})
}

fn failed(results: &[CheckResult]) -> Vec<&str> {
    results.iter().filter(|result| !result.passed()).map(|result| result.id.as_str()).collect()
}

#[test]
fn a02_the_tier_is_the_table_s_present_part_in_order() {
    let results = tier(&*machine(MachineFacts::default()));
    let ran: Vec<_> = results.iter().map(|result| result.id.as_str()).collect();
    let present: Vec<_> = CORE_TIER.iter().filter(|check| check.present).map(|check| check.id).collect();
    assert_eq!(ran, present);
    assert_eq!(failed(&results), Vec::<&str>::new(), "{results:#?}");
    let all: Vec<_> = CORE_TIER.iter().map(|check| check.id).collect();
    let written = "core.doctor core.identity core.python core.kernel core.imports core.filesystem core.restart \
                   core.shutdown core.secrets";
    assert_eq!(all.join(" "), written);
}

#[test]
fn a02_a71_a75_each_fault_makes_exactly_its_check_fail() {
    let secret = Secret::new(CANARY);
    let faults = Tamper::all(&SANDBOX_V1, &secret);
    for id in CORE_TIER.iter().filter(|check| check.present).map(|check| check.id) {
        let own = faults.iter().filter(|fault| fault.fails() == id).count();
        assert!(own > 3, "{id} has no fault of its own");
    }
    for fault in faults {
        let id = fault.fails();
        let name = format!("{fault:?}");
        let sandbox = Tampered::new(machine(MachineFacts::default()), &SANDBOX_V1, fault);
        let results = tier(&sandbox);
        assert_eq!(failed(&results), [id], "{name}: {results:#?}");
        assert_eq!(results.len(), 4, "{name}: a check did not run");
        assert!(!results.iter().any(|result| result.summary.contains('\n')), "{results:#?}");
    }
}

#[test]
fn a_machine_that_breaks_its_contract_fails_in_every_check_concerned() {
    let doctor_and = |id| vec![ids::DOCTOR, id];
    let mut facts = MachineFacts::default();
    facts.identity.uids = [0; 4];
    assert_eq!(failed(&tier(&*machine(facts))), doctor_and(ids::IDENTITY));
    let facts = MachineFacts { reserved_writable: true, ..MachineFacts::default() };
    assert_eq!(failed(&tier(&*machine(facts))), doctor_and(ids::FILESYSTEM));
    let mut facts = MachineFacts::default();
    facts.files.insert(format!("/etc/{CANARY}.conf"), b"x".to_vec());
    assert_eq!(failed(&tier(&*machine(facts))), [ids::SECRETS]);
}

#[test]
fn a_failure_lists_each_mismatch() {
    let mut facts = MachineFacts::default();
    facts.identity.uids = [1001; 4];
    facts.identity.home = "/root".into();
    let results = tier(&*machine(facts));
    let identity = results.iter().find(|result| result.id == ids::IDENTITY).unwrap();
    assert!(identity.details.contains(&"uid is 1001, the contract says 1000".to_owned()), "{identity:#?}");
    assert!(identity.details.contains(&"HOME is \"/root\", the contract says \"/home/sandbox\"".to_owned()));
    let doctor = results.iter().find(|result| result.id == ids::DOCTOR).unwrap();
    let rows: Vec<_> = doctor.details.iter().filter(|line| line.starts_with("row ")).collect();
    assert_eq!(rows.len(), 2, "uid and home: {doctor:#?}");
}

#[test]
fn groups_that_cannot_be_dropped_are_accepted_only_where_declared_and_unmapped() {
    let with = |groups: &[u32], declared: bool| {
        let sandbox =
            Tampered::new(machine(MachineFacts::default()), &SANDBOX_V1, Tamper::Groups(groups.to_vec()));
        let results = tier_with(&sandbox, |context| context.groups_cannot_be_dropped = declared);
        results.into_iter().find(|result| result.id == ids::IDENTITY).unwrap()
    };
    assert!(with(&[100], false).passed(), "the own group may be listed");
    assert!(!with(&[65534], false).passed());
    let accepted = with(&[100, 65534, 65534], true);
    assert!(accepted.passed());
    assert!(accepted.details.iter().any(|line| line.contains("cannot drop")), "{accepted:#?}");
    assert_eq!(accepted.details.len(), 1);
    assert!(!with(&[0], true).passed(), "a group that has a number is none of the caller's");
    assert!(!with(&[65534, 27], true).passed());
}

#[test]
fn the_doctor_must_have_been_asked_what_the_environment_names() {
    let language = |machine_has: bool, environment_names: bool| {
        let facts = MachineFacts { names_language: machine_has, ..MachineFacts::default() };
        failed(&tier_with(&*machine(facts), |context| context.names_language = environment_names)).len()
    };
    assert_eq!((language(false, false), language(true, true)), (0, 0));
    assert_eq!((language(false, true), language(true, false)), (1, 1));
}

#[test]
fn the_doctor_must_expect_what_the_contract_says() {
    let other = Contract { reap_within: std::time::Duration::from_secs(900), ..SANDBOX_V1 };
    let facts = MachineFacts { contract: other, ..MachineFacts::default() };
    assert_eq!(failed(&tier(&*machine(facts))), [ids::DOCTOR]);
}

#[test]
fn a75_a_secret_in_metadata_is_found_plain_and_escaped_and_not_shown() {
    for text in [
        format!("--build-arg TOKEN={CANARY}"),
        serde_json::to_string(&[CANARY]).unwrap(),
        format!("{CANARY:?}"),
    ] {
        let results = tier_with(&*machine(MachineFacts::default()), |context| {
            context.metadata.push(("build log".into(), text));
        });
        assert_eq!(failed(&results), [ids::SECRETS]);
        assert!(results[3].summary.contains("\"a-token\"") && results[3].summary.contains("build log"));
    }
    let results = tier_with(&*machine(MachineFacts::default()), |context| {
        context.metadata.push((format!("label {CANARY}"), String::new()));
    });
    assert_eq!(failed(&results), [ids::SECRETS]);
}

#[test]
fn a75_what_the_sandbox_says_is_shown_without_secrets() {
    let mut facts = MachineFacts::default();
    facts.failing_rows.insert(Row::Home, format!("/home/{CANARY}"));
    facts.identity.home = format!("/home/{CANARY}");
    facts.env_vars.insert("T".into(), CANARY.into());
    facts.files.insert(format!("/tmp/{CANARY}"), CANARY.into());
    let results = tier(&*machine(facts));
    assert_eq!(failed(&results), [ids::DOCTOR, ids::IDENTITY, ids::SECRETS]);
    assert!(format!("{results:?}").contains("[secret]"));
}

#[test]
fn without_secrets_the_check_says_so() {
    let sandbox = machine(MachineFacts::default());
    let none = SecretSet::new();
    let result = block_on(run_check(ids::SECRETS, &CheckContext::new(&*sandbox, &none))).unwrap();
    assert!(result.passed() && result.summary.contains("no secrets"), "{result:?}");
    assert!(block_on(run_check(ids::PYTHON, &CheckContext::new(&*sandbox, &none))).is_none());
}
