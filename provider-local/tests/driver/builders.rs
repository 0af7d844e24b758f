//! Builders of the same layer in several processes, and collections beside them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use provider_core::{
    environment::EnvironmentSpec,
    lifecycle::{Event, Progress},
};
use provider_local::{CacheLimits, LocalConfig, LocalProvider};
use rustix::process::{Pid, Signal, kill_process};

use crate::{common::*, digests::as_another_process};

/// The first arguments that make this program one of several on one state folder.
pub(crate) const BUILDER: &str = "one-of-several-builders";
pub(crate) const COLLECTOR: &str = "the-one-that-collects";

/// What the layers of a command that is told in a file hold.
fn spec(command: &str) -> EnvironmentSpec {
    let mut spec = EnvironmentSpec::named("shared");
    spec.spec.commands.post_install = vec![command.to_owned()];
    spec
}

/// Builds what the file `command` says; tells when it waits for another builder, how it ended, and how often it ran
/// the command. Then it waits until its input ends, with the artifact in its hands.
pub(crate) fn builder(folder: &Path) {
    on_a_runtime(async {
        let driver = LocalProvider::open(LocalConfig::new(folder.join("local"))).expect("a driver");
        let world = World::at(folder, driver);
        let session = world.session();
        let command = fs::read_to_string(folder.join("command")).expect("a command");
        let (progress, mut events) = Progress::channel();
        println!("begins");
        let build = session.build_observed(&world.provider, world.request(spec(&command)), progress);
        let watch = async {
            let mut runs = 0;
            while let Some(event) = events.next().await {
                match event {
                    Event::Waiting(_) => println!("waits"),
                    Event::Log(line) if line.starts_with("command 1 of 1") => runs += 1,
                    _ => {}
                }
            }
            runs
        };
        let (built, runs) = tokio::join!(build, watch);
        match &built {
            Ok(_) => println!("built after {runs} runs"),
            Err(error) => println!("failed after {runs} runs: {error}"),
        }
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(built);
        session.close(LIMIT).await;
    });
}

/// Collects until its input ends, and tells how often.
pub(crate) fn collector(folder: &Path) {
    let driver = LocalProvider::open(LocalConfig::new(folder.join("local"))).expect("a driver");
    let end = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    println!("begins");
    let mut times = 0;
    while !end.is_finished() {
        driver.collect_cache(&CacheLimits::default()).expect("collected");
        driver.collect_cache(&CacheLimits::default().dry_run()).expect("looked");
        times += 1;
    }
    println!("collected {times}");
}

/// This program as another process on the folder of a world.
struct Other {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stdin: Option<ChildStdin>,
}

impl Other {
    fn start(what: &str, world: &World) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.arg(what).arg(world.folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let stdout = BufReader::new(child.stdout.take().expect("its output"));
        let stdin = child.stdin.take();
        Self { child, stdout, stdin }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    /// The line after those that only tell that it is under way.
    fn answer(&mut self) -> String {
        loop {
            let line = self.line();
            if !["begins", "waits"].contains(&line.as_str()) {
                return line;
            }
        }
    }

    fn kill(self) {
        drop(self);
    }

    /// Has it come to its end; what it says then.
    fn end(mut self) -> String {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("lines");
        assert!(self.child.wait().expect("reaped").success());
        rest
    }
}

/// Also when a trial fails, since what it runs may take for ever.
impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn put_command(world: &World, command: &str) {
    fs::write(world.folder.path().join("command"), command).expect("written");
}

pub(crate) fn two_processes_build_once() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        put_command(&world, "sleep 0.5; od -An -N8 -tx1 /dev/urandom >/opt/random");
        let mut builders = [(); 3].map(|()| Other::start(BUILDER, &world));
        let mut answers = builders.each_mut().map(|builder| builder.answer());
        answers.sort();
        assert_eq!(answers, ["built after 0 runs", "built after 0 runs", "built after 1 runs"]);
        assert_eq!(world.layers().len(), 2, "{:?}", world.layers());
        for builder in builders {
            builder.end();
        }
        world.assert_clean();
    });
    Ok(())
}

