//! The contract from outside the crate: its page, and what needs a process of its own that stands in for PID 1.

#![allow(clippy::unwrap_used, reason = "a test may end with a panic")]

use std::{sync::Arc, time::Duration};

use provider_core::{
    contract::{
        LanguageFacts, LockedVersion,
        checks::{CORE_TIER, CheckContext, Status, run_core_tier},
        docs::contract_md,
        fixtures::{InstalledLanguage, MachineFacts},
    },
    environment::{BasePin, BuildRequest, Environment, EnvironmentSpec, Lockfile},
    lifecycle::{Clock, Session, SessionConfig},
    memory::{ManualClock, MemoryProvider, Pace, World},
    provider::Provider,
    secret::SecretSet,
};

/// `CONTRACT.md` is generated. Where it differs, the new text is written beside the test's output, to be copied.
#[test]
fn a03_contract_md_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../CONTRACT.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    if page != contract_md() {
        let fresh = concat!(env!("CARGO_TARGET_TMPDIR"), "/CONTRACT.md");
        std::fs::write(fresh, contract_md()).unwrap();
        panic!("CONTRACT.md is not what the contract says; the new text: cp {fresh} {path}");
    }
}

/// A sandbox of the provider in memory, through a session.
#[tokio::test]
async fn a02_the_provider_in_memory_passes_the_tier_with_and_without_a_language() {
    let packages = [("a-package".to_owned(), vec![LockedVersion::always("1.2.3")])];
    let named = LanguageFacts { version: ">=3.9".into(), packages: packages.into() };
    for language in [None, Some(named)] {
        let folder = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new());
        let world = World::new(Arc::clone(&clock), Pace::SLOW);
        let installed = language.as_ref().map(InstalledLanguage::of);
        let facts = MachineFacts { language: installed, ..MachineFacts::default() };
        let memory: Arc<dyn Provider> =
            Arc::new(MemoryProvider::new(&world, Arc::clone(&clock)).with_facts(facts));
        let environment = Environment::new(EnvironmentSpec::named("tier"), None).unwrap();
        let base = BasePin::unpinned("memory", "any").unwrap();
        let lockfile = Lockfile::without_packages();
        let request = BuildRequest::new(environment, lockfile, base, SecretSet::new()).unwrap();
        let session =
            Session::open(SessionConfig::new("contract").state_folder(folder.path()).clock(clock)).unwrap();
        let artifact = session.build(&memory, request).await.unwrap();
        let sandbox = session.launch(&memory, &artifact, Default::default()).await.unwrap();
        let none = SecretSet::new();
        let mut context = CheckContext::new(&sandbox, &none);
        context.language = language;
        let results = run_core_tier(&context).await;
        for (check, result) in CORE_TIER.iter().zip(&results) {
            let is_asked = context.names_language() || !check.needs_language;
            let expected = if is_asked { Status::Passed } else { Status::NotAsked };
            assert_eq!((result.id.as_str(), result.status), (check.id, expected), "{results:#?}");
        }
        assert_eq!(results.len(), CORE_TIER.len());
        assert!(session.close(Duration::from_secs(60)).await.is_clean());
    }
}

#[cfg(target_os = "linux")]
mod contract_init {
    use std::{
        path::Path,
        process::{Child, Command, Stdio},
        sync::atomic::{AtomicBool, AtomicUsize, Ordering},
        time::{Duration, Instant},
    };

    use provider_core::{
        contract::{
            Contract, Row, SANDBOX_V1,
            doctor::{DoctorReport, RowReport, RowStatus, script},
            probe::Shutdown,
        },
        sandbox::{ExitStatus, Output},
    };
    use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

    /// Starts the doctor, asked only about PID 1.
    fn start(folder: &Path, limit: Duration) -> Child {
        let path = folder.join("doctor");
        let contract = Contract { reap_within: limit, ..SANDBOX_V1 };
        std::fs::write(&path, script(&contract, &[Row::Init])).unwrap();
        Command::new("/bin/sh").arg(path).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// The doctor's exit code and its row.
    fn finish(doctor: Child) -> (Option<i32>, RowReport) {
        let output = doctor.wait_with_output().unwrap();
        let report = DoctorReport::parse(&output.stdout).unwrap();
        (output.status.code(), report.rows.into_iter().find(|row| row.row == Row::Init).unwrap())
    }

    /// The children of this process that ended and wait for their status to be taken.
    fn zombies() -> Vec<Pid> {
        let own = format!("Z {} ", getpid().as_raw_nonzero());
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        numbers
            .filter(|number| {
                let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
                stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(&own))
            })
            .filter_map(Pid::from_raw)
            .collect()
    }

    /// This process stands in for PID 1: orphans among its descendants become its children. First it does not take
    /// their status, then it does.
    #[test]
    fn a04_the_row_init_fails_where_orphans_are_not_reaped() {
        let _turn = TURN.lock().unwrap();
        let folder = tempfile::tempdir().unwrap();
        set_child_subreaper(Some(getpid())).unwrap();
        let begin = Instant::now();
        let (code, row) = finish(start(folder.path(), Duration::from_secs(1)));
        let took = begin.elapsed();
        assert_eq!((code, row.status), (Some(1), RowStatus::Fail), "{row:?}");
        assert!(row.found.contains("was not reaped in 1 s"), "{row:?}");
        assert!(took > Duration::from_secs(1) && took < Duration::from_secs(20), "{took:?}");
        let left = zombies();
        assert_eq!(left.len(), 1, "the doctor's orphan waits here");
        left.into_iter().for_each(reap);

        let doctor = start(folder.path(), SANDBOX_V1.reap_within);
        let own = doctor.id();
        let (done, reaped) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (code, row) = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // The doctor's own status is for the one who started it.
                    for pid in
                        zombies().into_iter().filter(|pid| pid.as_raw_nonzero().get().cast_unsigned() != own)
                    {
                        reap(pid);
                        reaped.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            let answer = finish(doctor);
            done.store(true, Ordering::Relaxed);
            answer
        });
        set_child_subreaper(None).unwrap();
        assert_eq!((code, row.status), (Some(0), RowStatus::Pass), "{row:?}");
        assert_eq!(reaped.into_inner(), 1, "the orphan did not come here");
    }

    /// The same for the group of processes that is asked to end. The two tests take turns, since there is one process.
    #[test]
    fn a02_a_group_that_is_not_reaped_is_told() {
        let _turn = TURN.lock().unwrap();
        set_child_subreaper(Some(getpid())).unwrap();
        let second = Duration::from_secs(1);
        let contract = Contract { stop_within: second, reap_within: second, ..SANDBOX_V1 };
        let words = Shutdown::command(&contract).program.argv();
        let output = Command::new(&words[0]).args(&words[1..]).output().unwrap();
        set_child_subreaper(None).unwrap();
        let seen = Shutdown::parse(&Output::new(ExitStatus::Code(0), output.stdout, output.stderr)).unwrap();
        let left = zombies();
        left.iter().copied().for_each(reap);
        assert_eq!((seen.members, seen.outlived), (Shutdown::MEMBERS, 0), "{seen:?}");
        assert!(left.len() == 2 && seen.zombies >= 2, "child and grandchild wait here: {left:?} {seen:?}");
    }

    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn reap(pid: Pid) {
        waitpid(Some(pid), WaitOptions::empty()).unwrap();
    }
}
