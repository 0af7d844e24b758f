//! Signals, orphans, and the end of everything.

use super::common::*;
use provider_local::engine::{EngineError, Exit, Identity, RunningBox, SignalScope};
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

const KILL: i32 = 9;
const TERM: i32 = 15;

/// How many processes inside the box have this text in their command lines, the asking ones left out.
fn count(running: &RunningBox, text: &str) -> usize {
    let script = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null";
    say(running, script).out.lines().filter(|line| line.contains(text)).count()
}

/// Waits for a line from the command, which it writes when everything of it is there.
fn wait_for_line(stdout: &mut File) {
    let mut byte = [0];
    while byte != *b"\n" {
        stdout.read_exact(&mut byte).expect("a line");
    }
}

pub(crate) fn a_tree_is_killed_with_its_grandchildren() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    // A child, a grandchild handed to process 1 within the session, and a child in a session of its own.
    let script =
        "trap '' TERM; sleep 7001 & (sleep 7001 & exec true); setsid sleep 7001 & echo go; wait; sleep 7001";
    let process = spawn(&running, &shell(script, Identity::SANDBOX));
    let mut stdout = File::from(process.stdout);
    wait_for_line(&mut stdout);
    wait_until("all sleep", || count(&running, "sleep 7001") >= 4);
    running.signal(process.id, KILL, SignalScope::Tree)?;
    assert_eq!(process.exit.wait()?, Exit::Signal(KILL));
    assert_eq!(count(&running, "sleep 7001"), 0);
    assert_eq!(read_all(stdout), "");
    let again = running.signal(process.id, KILL, SignalScope::Tree);
    assert!(matches!(again, Err(EngineError::NoProcess)), "{again:?}");
    Ok(())
}

pub(crate) fn a_tree_outlives_its_command_and_is_still_found() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let process = spawn(&running, &shell("sleep 7002 & exit 0", Identity::SANDBOX));
    assert_eq!(process.exit.wait()?, Exit::Code(0));
    // It may still be on its way from fork to exec.
    wait_until("it sleeps", || count(&running, "sleep 7002") == 1);
    let gone = running.signal(process.id, KILL, SignalScope::Process);
    assert!(matches!(gone, Err(EngineError::NoProcess)), "{gone:?}");
    running.signal(process.id, KILL, SignalScope::Tree)?;
    assert_eq!(count(&running, "sleep 7002"), 0);
    let unknown = running.signal(9999, KILL, SignalScope::Tree);
    assert!(matches!(unknown, Err(EngineError::NoProcess)), "{unknown:?}");
    Ok(())
}

pub(crate) fn one_process_alone_can_be_signalled() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let script = "trap 'echo caught; exit 9' TERM; sleep 7003 & echo go; wait";
    let process = spawn(&running, &shell(script, Identity::SANDBOX));
    let mut stdout = File::from(process.stdout);
    wait_for_line(&mut stdout);
    let bad = running.signal(process.id, 1000, SignalScope::Process);
    assert!(matches!(bad, Err(EngineError::Signal { .. })), "{bad:?}");
    running.signal(process.id, TERM, SignalScope::Process)?;
    assert_eq!(process.exit.wait()?, Exit::Code(9));
    wait_for_line(&mut stdout);
    assert_eq!(count(&running, "sleep 7003"), 1);
    Ok(())
}

pub(crate) fn orphans_are_reaped() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    say(&running, "for i in 1 2 3 4 5 6 7 8; do (true & exec true) & done; wait").ok();
    let zombies = "grep -h '^State:' /proc/[0-9]*/status | grep -c Z";
    wait_until("no zombie is left", || say(&running, zombies).out.trim() == "0");
    Ok(())
}

pub(crate) fn stop_gives_a_grace_and_then_kills() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let polite = spawn(
        &running,
        &shell("trap 'echo bye; exit 7' TERM; echo go; while :; do sleep 0.01; done", Identity::SANDBOX),
    );
    let stubborn =
        spawn(&running, &shell("trap '' TERM; echo go; while :; do sleep 0.01; done", Identity::SANDBOX));
    let mut polite_out = File::from(polite.stdout);
    let mut stubborn_out = File::from(stubborn.stdout);
    wait_for_line(&mut polite_out);
    wait_for_line(&mut stubborn_out);
    let start = Instant::now();
    running.stop(Duration::from_millis(300))?;
    assert!(start.elapsed() >= Duration::from_millis(300) && start.elapsed() < Duration::from_secs(5));
    assert_eq!((polite.exit.wait()?, stubborn.exit.wait()?), (Exit::Code(7), Exit::Signal(KILL)));
    assert_eq!(read_all(polite_out), "bye\n");
    // With nobody who needs it, the grace is not waited for.
    let running = world.run(small_base());
    let start = Instant::now();
    running.stop(Duration::from_secs(10))?;
    assert!(start.elapsed() < Duration::from_secs(5));
    world.assert_clean();
    Ok(())
}

pub(crate) fn forking_processes_cannot_escape_a_kill() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    // Each generation starts the next and ends.
    let script = "echo 'sh /tmp/next 7004 & exit' >/tmp/next; sh /tmp/next 7004 & echo go; wait; sleep 1000";
    let process = spawn(&running, &shell(script, Identity::SANDBOX));
    let mut stdout = File::from(process.stdout);
    wait_for_line(&mut stdout);
    running.signal(process.id, KILL, SignalScope::Tree)?;
    assert_eq!(process.exit.wait()?, Exit::Signal(KILL));
    assert_eq!(read_all(stdout), "");
    assert_eq!(count(&running, "/tmp/next"), 0);
    Ok(())
}

pub(crate) fn the_first_process_is_out_of_reach() -> Outcome {
    let world = World::new();
    for base in both_bases() {
        let running = world.run(base);
        let said =
            say(&running, "kill -9 1; kill -15 1; ls /proc/1/fd; cat /proc/1/mem; readlink /proc/1/exe");
        assert!(said.failed() && said.out.is_empty(), "{said:?}");
        assert!(running.is_alive());
    }
    Ok(())
}
