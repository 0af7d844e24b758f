//! The runner with a script in place of `uv`, which records how it was called and answers from files.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Stdio,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use tempfile::TempDir;

use super::*;
use crate::{
    environment::resolve::{
        resolve,
        tests::{block_on, line, pip, spec},
    },
    memory::ManualClock,
};

/// Where the script finds `cat` and the like.
const SYSTEM: &str = "/usr/bin:/bin";
const CANARY: &str = "canary-4711";

/// A folder with a program `uv` in it, and what that has recorded.
struct Fake(TempDir);

impl Fake {
    /// A `uv` that records, and then does as these lines of a script say. They may name the folder as `$here`.
    fn doing(lines: &str) -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        let here = fake.path().display();
        let script = format!(
            "#!/bin/sh\nhere={here}\nfor word; do echo \"$word\"; done > $here/arguments\nenv > $here/environment\n\
             pwd > $here/folder\nstat -c %a . > $here/mode\nwc -c > $here/input\ncat requirements.in > \
             $here/requirements\ncat constraints.in > $here/constraints 2>/dev/null\n{lines}\n"
        );
        // Through another process, since a program that this one has open for writing cannot be started.
        let mut shell = std::process::Command::new("/bin/sh")
            .args(["-c", "cat > \"$1\" && chmod 700 \"$1\"", "sh"])
            .arg(fake.path().join("uv"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success());
        fake
    }

    fn answering(text: &str) -> Self {
        let fake = Self::doing("cat $here/answer");
        fs::write(fake.path().join("answer"), text).unwrap();
        fake
    }

    /// One that fails with these words.
    fn failing(words: &str) -> Self {
        let fake = Self::doing("cat $here/words >&2\nexit 2");
        fs::write(fake.path().join("words"), words).unwrap();
        fake
    }

    /// One that never ends, with a child of its own.
    fn hanging() -> Self {
        Self::doing("sleep 1000 &\necho $! > $here/new\nmv $here/new $here/child\nwait")
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn runner(&self) -> UvRunner {
        UvRunner::new(format!("{}:{SYSTEM}", self.path().display()))
    }

    fn recorded(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    fn was_called(&self) -> bool {
        self.path().join("arguments").exists()
    }

    /// The number of the child of one that hangs, once it has one.
    fn child(&self) -> String {
        until("the script has started", || self.path().join("child").exists());
        self.recorded("child").trim().to_owned()
    }

    fn assert_nothing_is_left(&self) {
        let folder = self.recorded("folder");
        assert!(folder.contains("provider-resolve-"), "{folder:?}");
        assert!(!Path::new(folder.trim()).exists(), "{folder} is left");
    }
}

/// Looks again until it is so; fails after a time in which it must have become so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not within 30 seconds: {what}");
        std::thread::yield_now();
    }
}

