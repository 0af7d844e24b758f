//! Ledgers and state folders that are damaged, foreign, full or contested.

use std::{
    fs,
    io::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use libtest_mimic::{Failed, Trial};
use provider_core::{
    error::Code,
    lifecycle::{
        Clock, Session, Timestamp, ledger,
        sweep::{SweepOptions, sweep},
    },
    memory::ManualClock,
};

use crate::{
    gates::leave_a_ledger,
    stage::{CLOSE, Stage, block_on, leg},
    tally,
};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &'static str, body: fn()| {
        Trial::test(format!("hostile_ledger::{name}"), move || {
            body();
            tally::count("hostile ledger", name, "cases");
            Ok::<(), Failed>(())
        })
    };
    let full_disk = Trial::ignorable_test("hostile_ledger::disk_full", || {
        if !rustix::process::geteuid().is_root() {
            return Ok(libtest_mimic::Completion::ignored_with(
                "only the superuser can mount a small file system",
            ));
        }
        disk_full();
        tally::count("hostile ledger", "disk_full", "cases");
        Ok(libtest_mimic::Completion::Completed)
    });
    vec![
        trial("torn_last_line", torn_last_line),
        trial("unreadable_line", unreadable_line),
        trial("unknown_version", unknown_version),
        trial("another_account", another_account),
        trial("folder_not_writable", folder_not_writable),
        trial("newborn_race", newborn_race),
        trial("clock_jumps", clock_jumps),
        full_disk,
    ]
}

fn the_ledger(stage: &Stage) -> std::path::PathBuf {
    let ledgers = ledger::files(&stage.state_folder()).expect("the ledgers");
    assert_eq!(ledgers.len(), 1, "{ledgers:?}");
    ledgers.into_iter().next().expect("one ledger")
}

/// Every cut of the last line, byte by byte.
fn torn_last_line() {
    for cut in [1, 2, 10, 40] {
        let stage = Stage::new();
        leave_a_ledger(&stage);
        let path = the_ledger(&stage);
        let whole = fs::read(&path).expect("the ledger");
        fs::write(&path, &whole[..whole.len() - cut]).expect("a torn ledger");
        let looked = stage.sweep(SweepOptions::look());
        assert!(looked.damage.iter().any(|damage| damage.reason.contains("last line")), "{looked:?}");
        assert_eq!(
            fs::read(&path).expect("the ledger").len(),
            whole.len() - cut,
            "looking changed the ledger"
        );
        stage.assert_sweep_cleans();
    }
}

fn unreadable_line() {
    let stage = Stage::new();
    leave_a_ledger(&stage);
    let path = the_ledger(&stage);
    let text = fs::read_to_string(&path).expect("the ledger");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(2, "{\"row\":\"from the future\"}");
    fs::write(&path, lines.join("\n") + "\n").expect("a ledger with a strange line");
    stage.clock.advance(Duration::from_secs(2 * 3600));
    let swept = stage.sweep(SweepOptions::delete());
    // It may name something, so the sweep is not clean, and the ledger stays.
    let named = swept.not_swept.iter().any(|left| left.reason.contains("line 3"));
    assert!(named && !swept.is_clean(), "{swept:?}");
    assert!(stage.world.holdings().is_empty(), "{swept:?}");
    assert!(path.exists(), "a ledger that could not be read whole was thrown away");
    stage.assert_foreign_untouched();
}

fn unknown_version() {
    let stage = Stage::new();
    leave_a_ledger(&stage);
    let path = the_ledger(&stage);
    let text = fs::read_to_string(&path).expect("the ledger");
    for strange in [text.replacen("\"version\":1", "\"version\":2", 1), "garbage\n".to_owned(), String::new()]
    {
        fs::write(&path, &strange).expect("a strange ledger");
        let swept = stage.sweep(SweepOptions::delete());
        assert_eq!(swept.not_swept.len(), 1, "{swept:?}");
        assert!(!swept.is_clean() && swept.result.deleted.is_empty(), "{swept:?}");
        assert_eq!(fs::read_to_string(&path).expect("the ledger"), strange, "it was changed");
    }
    fs::write(&path, text).expect("the old ledger");
    stage.assert_sweep_cleans();
}

fn another_account() {
    let stage = Stage::new();
    leave_a_ledger(&stage);
    let other = Stage::new();
    fs::copy(the_ledger(&stage), other.folder.path().join("ledgers").join("x.jsonl"))
        .or_else(|_| {
            other.state_folder().create().expect("a folder");
            fs::copy(the_ledger(&stage), other.folder.path().join("ledgers").join("x.jsonl"))
        })
        .expect("the ledger in the hands of another account");
    let swept = other.sweep(SweepOptions::delete());
    assert_eq!(swept.not_swept.len(), 5, "{swept:?}");
    assert!(swept.not_swept.iter().all(|left| left.reason.contains("account")), "{swept:?}");
    assert_eq!(other.ledgers(), 1, "the only record of these things was thrown away");
    stage.assert_sweep_cleans();
}

