//! The command `matrix` as a shell sees it: exit codes, words, and what it leaves on the disk.

mod common;

use std::{
    fs,
    process::{Command, Output},
};

use common::{PLAIN, Place, text, trial, trial_with_sandboxes};
use libtest_mimic::Arguments;

/// Exactly one line of error, which holds `words`; the exit code says that nothing was tried; nothing is left.
fn assert_refused(place: &Place, output: &Output, words: &str) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{words:?}: {out}{err}");
    assert_eq!(err.lines().count(), 1, "{words:?}: {err}");
    assert!(err.starts_with("error: ") && err.contains(words), "{words:?} is not in: {err}");
    assert!(!err.contains("canary4711"), "{err}");
    assert!(!err.contains("panicked") && out.is_empty(), "{words:?}: {out}{err}");
    assert!(place.left().is_empty(), "{words:?}: left {:?}", place.left());
}

fn bad_specifications() {
    let good = "[metadata]\nname = \"a\"\n";
    let python = format!("{good}[spec.language]\nname = \"python\"\n");
    let with =
        |text: &str| format!("{python}[spec.packages.python]\ndependencies = [{text:?}]\n").into_bytes();
    let cases: [(&str, Vec<u8>, &str); 27] = [
        ("shell.toml", with("packaging; rm -rf /"), "spec.packages.python.dependencies[0]"),
        ("dollar.toml", with("$(id)"), "spec.packages.python.dependencies[0]"),
        ("option.toml", with("--index-url=x"), "an option"),
        ("url.toml", with("a @ https://user:canary4711@example.org/a.whl"), "spec.buildSecrets"),
        ("pip.toml", with("pip<20"), "PROTECTED_PACKAGE"),
        (
            "no-language.toml",
            format!("{good}[spec.packages.python]\ndependencies = [\"a\"]\n").into(),
            "spec.language",
        ),
        ("ruby.toml", format!("{good}[spec.language]\nname = \"ruby\"\n").into(), "spec.language.name"),
        ("version.toml", format!("{python}version = \">=2\"\n").into(), "spec.language.version"),
        ("version-type.toml", format!("{python}version = 3.11\n").into(), "spec.language.version"),
        (
            "index.toml",
            format!("{python}[spec.packages.python]\nindexes = [\"https://t0ken@example.org/\"]\n").into(),
            "spec.packages.python.indexes[0]",
        ),
        (
            "conda.toml",
            format!("{python}[spec.packages.python]\nmanager = \"mamba\"\n").into(),
            "spec.packages.python.manager",
        ),
        (
            "apt.toml",
            format!("{good}[spec.packages.system]\napt = [\"git; id\"]\n").into(),
            "spec.packages.system.apt[0]",
        ),
        (
            "gpu.toml",
            format!("{good}[spec.resources.accelerator]\ntype = \"h100\"\ncount = 0\n").into(),
            "spec.resources.accelerator.count",
        ),
        ("source.toml", format!("{good}[spec.build]\nsource = \"dockerfile\"\n").into(), "spec.build.path"),
        ("key.toml", format!("{good}[specc]\n").into(), "specc"),
        ("type.toml", b"[metadata]\nname = 7\n".into(), "metadata.name"),
        ("twice.toml", format!("{good}name = \"b\"\n").into(), "line 3"),
        ("twice.json", br#"{"metadata":{"name":"a","name":"b"}}"#.into(), "duplicate field"),
        ("deep.toml", format!("a = {}", "[".repeat(10_000)).into(), "line 1"),
        ("deep.json", "[".repeat(10_000).into(), "column"),
        ("nul.toml", b"[metadata]\nname = \"a\0\"\n".into(), "line 2"),
        ("nul.json", br#"{"metadata":{"name":"a\u0000"}}"#.into(), "metadata.name"),
        ("huge.toml", vec![b'#'; 50 << 20], "52428800 bytes"),
        ("bytes.toml", b"[metadata]\nname = \"\xff\"\n".into(), "byte"),
        ("empty.toml", Vec::new(), "metadata"),
        (
            "escape.toml",
            format!("{good}[[spec.files]]\npath = \"/a\"\ncontentRef = \"../../etc/passwd\"\n").into(),
            "spec.files[0].contentRef",
        ),
        (
            "crlf.toml",
            b"[metadata]\r\nname = \"a\"\r\n[spec.env]\r\nA = \"x\\r\\ny\"\r\n".into(),
            "spec.env.A",
        ),
    ];
    for (name, content, words) in cases {
        let place = Place::new();
        let file = place.file(name, content);
        assert_refused(&place, &place.run(&["run", "--env", &file]), words);
    }
}

fn bad_arguments() {
    for (arguments, words) in [
        (&["run", "--env", "/no/such.toml"][..], "/no/such.toml"),
        (&["run", "--env", "/dev/zero.toml"], "/dev/zero.toml"),
        (&["run", "--env", "/etc/hostname"], ".toml"),
        (&["run", "--provider", "nowhere"], "nowhere"),
        (&["run", "--base", "x=/no/such"], "/no/such"),
        (&["run", "--json", "/no/such/report.json"], "/no/such/report.json"),
        (&["run", "--secret", "matrix-token=NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
        (&["run", "--secret", "surprise=HOME"], "surprise"),
    ] {
        let place = Place::new();
        assert_refused(&place, &place.run(arguments), words);
    }
    let place = Place::new();
    let (json, junit) = (place.path("report.json"), place.path("report.xml"));
    let refused = place.run(&["run", "--env", "/no/such.toml", "--json", &json, "--junit", &junit]);
    assert_refused(&place, &refused, "/no/such.toml");
    for report in [json, junit] {
        let report = fs::read_to_string(report).expect("a report");
        assert!(report.contains("/no/such.toml"), "the report does not tell why: {report}");
    }
    for (variable, value) in [
        ("PROVIDER_STATE_DIR", "relative"),
        ("PROVIDER_OWNER", "No!"),
        ("PROVIDER_LOCAL_STATE_DIR", "relative"),
    ] {
        let place = Place::new();
        let output = place.matrix(&["run"]).env(variable, value).output().expect("the command starts");
        assert_refused(&place, &output, if value.starts_with('/') { value } else { variable });
    }
}

/// What only the driver of this machine can refuse.
fn bad_input_for_the_driver() {
    let good = "[metadata]\nname = \"a\"\n";
    let cases: [(&str, Vec<u8>, &str); 2] = [
        ("base.toml", format!("{good}[spec.base]\nref = \"nowhere\"\n").into(), "nowhere"),
        (
            "secret.toml",
            format!("{good}[[spec.buildSecrets]]\nid = \"s\"\nmountAs = \"env\"\nname = \"S\"\n").into(),
            "build secret s",
        ),
    ];
    for (name, content, words) in cases {
        let place = Place::new();
        let file = place.file(name, content);
        assert_refused(&place, &place.run(&["run", "--env", &file]), words);
    }
    for folder in ["/proc/no", "/etc/hostname/x"] {
        let place = Place::new();
        let output = place.matrix(&["run"]).env("PROVIDER_STATE_DIR", folder).output();
        assert_refused(&place, &output.expect("the command starts"), folder);
    }
}

fn list_and_look_do_nothing_else() {
    let place = Place::new();
    let listed = place.run(&["list"]);
    assert_eq!(listed.status.code(), Some(0));
    for word in ["core.doctor", "core.secrets", "local"] {
        assert!(text(&listed.stdout).contains(word), "{}", text(&listed.stdout));
    }
    let looked = place.run(&["sweep"]);
    assert_eq!(looked.status.code(), Some(0), "{}", text(&looked.stderr));
    assert!(!place.state().exists(), "a look made the state folder");
}

fn a_run_leaves_what_the_design_allows() {
    let place = Place::new();
    let (file, report, junit) =
        (place.file("env.toml", PLAIN), place.path("report.json"), place.path("report.xml"));
    let output = place.run(&["run", "--env", &file, "--json", &report, "--junit", &junit]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("Nothing is left behind."));
    assert!(place.left().is_empty(), "left {:?}", place.left());
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(report).expect("a report")).expect("JSON");
    let rows = report["legs"][0]["rows"].as_array().expect("rows");
    assert!(rows.len() >= 9 && rows.iter().all(|row| row["status"] != "failed"), "{rows:?}");
    let junit = fs::read_to_string(junit).expect("a report");
    for row in rows {
        let id = row["id"].as_str().expect("an id");
        assert!(junit.contains(&format!("<testcase name=\"{id}\" classname=\"local\"")), "{id}: {junit}");
    }
    assert!(junit.contains("failures=\"0\""), "{junit}");
}

fn a_failing_command_is_named_and_the_secret_is_not() {
    const CANARY: &str = "canary-2718-must-not-be-seen";
    let place = Place::new();
    let spec = "[metadata]\nname = \"a\"\n[[spec.buildSecrets]]\nid = \"s\"\nmountAs = \"env\"\nname = \"S\"\n\
                [spec.commands]\npostInstall = [\"true\", \"echo about to fail with $S; exit 7\"]\n";
    let file = place.file("env.toml", spec);
    let report = place.path("report.json");
    let mut command =
        place.matrix(&["run", "-vv", "--env", &file, "--secret", "s=THE_SECRET", "--json", &report]);
    let output = command.env("THE_SECRET", CANARY).output().expect("the command starts");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("BUILD_FAILED") && out.contains('7') && out.contains("about to fail"), "{out}");
    for content in [&out, &err, &fs::read_to_string(&report).expect("a report")] {
        assert!(!content.contains(CANARY), "{content}");
    }
    assert!(place.left().is_empty(), "left {:?}", place.left());
}

/// A build that leaks is found out each time, also when it was built before with the same secret or another, and what
/// it leaked does not stay on this machine.
fn a_leak_is_found_each_time() {
    let place = Place::new();
    for (index, leak) in
        ["echo $S > /opt/leak.txt", "umask 077; echo $S > /srv/leak.txt"].into_iter().enumerate()
    {
        let spec = format!(
            "[metadata]\nname = \"a\"\n[[spec.buildSecrets]]\nid = \"s\"\nmountAs = \"env\"\nname = \"S\"\n\
             [spec.commands]\npostInstall = [\"{leak}\"]\n"
        );
        let file = place.file(&format!("env-{index}.toml"), spec);
        for value in ["leaked-value-one", "leaked-value-two", "leaked-value-one"] {
            let mut command = place.matrix(&["run", "--env", &file, "--secret", "s=THE_SECRET"]);
            let output = command.env("THE_SECRET", value).output().expect("the command starts");
            let out = text(&output.stdout);
            assert_eq!(output.status.code(), Some(1), "{leak}: {out}{}", text(&output.stderr));
            assert!(out.contains("failed: core.secrets"), "{leak}: {out}");
            let found =
                Command::new("grep").args(["-r", "-l", value]).arg(place.state()).output().expect("grep");
            assert!(found.stdout.is_empty(), "{value} stays in {}", text(&found.stdout));
        }
    }
}

/// Waits until the run has something of its own, then sends signals.
fn interrupted(signals: usize) -> (Place, Output) {
    let place = Place::new();
    let file =
        place.file("env.toml", "[metadata]\nname = \"a\"\n[spec.commands]\npostInstall = [\"sleep 60\"]\n");
    let mut command = place.matrix(&["run", "--env", &file]);
    let child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("a run");
    let boxes = place.state().join("local/box");
    for _ in 0..20_000 {
        if fs::read_dir(&boxes).is_ok_and(|mut entries| entries.next().is_some()) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("an id")).expect("an id");
    for _ in 0..signals {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        // Two signals within a second count as one.
        std::thread::sleep(std::time::Duration::from_millis(1200));
    }
    (place, child.wait_with_output().expect("the run ends"))
}

fn ctrl_c_cleans_up() {
    let (place, output) = interrupted(1);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{out}{err}");
    assert!(out.contains("Nothing is left behind."), "{out}{err}");
    assert!(place.left().is_empty(), "left {:?}", place.left());
}

fn ctrl_c_twice_leaves_the_rest_to_a_sweep() {
    let (place, output) = interrupted(2);
    assert_eq!(output.status.code(), Some(130), "{}{}", text(&output.stdout), text(&output.stderr));
    let swept = place.run(&["sweep", "--delete"]);
    assert_eq!(swept.status.code(), Some(0), "{}{}", text(&swept.stdout), text(&swept.stderr));
    assert!(place.left().is_empty(), "left {:?}", place.left());
}

/// A run on a disk of this many KiB: it may fail at any step, and leaves nothing.
fn full_disk() {
    for size in [40, 80, 120, 160, 240, 400] {
        let place = Place::new();
        let file = place.file("env.toml", PLAIN);
        fs::create_dir(place.state()).expect("a folder");
        let mount = |arguments: &[&str]| {
            let done = Command::new(arguments[0]).args(&arguments[1..]).arg(place.state()).status();
            assert!(done.is_ok_and(|status| status.success()), "{arguments:?}");
        };
        mount(&["mount", "-t", "tmpfs", "-o", &format!("size={size}k,nr_inodes=4k"), "tmpfs"]);
        let output = place.run(&["run", "--env", &file]);
        let left = place.left();
        mount(&["umount"]);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(
            !err.contains("panicked") && output.status.code().is_some_and(|code| code < 3),
            "{size}: {out}{err}"
        );
        assert!(left.is_empty(), "{size}: left {left:?}\n{out}{err}");
        if output.status.code() != Some(0) {
            assert!(format!("{out}{err}").contains("No space left"), "{size}: {out}{err}");
        }
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("bad_specifications", bad_specifications),
        trial("bad_arguments", bad_arguments),
        trial("list_and_look_do_nothing_else", list_and_look_do_nothing_else),
        trial_with_sandboxes("bad_input_for_the_driver", false, bad_input_for_the_driver),
        trial_with_sandboxes(
            "a_run_leaves_what_the_design_allows",
            false,
            a_run_leaves_what_the_design_allows,
        ),
        trial_with_sandboxes(
            "a75_the_secret_is_not_named",
            false,
            a_failing_command_is_named_and_the_secret_is_not,
        ),
        trial_with_sandboxes("a_leak_is_found_each_time", false, a_leak_is_found_each_time),
        trial_with_sandboxes("ctrl_c_cleans_up", false, ctrl_c_cleans_up),
        trial_with_sandboxes("ctrl_c_twice", false, ctrl_c_twice_leaves_the_rest_to_a_sweep),
        trial_with_sandboxes("full_disk", true, full_disk),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}