/// Two drivers of one process know nothing of each other.
pub(crate) fn two_drivers_of_one_process_build_once() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let other = as_another_process(&world);
        let session = world.session();
        let spec = spec("sleep 0.3; od -An -N8 -tx1 /dev/urandom >/opt/random");
        let (first, mut first_events) = Progress::channel();
        let (second, mut second_events) = Progress::channel();
        let (one, two) = tokio::join!(
            session.build_observed(&world.provider, world.request(spec.clone()), first),
            session.build_observed(&other.provider, other.request(spec.clone()), second),
        );
        let mut runs = 0;
        for events in [&mut first_events, &mut second_events] {
            while let Some(event) = events.try_next() {
                runs += usize::from(matches!(event, Event::Log(line) if line.starts_with("command 1 of 1")));
            }
        }
        assert_eq!(runs, 1);
        assert_eq!(world.layers().len(), 2);
        let (one, two) = (one.expect("an artifact"), two.expect("an artifact"));
        let (one, two) = (world.launch(&session, &one).await, other.launch(&session, &two).await);
        let line = "cat /opt/random";
        assert_eq!(say(&**one, line).await, say(&**two, line).await);
        world.close(&session).await;
    });
    Ok(())
}

/// A command that succeeds if its sleep is ended by SIGTERM, and fails if it is killed.
fn held(time: &str) -> String {
    marked(&format!("sleep {time} & wait $!; test $? = 143 && echo built >/opt/built"))
}

async fn sleeper(time: &str, other_than: Option<u32>) -> u32 {
    let find = || processes_with(time).into_iter().find(|number| Some(*number) != other_than);
    wait_until("the command sleeps", || find().is_some()).await;
    find().expect("a process")
}

fn send(number: u32, signal: Signal) {
    let number = i32::try_from(number).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(number, signal).expect("sent");
}

/// A builder at work, and one that waits for it.
async fn one_works_and_one_waits(world: &World, time: &str) -> (Other, u32, Other) {
    put_command(world, &held(time));
    let first = Other::start(BUILDER, world);
    let sleeper = sleeper(time, None).await;
    let mut second = Other::start(BUILDER, world);
    assert_eq!(second.line(), "begins");
    assert_eq!(second.line(), "waits");
    (first, sleeper, second)
}

pub(crate) fn when_the_first_builder_fails_the_second_builds() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (mut first, number, mut second) = one_works_and_one_waits(&world, "471801").await;
        send(number, Signal::KILL);
        let answer = first.answer();
        assert!(answer.starts_with("failed after 1 runs"), "{answer}");
        send(sleeper("471801", Some(number)).await, Signal::TERM);
        assert_eq!(second.answer(), "built after 1 runs");
        first.end();
        second.end();
        assert_eq!(world.layers().len(), 2);
        world.assert_clean();
    });
    Ok(())
}

/// The layers of a killed builder are cache that nobody needs.
pub(crate) fn when_the_first_builder_is_killed_the_second_builds() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (first, number, mut second) = one_works_and_one_waits(&world, "471802").await;
        let contract = world.layers();
        assert_eq!(contract.len(), 1);
        first.kill();
        send(sleeper("471802", Some(number)).await, Signal::TERM);
        assert_eq!(second.answer(), "built after 1 runs");
        let report = world.driver.collect_cache(&CacheLimits::default()).expect("collected");
        assert_eq!(report.kept_for_artifacts.len(), 2, "{report:?}");
        second.end();
        world.driver.tidy().expect("tidied");
        world.assert_clean();
    });
    Ok(())
}

