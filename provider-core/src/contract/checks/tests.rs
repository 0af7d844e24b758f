use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::{
    contract::{
        LockedVersion,
        fixtures::{InstalledLanguage, MachineFacts, ScriptedMachine, ScriptedSandbox, Tamper, Tampered},
    },
    lifecycle::{ResourceKind, ResourceRef, control},
    memory::ManualClock,
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

/// Runs on the control thread, where a manual clock moves once nothing else can happen.
fn block_on<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let (done, wait) = std::sync::mpsc::channel();
    control::spawn(&control::handle().unwrap(), async move {
        let _ = done.send(future.await);
    });
    wait.recv_timeout(std::time::Duration::from_secs(60)).expect("a check hangs")
}

fn language() -> LanguageFacts {
    let packages = [("a-package", "1.2.3"), ("other", "2.0")];
    let locked = packages.map(|(name, version)| (name.to_owned(), vec![LockedVersion::always(version)]));
    LanguageFacts { version: ">=3.9,<4".into(), packages: locked.into() }
}

/// A machine with all that [`language`] asks for.
fn speaking() -> MachineFacts {
    MachineFacts { language: Some(InstalledLanguage::of(&language())), ..MachineFacts::default() }
}

/// Runs the tier over a sandbox after a change of the context.
fn tier_with(
    sandbox: Arc<dyn Sandbox>,
    change: impl FnOnce(&mut CheckContext<'_>) + Send + 'static,
) -> Vec<CheckResult> {
    block_on(async move {
        let secrets = secrets();
        let mut context = CheckContext::new(&sandbox, &secrets);
        context.metadata = vec![("label owner".into(), "someone".into())];
        context.clock = Arc::new(ManualClock::new());
        change(&mut context);
        let results = run_core_tier(&context).await;
        let everything = format!("{results:?} {} {context:?}", serde_json::to_string(&results).unwrap());
        assert!(!everything.contains("canary"), "a secret is shown: {everything}");
        results
    })
}

fn tier(sandbox: Arc<dyn Sandbox>) -> Vec<CheckResult> {
    tier_with(sandbox, |_| {})
}

fn tier_of_language(sandbox: Arc<dyn Sandbox>) -> Vec<CheckResult> {
    tier_with(sandbox, |context| context.language = Some(language()))
}

fn with_status(results: &[CheckResult], status: Status) -> Vec<&str> {
    results.iter().filter(|result| result.status == status).map(|result| result.id.as_str()).collect()
}

fn failed(results: &[CheckResult]) -> Vec<&str> {
    with_status(results, Status::Failed)
}

fn result<'a>(results: &'a [CheckResult], id: &str) -> &'a CheckResult {
    results.iter().find(|result| result.id == id).unwrap()
}

#[test]
fn a02_the_tier_is_the_table_in_order() {
    let all: Vec<_> = CORE_TIER.iter().map(|check| check.id).collect();
    let written = "core.doctor core.identity core.python core.kernel core.imports core.filesystem core.restart \
                   core.shutdown core.secrets";
    assert_eq!(all.join(" "), written);
    let results = tier_of_language(machine(speaking()));
    assert_eq!(with_status(&results, Status::Passed), all, "{results:#?}");
}

#[test]
fn a02_without_a_language_the_checks_about_one_are_neither_passed_nor_failed() {
    for facts in [MachineFacts::default(), MachineFacts { language: None, ..speaking() }] {
        let results = tier(machine(facts));
        let not_asked = with_status(&results, Status::NotAsked);
        assert_eq!(not_asked, [ids::PYTHON, ids::KERNEL, ids::IMPORTS, ids::RESTART], "{results:#?}");
        assert_eq!(with_status(&results, Status::Passed).len(), CORE_TIER.len() - 4, "{results:#?}");
        let kernel = result(&results, ids::KERNEL);
        assert!(!kernel.passed() && !kernel.failed() && kernel.summary.contains("names no language"));
        assert!(kernel.to_string().starts_with("core.kernel not asked: "));
    }
}