/// Whether the process still does something. One that nobody has waited for yet does not.
fn runs(number: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    state.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn variables() -> InstallerVariables {
    let pairs = [
        ("UV_INDEX_URL", format!("https://someuser:{CANARY}@index.example/simple")),
        ("UV_HTTP_TIMEOUT", "30".to_owned()),
        ("UV_CONFIG_FILE", "/somewhere/uv.toml".to_owned()),
        ("UV_FORK_STRATEGY", "fewest".to_owned()),
        ("https_proxy", "http://127.0.0.1:9".to_owned()),
    ];
    InstallerVariables::of(pairs.map(|(name, value)| (name.to_owned(), value)))
}

fn inputs() -> ResolveInputs {
    ResolveInputs {
        requirements: vec!["packaging==24.2".into(), "pip==26.0.1".into()],
        constraints: vec!["idna<4".into()],
        indexes: ["https://first.example/simple", "https://last.example/simple"].map(str::to_owned).into(),
        python: Some("3.9".into()),
        apt: Vec::new(),
    }
}

#[test]
fn a77_uv_gets_files_and_a_clean_environment_and_nothing_is_left() {
    let fake = Fake::answering(&(line("packaging==24.2", &[1]) + &pip()));
    let runner = UvRunner::from_lookup(|name| match name {
        "PATH" => Some(format!("relative:{}:{SYSTEM}", fake.path().display()).into()),
        "HOME" => Some("/home/somebody".into()),
        "AWS_SECRET_ACCESS_KEY" => Some(CANARY.into()),
        _ => None,
    });
    let runner = runner.with_installer_variables(variables());
    let text = block_on(runner.run(&inputs())).unwrap();
    assert_eq!(text, fake.recorded("answer"));
    let arguments = fake.recorded("arguments");
    let expected = "pip compile --universal --generate-hashes --no-header --no-annotate --no-config --no-progress \
                    --color=never --python-version=3.9 --index=https://first.example/simple \
                    --default-index=https://last.example/simple --constraints=constraints.in requirements.in";
    assert_eq!(arguments.lines().collect::<Vec<_>>().join(" "), expected);
    assert_eq!(fake.recorded("requirements"), "packaging==24.2\npip==26.0.1\n");
    assert_eq!(fake.recorded("constraints"), "idna<4\n");
    assert_eq!((fake.recorded("mode").trim(), fake.recorded("input").trim()), ("700", "0"));
    let environment = fake.recorded("environment");
    let mut names: Vec<_> = environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    // The shell adds the last ones itself.
    names.retain(|name| !["OLDPWD", "PWD", "SHLVL", "_"].contains(name));
    let wanted = [
        "HOME",
        "LC_ALL",
        "NO_COLOR",
        "PATH",
        "TMPDIR",
        "UV_HTTP_TIMEOUT",
        "UV_INDEX_URL",
        "UV_NO_PROGRESS",
        "UV_PYTHON_DOWNLOADS",
        "https_proxy",
    ];
    assert_eq!(names, wanted);
    let folder = fake.recorded("folder");
    assert!(
        environment.contains("UV_PYTHON_DOWNLOADS=never\n")
            && environment.contains(&format!("TMPDIR={folder}"))
    );
    fake.assert_nothing_is_left();
}

#[test]
fn a77_one_specification_is_resolved_through_uv() {
    let fake = Fake::answering(&(line("packaging==24.2", &[1]) + &pip()));
    let spec = spec(&["packaging==24.2"]);
    let lockfile = block_on(resolve(&spec, &fake.runner())).unwrap();
    lockfile.check_for(&spec).unwrap();
    assert!(!fake.recorded("arguments").contains("index"));
    assert!(
        fake.recorded("environment").contains("UV_NO_CACHE=1\n"),
        "without a home there is no place for a cache"
    );
}

#[test]
fn a77_without_uv_the_advice_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("uv")).unwrap();
    let not_executable = tempfile::tempdir().unwrap();
    fs::write(not_executable.path().join("uv"), "").unwrap();
    fs::set_permissions(not_executable.path().join("uv"), fs::Permissions::from_mode(0o600)).unwrap();
    let paths = [
        String::new(),
        "/nowhere".to_owned(),
        "relative".to_owned(),
        folder.path().display().to_string(),
        not_executable.path().display().to_string(),
    ];
    for path in paths {
        let error = block_on(UvRunner::new(&path).run(&inputs())).unwrap_err();
        assert_eq!(error.code(), Code::CapabilityUnsupported, "{path:?}");
        assert!(error.advice().contains("install uv, or give a lockfile"), "{error}");
    }
}

#[test]
fn a77_packages_of_the_distribution_are_refused_before_uv_is_started() {
    let fake = Fake::answering("");
    let mut spec = spec(&["packaging"]);
    spec.spec.packages.system.apt.push("libpq5=15.1".into());
    let error = block_on(resolve(&spec, &fake.runner())).unwrap_err();
    assert_eq!(error.code(), Code::CapabilityUnsupported);
    assert!(error.message().contains("libpq5=15.1") && error.message().contains("not the base"), "{error}");
    assert!(!fake.was_called());
}