pub(crate) fn a_layer_of_a_living_builder_stays_and_of_a_killed_one_goes() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        put_command(&world, &held("471803"));
        let builder = Other::start(BUILDER, &world);
        sleeper("471803", None).await;
        let layers = world.layers();
        assert_eq!(layers.len(), 1, "the layer of the contract, which no record names yet");
        for limits in [CacheLimits::default(), CacheLimits::default().dry_run()] {
            let report = world.driver.collect_cache(&limits).expect("collected");
            assert_eq!((report.removed.len(), report.removed_bytes), (0, 0), "{report:?}");
            assert!(report.kept_in_use.contains(&layers[0]), "{report:?}");
        }
        assert_eq!(world.layers(), layers);
        builder.kill();
        // Its box ends with it, and lets go of the layer.
        wait_until("the box is dead", || processes_with("471803").is_empty()).await;
        wait_until("the layer goes", || {
            let report = world.driver.collect_cache(&CacheLimits::default()).expect("collected");
            report.removed.iter().any(|removed| removed.key == layers[0] && removed.bytes > 0)
        })
        .await;
        assert_eq!(world.names_in("layer"), [""; 0]);
        wait_until("nothing is left", || {
            world.driver.tidy().expect("tidied");
            world.names_in("box").is_empty()
        })
        .await;
        world.assert_clean();
    });
    Ok(())
}

/// A collection in a loop in another process, beside builds and launches of the same layers.
pub(crate) fn a_collector_in_another_process_disturbs_nobody() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let mut collector = Other::start(COLLECTOR, &world);
        assert_eq!(collector.line(), "begins");
        let spec = spec("echo built >/opt/built");
        for _ in 0..6 {
            let builds = [(); 2].map(|()| world.build(&session, spec.clone()));
            for built in futures_util::future::join_all(builds).await {
                let artifact = built.expect("an artifact");
                let sandbox = world.launch(&session, &artifact).await;
                assert_eq!(say(&**sandbox, "cat /opt/built").await, "built\n");
                sandbox.close().await.expect("closed");
                artifact.close().await.expect("closed");
            }
        }
        let said = collector.end();
        let times: usize = said.trim().trim_start_matches("collected ").parse().expect("a number");
        assert!(times > 10, "{times} collections are too few");
        world.driver.tidy().expect("tidied");
        world.close(&session).await;
    });
    Ok(())
}

/// What a build or a launch used counts as used at that time.
pub(crate) fn what_was_used_of_late_is_spared() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let hour = Duration::from_secs(3600);
        let of_late = CacheLimits::default().older_than(hour);
        let age = || {
            let long_ago = std::time::SystemTime::now() - 2 * hour;
            for layer in world.layers() {
                let path = world.store().join("layer").join(layer).join("used");
                let file = fs::OpenOptions::new().append(true).open(path).expect("a file");
                file.set_modified(long_ago).expect("a time");
            }
        };
        let collect = |limits: &CacheLimits| world.driver.collect_cache(limits).expect("collected");
        let spec = spec("echo built >/opt/built");
        let artifact = world.build(&session, spec.clone()).await.expect("an artifact");
        let layers = world.layers();
        age();
        assert_eq!(collect(&of_late).kept_for_artifacts, layers);
        world.launch(&session, &artifact).await.close().await.expect("closed");
        artifact.close().await.expect("deleted");
        assert_eq!(collect(&of_late).kept_recent, layers, "they were used by the launch");
        age();
        world.build(&session, spec).await.expect("an artifact").close().await.expect("deleted");
        assert_eq!(collect(&of_late).kept_recent, layers, "they were used by the build");
        age();
        let looked = collect(&of_late.clone().dry_run());
        assert_eq!(world.layers(), layers, "a look removes nothing");
        let report = collect(&of_late);
        assert_eq!((&looked.removed, looked.removed_bytes), (&report.removed, report.removed_bytes));
        assert!(looked.dry_run && !report.dry_run && report.removed_bytes > 0);
        let keys: Vec<&String> = report.removed.iter().map(|removed| &removed.key).collect();
        assert_eq!(keys, layers.iter().collect::<Vec<_>>());
        assert_eq!(world.names_in("layer"), [""; 0]);
        world.close(&session).await;
    });
    Ok(())
}
