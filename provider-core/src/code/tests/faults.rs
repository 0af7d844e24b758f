//! Sessions whose driver does what no driver should. Time moves when nothing else can happen.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::io::AsyncWriteExt as _;

use super::{
    super::{frame::Kind, *},
    fake::{Drive, fake},
};
use crate::{
    error::{Code, Error, Result},
    lifecycle::{Clock as _, control},
    memory::ManualClock,
};

/// What a test sees: the answer to the first run, how long it took, and how often a tree was killed.
struct Seen {
    answer: Result<CodeOutput>,
    took: Duration,
    kills: usize,
    next: Option<Error>,
}

fn options(clock: &ManualClock) -> CodeOptions {
    CodeOptions { clock: Arc::new(clock.clone()), output_cap: 1000, ..CodeOptions::default() }
}

/// Starts a session and runs code, on the control thread, where time moves once nothing else can happen.
fn run_with(drive: Drive, dies: bool) -> Seen {
    on_control(async move {
        let (sandbox, kills) = fake(drive, dies);
        let clock = ManualClock::new();
        let began = clock.now();
        let mut session = match CodeSession::start(&sandbox, options(&clock)).await {
            Ok(session) => session,
            Err(error) => {
                let (took, kills) = (clock.now().since(began), kills.load(Ordering::SeqCst));
                return Seen { answer: Err(error), took, kills, next: None };
            }
        };
        let began = clock.now();
        let answer = session.run_within("code", Duration::from_secs(100)).await;
        let took = clock.now().since(began);
        let kills = kills.load(Ordering::SeqCst);
        Seen { answer, took, kills, next: session.run("more").await.err() }
    })
}

fn on_control<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (done, wait) = std::sync::mpsc::channel();
    control::spawn(&control::handle().unwrap(), async move {
        let _ = done.send(work.await);
    });
    wait.recv_timeout(Duration::from_secs(60)).expect("it hangs")
}

fn assert_lost(seen: &Seen) {
    let next = seen.next.as_ref().expect("the session goes on");
    assert_eq!(next.code(), Code::WrongState);
    assert!(next.advice().contains("restart"));
    assert_eq!(seen.kills, 1, "the tree was not killed");
}

#[test]
fn a66_a_lost_reply_is_an_error_within_limit_and_grace() {
    let seen = run_with(
        |mut peer| {
            Box::pin(async move {
                peer.begin().await;
                // The interrupt is read, and nothing is ever answered.
                peer.until(Kind::Interrupt).await;
                peer.next().await;
            })
        },
        true,
    );
    let error = seen.answer.as_ref().unwrap_err();
    assert_eq!((error.code(), error.effect()), (Code::Timeout, crate::error::Effect::Unknown));
    assert_eq!(seen.took, Duration::from_secs(105));
    assert_lost(&seen);
}

#[test]
fn a66_code_that_hangs_is_told_apart_from_a_driver_that_does() {
    let seen = run_with(
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.until(Kind::Interrupt).await;
                peer.send(run, Kind::Acknowledged, b"").await;
                peer.next().await;
            })
        },
        true,
    );
    let output = seen.answer.as_ref().unwrap();
    assert_eq!((output.end, output.stdout.as_slice()), (CodeEnd::Killed, &b"early"[..]));
    assert_lost(&seen);
}

#[test]
fn a66_a_driver_that_reads_nothing_is_given_up_in_time() {
    let seen = run_with(
        |mut peer| {
            Box::pin(async move {
                peer.greet().await;
                std::future::pending::<()>().await;
            })
        },
        true,
    );
    assert_eq!(seen.answer.as_ref().unwrap_err().code(), Code::Timeout);
    assert_lost(&seen);
}

#[test]
fn a66_a_tree_that_cannot_be_killed_is_an_error_and_no_hang() {
    let seen = run_with(
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.until(Kind::Interrupt).await;
                peer.send(run, Kind::Acknowledged, b"").await;
                peer.next().await;
            })
        },
        false,
    );
    let error = seen.answer.as_ref().unwrap_err();
    assert!(error.code() == Code::Timeout && error.message().contains("its end was not seen"), "{error}");
    assert_lost(&seen);
}

#[test]
fn a66_an_answer_that_is_cut_or_garbled_is_an_error_at_once() {
    let drives: [Drive; 8] = [
        // The stream ends between frames, and in the middle of one.
        |mut peer| {
            Box::pin(async move {
                peer.begin().await;
            })
        },
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                let nonce = peer.decoder.nonce().unwrap().to_owned();
                let _ = peer.output.write_all(format!("{nonce} 2 {run} D 1 3").as_bytes()).await;
            })
        },
        |mut peer| {
            Box::pin(async move {
                peer.begin().await;
                let _ = peer.output.write_all(b"Segmentation fault\n").await;
                peer.next().await;
            })
        },
        |mut peer| {
            Box::pin(async move {
                peer.begin().await;
                let _ = peer.output.write_all(&vec![b'x'; 1 << 20]).await;
                peer.next().await;
            })
        },
        // The answer to another run.
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.send(run + 1, Kind::Done, b"0").await;
                peer.next().await;
            })
        },
        // Frames that a driver does not send, or not so.
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.send(run, Kind::Run, b"0").await;
                peer.next().await;
            })
        },
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.send(run, Kind::Done, b"fine").await;
                peer.next().await;
            })
        },
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.send(run, Kind::Ended, b"code seven").await;
                peer.next().await;
            })
        },
    ];
    for (number, drive) in drives.into_iter().enumerate() {
        let seen = run_with(drive, true);
        let error = seen.answer.as_ref().unwrap_err();
        assert_eq!((error.code(), seen.took), (Code::StreamCut, Duration::ZERO), "{number}: {error}");
        assert_lost(&seen);
    }
}

#[test]
fn a66_gigantic_output_takes_no_more_memory_than_the_cap_and_does_not_stop_time() {
    let seen = run_with(
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                for _ in 0..300 {
                    peer.send(run, Kind::Stdout, &[b'x'; 3000]).await;
                    peer.send(run, Kind::Traceback, &[b'y'; 3000]).await;
                }
                peer.send(run, Kind::Done, b"2").await;
                peer.next().await;
            })
        },
        true,
    );
    let output = seen.answer.unwrap();
    assert!(output.truncated && output.stdout.len() == 1000, "{}", output.stdout.len());
    assert_eq!(output.error.unwrap().traceback.len(), 1000);
}

#[test]
fn a66_a_start_that_is_not_answered_as_it_should_be_is_refused() {
    let drives: [(Drive, Code, &str); 4] = [
        (
            |mut peer| Box::pin(async move { drop(peer.next().await) }),
            Code::ExecFailed,
            "ended with signal 9",
        ),
        (
            |mut peer| {
                Box::pin(async move {
                    peer.next().await;
                    peer.next().await;
                })
            },
            Code::Timeout,
            "within 60s",
        ),
        (
            |mut peer| {
                Box::pin(async move {
                    peer.next().await;
                    peer.send(0, Kind::Hello, b"code/2 3.12.0").await;
                    peer.next().await;
                })
            },
            Code::ExecFailed,
            "another version",
        ),
        (
            |mut peer| {
                Box::pin(async move {
                    peer.next().await;
                    peer.send(0, Kind::Done, b"0").await;
                    peer.next().await;
                })
            },
            Code::ExecFailed,
            "not a greeting",
        ),
    ];
    for (drive, code, words) in drives {
        let seen = run_with(drive, true);
        let error = seen.answer.unwrap_err();
        assert!(error.code() == code && error.message().contains(words), "{error:?}");
        assert!(seen.kills > 0, "{error:?}");
    }
}