#[test]
fn a75_a77_wrong_and_secret_texts_do_not_reach_uv() {
    let fake = Fake::answering("");
    for text in
        ["a; $(id)", "--index-url=https://x.example", &format!("a @ https://user:{CANARY}@x.example/a.whl")]
    {
        let error = block_on(resolve(&spec(&[text]), &fake.runner())).unwrap_err();
        assert_eq!(error.code(), Code::SpecInvalid);
        assert!(!format!("{error} {error:?}").contains(CANARY), "{error}");
    }
    assert!(!fake.was_called());
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a75_the_callers_passwords_are_in_no_error_and_no_log() {
    let words = format!(
        "error: Something new at https://someuser:{CANARY}@index.example/simple/a/\n  cause: it said {CANARY}\n"
    );
    let log = Log::default();
    let writer = log.clone();
    let collected = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
    let collected = tracing::Dispatch::new(collected.with_writer(move || writer.clone()).finish());
    // With one subscriber alone, an event that another test's thread comes to first is off for all threads.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let fake = Fake::failing(&words);
    let runner = fake.runner().with_installer_variables(variables());
    let resolving = || block_on(resolve(&spec(&["a"]), &runner)).unwrap_err();
    let error = tracing::dispatcher::with_default(&collected, resolving);
    assert!(error.is_unmapped() && error.message().contains("Something new"), "{error}");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("resolving with uv") && log.contains("uv has ended"), "nothing was logged: {log}");
    for text in [error.to_string(), format!("{error:?}"), log, format!("{runner:?}")] {
        assert!(!text.contains(CANARY) && !text.contains("someuser"), "{text}");
    }
    fake.assert_nothing_is_left();
}

#[test]
fn a77_dropping_the_future_ends_uv_with_its_children_and_removes_the_folder() {
    let fake = Fake::hanging();
    let runner = fake.runner();
    let child = block_on(async {
        let inputs = inputs();
        let mut running = Box::pin(runner.run(&inputs));
        assert!(futures_util::poll!(&mut running).is_pending());
        let child = fake.child();
        assert!(runs(&child) && Path::new(fake.recorded("folder").trim()).exists());
        drop(running);
        fake.assert_nothing_is_left();
        child
    });
    until("the child has ended", || !runs(&child));
}

#[test]
fn a77_after_ten_minutes_uv_is_ended() {
    let fake = Fake::hanging();
    let clock = ManualClock::stopped();
    let runner = fake.runner().with_clock(Arc::new(clock.clone()));
    // A runtime without drivers will do.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (error, child) = runtime.block_on(async {
        let inputs = inputs();
        let mut running = Box::pin(runner.run(&inputs));
        assert!(futures_util::poll!(&mut running).is_pending());
        let child = fake.child();
        clock.advance(LIMIT - Duration::from_millis(1));
        assert!(futures_util::poll!(&mut running).is_pending());
        clock.advance(Duration::from_millis(1));
        (running.await.unwrap_err(), child)
    });
    assert_eq!(error.code(), Code::Timeout);
    assert!(error.message().contains("10 minutes"), "{error}");
    until("the child has ended", || !runs(&child));
    fake.assert_nothing_is_left();
}

#[test]
fn a77_output_without_end_is_cut_off() {
    let endless = Fake::doing("exec yes");
    let error = block_on(endless.runner().run(&inputs())).unwrap_err();
    assert!(error.message().contains("wrote more than"), "{error}");
    endless.assert_nothing_is_left();

    let chatty = Fake::doing("yes | head -c 3000000 >&2\necho 'error: the last words' >&2\nexit 1");
    let error = block_on(chatty.runner().run(&inputs())).unwrap_err();
    assert!(error.message().contains("the last words") && error.to_string().len() < 2000, "{error}");
}