fn folder_not_writable() {
    let stage = Stage::new();
    let file = stage.folder.path().join("a-file");
    fs::write(&file, "").expect("a file");
    let mut places = vec![file.join("below-a-file"), Path::new("/proc/no/such").to_owned()];
    if !rustix::process::geteuid().is_root() {
        let closed = stage.folder.path().join("closed");
        fs::create_dir(&closed).expect("a folder");
        fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o500))
            .expect("a closed folder");
        places.push(closed.join("state"));
    }
    for place in places {
        let error = Session::open(stage.config().state_folder(&place)).expect_err("no place for a ledger");
        assert_eq!(error.code(), Code::LedgerUnavailable, "{error}");
        assert!(error.to_string().contains(&place.display().to_string()), "{error}");
    }
    assert_eq!(stage.world.created(), 0);
}

/// A sweeper takes what looks abandoned while sessions are being born.
fn newborn_race() {
    let stage = Stage::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    stage.sweep(SweepOptions::delete());
                }
            });
        }
        for _ in 0..150 {
            let session = stage.session();
            let path = stage.folder.path().join("ledgers").join(format!("{}.jsonl", session.run()));
            assert!(path.exists(), "the ledger of a living session was taken");
            assert!(block_on(session.close(CLOSE)).is_clean());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(stage.ledgers(), 0);
}

/// A clock that goes as another one does, some hours before or after it.
#[derive(Debug)]
struct Shifted {
    clock: ManualClock,
    hours: i64,
}

#[async_trait::async_trait]
impl Clock for Shifted {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.now().as_millis().saturating_add_signed(self.hours * 3_600_000))
    }

    async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }
}

/// The machine's clock was set between the session and the sweep. What the ledger says was made is deleted all the
/// same; by its mark alone nothing goes that a wrong clock calls expired within the margin.
fn clock_jumps() {
    for hours in [-48, 48] {
        let stage = Stage::new();
        leave_a_ledger(&stage);
        let owner = provider_core::names::Owner::new(crate::stage::OWNER).expect("a valid owner");
        let options = SweepOptions::delete().clock(Arc::new(Shifted { clock: stage.clock.clone(), hours }));
        let swept =
            block_on(sweep(stage.state_folder(), Some(owner), stage.registry(), options)).expect("a sweep");
        assert!(swept.result.deleted.len() >= 3 && swept.result.stuck.is_empty(), "{hours}: {swept:?}");
        stage.assert_sweep_cleans();
    }
}

fn disk_full() {
    let stage = Stage::new();
    let disk = tempfile::tempdir().expect("a folder");
    let mount = |arguments: &[&str]| {
        let done = std::process::Command::new(arguments[0]).args(&arguments[1..]).arg(disk.path()).status();
        assert!(done.is_ok_and(|status| status.success()), "{arguments:?}");
    };
    mount(&["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs"]);
    let filled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let session =
            Session::open(stage.config().state_folder(disk.path().join("state"))).expect("a session");
        let first = block_on(leg(&session, &stage.provider)).expect("a leg while there is room");
        let ballast = disk.path().join("ballast");
        let mut file = fs::File::create(&ballast).expect("a file");
        while file.write_all(&[0; 256]).is_ok() {}
        let before = stage.world.created();
        // A row may still fit into the last page; then the next does not.
        let mut refused = None;
        for _ in 0..40 {
            if let Err(error) = block_on(leg(&session, &stage.provider)) {
                refused = Some(error);
                break;
            }
        }
        let refused = refused.expect("a full disk refuses the next create");
        assert_eq!(refused.code(), Code::LedgerUnavailable, "{refused}");
        assert!(refused.to_string().contains("ledger"), "{refused}");
        assert!(stage.world.created() >= before);
        // Deleting needs no row.
        let report = block_on(session.close(CLOSE));
        assert!(report.is_clean(), "{report}");
        assert!(stage.world.holdings().is_empty(), "{report}");
        drop(first);

        while file.write_all(&[0; 256]).is_ok() {}
        let error = Session::open(stage.config().state_folder(disk.path().join("other")));
        assert_eq!(error.expect_err("no room for a ledger").code(), Code::LedgerUnavailable);
        drop(file);
        fs::remove_file(&ballast).expect("room again");
        assert!(
            block_on(
                Session::open(stage.config().state_folder(disk.path().join("other")))
                    .expect("a session")
                    .close(CLOSE)
            )
            .is_clean()
        );
    }));
    mount(&["umount"]);
    if let Err(panic) = filled {
        std::panic::resume_unwind(panic);
    }
}