#[test]
fn a02_a_language_that_is_named_and_not_there_fails_in_every_check_of_it() {
    let results = tier_of_language(machine(MachineFacts::default()));
    let expected = [ids::DOCTOR, ids::PYTHON, ids::KERNEL, ids::IMPORTS, ids::RESTART];
    assert_eq!(failed(&results), expected, "{results:#?}");
}

#[test]
fn a02_a71_a75_each_fault_makes_exactly_its_check_fail() {
    let secret = Secret::new(CANARY);
    for language in [None, Some(language())] {
        let faults = Tamper::all(&SANDBOX_V1, language.as_ref(), &secret);
        for check in CORE_TIER.iter().filter(|check| language.is_some() || !check.needs_language) {
            let own = faults.iter().filter(|fault| fault.fails() == check.id).count();
            assert!(own > 3, "{} has no fault of its own", check.id);
        }
        for fault in faults {
            let id = fault.fails();
            let name = format!("{fault:?}");
            let facts = if language.is_some() { speaking() } else { MachineFacts::default() };
            let sandbox = Arc::new(Tampered::new(machine(facts), &SANDBOX_V1, fault));
            let asked = language.clone();
            let results = tier_with(sandbox, |context| context.language = asked);
            assert_eq!(failed(&results), [id], "{name}: {results:#?}");
            assert_eq!(results.len(), CORE_TIER.len(), "{name}: a check did not run");
            assert!(!results.iter().any(|result| result.summary.contains('\n')), "{results:#?}");
        }
    }
}

#[test]
fn a04_every_row_of_the_doctor_has_a_fault() {
    let secret = Secret::new(CANARY);
    let faults = Tamper::all(&SANDBOX_V1, Some(&language()), &secret);
    let rows: Vec<_> = faults
        .iter()
        .filter_map(|fault| match fault {
            Tamper::DoctorRow(row) => Some(*row),
            _ => None,
        })
        .collect();
    assert_eq!(rows, Row::ALL);
}

#[test]
fn a66_a_lost_reply_fails_the_check_by_time() {
    let sandbox = Tampered::new(machine(speaking()), &SANDBOX_V1, Tamper::KernelReplyLost);
    let results = tier_of_language(Arc::new(sandbox));
    let kernel = result(&results, ids::KERNEL);
    assert!(kernel.failed() && kernel.summary.contains("did not answer the interrupt"), "{kernel:#?}");
}

#[test]
fn what_the_environment_says_of_its_language_must_be_readable() {
    for version in ["three", ">=3.9 or so"] {
        let results = tier_with(machine(speaking()), move |context| {
            context.language = Some(LanguageFacts { version: version.into(), ..language() });
        });
        assert_eq!(failed(&results), [ids::PYTHON], "{results:#?}");
    }
    let results = tier_with(machine(speaking()), |context| {
        let mut facts = language();
        facts.version = ">=3.13".into();
        facts.packages.insert("third".into(), Vec::new());
        context.language = Some(facts);
    });
    assert_eq!(failed(&results), [ids::PYTHON, ids::IMPORTS], "{results:#?}");
}

#[test]
fn a_machine_that_breaks_its_contract_fails_in_every_check_concerned() {
    let doctor_and = |id| vec![ids::DOCTOR, id];
    let mut facts = MachineFacts::default();
    facts.identity.uids = [0; 4];
    assert_eq!(failed(&tier(machine(facts))), doctor_and(ids::IDENTITY));
    let facts = MachineFacts { reserved_writable: true, ..MachineFacts::default() };
    assert_eq!(failed(&tier(machine(facts))), doctor_and(ids::FILESYSTEM));
    let mut facts = MachineFacts::default();
    facts.files.insert(format!("/etc/{CANARY}.conf"), b"x".to_vec());
    assert_eq!(failed(&tier(machine(facts))), [ids::SECRETS]);
}

#[test]
fn a_failure_lists_each_mismatch() {
    let mut facts = MachineFacts::default();
    facts.identity.uids = [1001; 4];
    facts.identity.home = "/root".into();
    let results = tier(machine(facts));
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
        let results =
            tier_with(Arc::new(sandbox), move |context| context.groups_cannot_be_dropped = declared);
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
    let fails = |machine_has: bool, environment_names: bool| {
        let facts = if machine_has { speaking() } else { MachineFacts::default() };
        let results = tier_with(machine(facts), move |context| {
            context.language = environment_names.then(language);
        });
        result(&results, ids::DOCTOR).failed()
    };
    assert_eq!((fails(false, false), fails(true, true)), (false, false));
    assert_eq!((fails(false, true), fails(true, false)), (true, true));
}

#[test]
fn the_doctor_must_expect_what_the_contract_says() {
    let other = Contract { reap_within: std::time::Duration::from_secs(900), ..SANDBOX_V1 };
    let facts = MachineFacts { contract: other, ..MachineFacts::default() };
    assert_eq!(failed(&tier(machine(facts))), [ids::DOCTOR]);
}

#[test]
fn a75_a_secret_in_metadata_is_found_plain_and_escaped_and_not_shown() {
    for text in [
        format!("--build-arg TOKEN={CANARY}"),
        serde_json::to_string(&[CANARY]).unwrap(),
        format!("{CANARY:?}"),
    ] {
        let results = tier_with(machine(MachineFacts::default()), |context| {
            context.metadata.push(("build log".into(), text));
        });
        assert_eq!(failed(&results), [ids::SECRETS]);
        let summary = &result(&results, ids::SECRETS).summary;
        assert!(summary.contains("\"a-token\"") && summary.contains("build log"));
    }
    let results = tier_with(machine(MachineFacts::default()), |context| {
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
    let results = tier(machine(facts));
    assert_eq!(failed(&results), [ids::DOCTOR, ids::IDENTITY, ids::SECRETS]);
    assert!(format!("{results:?}").contains("[secret]"));
}

#[test]
fn without_secrets_the_check_says_so() {
    let result = block_on(async {
        let (sandbox, none) = (machine(MachineFacts::default()), SecretSet::new());
        let context = CheckContext::new(&sandbox, &none);
        assert!(run_check("core.nothing", &context).await.is_none());
        run_check(ids::SECRETS, &context).await.unwrap()
    });
    assert!(result.passed() && result.summary.contains("no secrets"), "{result:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a66_the_checks_of_code_sessions_pass_with_a_real_interpreter_and_fail_with_their_faults() {
    use crate::contract::host::{HostSandbox, has_python};
    if !has_python() {
        return;
    }
    let run = |fault: Option<Tamper>| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let host: Arc<dyn Sandbox> = Arc::new(HostSandbox::new());
            let sandbox: Arc<dyn Sandbox> = match fault {
                Some(fault) => Arc::new(Tampered::new(host, &SANDBOX_V1, fault)),
                None => host,
            };
            let none = SecretSet::new();
            let mut context = CheckContext::new(&sandbox, &none);
            context.language = Some(LanguageFacts { version: ">=3.8".into(), ..LanguageFacts::default() });
            let mut failed = Vec::new();
            for id in [ids::KERNEL, ids::RESTART, ids::IMPORTS] {
                let result = run_check(id, &context).await.unwrap();
                if !result.passed() {
                    failed.push((id, result.summary));
                }
            }
            failed
        })
    };
    assert_eq!(run(None), []);
    for fault in [Tamper::KernelForgets, Tamper::RestartLeavesChild, Tamper::RestartCannotKill] {
        let id = fault.fails();
        let failed = run(Some(fault));
        assert!(failed.len() == 1 && failed[0].0 == id, "{failed:?}");
    }
}
