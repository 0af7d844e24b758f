//! Artifacts that outlive the run that built them, as a shell sees them.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{PLAIN, Place, assert_exit, trial, trial_with_sandboxes};
use libtest_mimic::Arguments;

/// Builds and keeps; the record's path.
fn keep(place: &Place, name: &str) -> String {
    let (env, out) = (place.file("env.toml", PLAIN), place.path(name));
    let said = assert_exit(&place.run(&["build", "--env", &env, "--keep", "--out", &out]), 0);
    assert!(said.contains(name) && said.contains("Nothing else is left behind."), "{said}");
    out
}

/// The bar of the issue: what one process keeps, others launch at once, whatever sweeps and builds meanwhile.
fn kept_by_one_process_launched_by_others() {
    let place = Place::new();
    let record = keep(&place, "a.json");
    let swept = assert_exit(&place.run(&["sweep", "--delete"]), 0);
    assert!(swept.contains("kept"), "{swept}");
    let start = |arguments: &[&str]| {
        let mut command = place.matrix(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts")
    };
    let env = place.path("env.toml");
    let others = [
        start(&["run", "--artifact", &record]),
        start(&["run", "--artifact", &record]),
        start(&["run", "--env", &env]),
        start(&["gc"]),
    ];
    for other in others {
        assert_exit(&other.wait_with_output().expect("it ends"), 0);
    }
    let building = start(&["run", "--env", &env]);
    let deleted = assert_exit(&place.run(&["delete", &record]), 0);
    assert!(deleted.contains("deleted and seen to be gone"), "{deleted}");
    assert_exit(&building.wait_with_output().expect("it ends"), 0);
    let again = assert_exit(&place.run(&["delete", &record]), 0);
    assert!(again.contains("already gone"), "{again}");
    let gone = assert_exit(&place.run(&["run", "--artifact", &record]), 1);
    assert!(gone.contains("ARTIFACT_MISSING"), "{gone}");
    assert!(place.left().is_empty(), "left {:?}", place.left());
}

/// A record that is not written to its end, of something else, of another state folder or of another owner.
fn records_that_cannot_be_used() {
    let place = Place::new();
    let record = keep(&place, "a.json");
    let text = fs::read_to_string(&record).expect("the record");
    let again = place.run(&["build", "--env", &place.path("env.toml"), "--keep", "--out", &record]);
    assert!(assert_exit(&again, 2).contains("is there already"));
    assert_eq!(fs::read_to_string(&record).expect("the record"), text, "a record was replaced");
    for (name, content) in
        [("empty.json", ""), ("half.json", &text[..text.len() / 2]), ("other.json", "{\"version\": 2}")]
    {
        let file = place.file(name, content);
        for command in ["verify", "delete"] {
            let said = assert_exit(&place.run(&[command, &file]), 2);
            assert!(said.contains(name) && said.contains("no record of an artifact"), "{said}");
        }
    }
    let elsewhere = Place::new();
    let said = assert_exit(
        &elsewhere.matrix(&["delete", &record]).env("PROVIDER_OWNER", "acme").output().expect("it starts"),
        2,
    );
    assert!(said.contains("belongs to account"), "{said}");
    let other = place.matrix(&["delete", &record]).env("PROVIDER_OWNER", "another").output();
    assert!(assert_exit(&other.expect("it starts"), 2).contains("belongs to owner"));
    assert_exit(&place.run(&["verify", &record]), 0);
    assert_exit(&place.run(&["delete", &record]), 0);
    assert!(place.left().is_empty(), "left {:?}", place.left());
}

/// What a build leaked is found in the kept artifact, once its secret's value is given again.
fn a_leak_in_a_kept_artifact_is_found() {
    let place = Place::new();
    let spec = "[metadata]\nname = \"a\"\n[[spec.buildSecrets]]\nid = \"s\"\nmountAs = \"env\"\nname = \"S\"\n\
                [spec.commands]\npostInstall = [\"echo $S > /home/sandbox/leak.txt\"]\n";
    let (env, out) = (place.file("env.toml", spec), place.path("a.json"));
    let with_secret = |arguments: &[&str]| {
        let mut command = place.matrix(arguments);
        command.args(["--secret", "s=THE_SECRET"]).env("THE_SECRET", "leaked-value-one");
        command.output().expect("the command starts")
    };
    assert_exit(&with_secret(&["build", "--env", &env, "--keep", "--out", &out]), 0);
    let unknown = assert_exit(&place.run(&["run", "--artifact", &out]), 0);
    assert!(unknown.contains("not asked") && unknown.contains("--secret"), "{unknown}");
    let found = assert_exit(&with_secret(&["run", "--artifact", &out]), 1);
    assert!(found.contains("leak.txt") && !found.contains("leaked-value-one"), "{found}");
    assert_exit(&place.run(&["delete", &out]), 0);
    let left = Command::new("grep").args(["-r", "-l", "leaked-value-one"]).arg(place.state()).output();
    assert!(left.expect("grep").stdout.is_empty(), "the secret stays on this machine");
}

/// A record that is lost: what a sweep lists can be deleted by its id.
fn a_lost_record_strands_nothing() {
    let place = Place::new();
    let record = keep(&place, "a.json");
    let artifact: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&record).expect("the record")).expect("JSON");
    let id = artifact["thing"]["id"].as_str().expect("an id");
    fs::remove_file(&record).expect("it is lost");
    assert!(assert_exit(&place.run(&["sweep"]), 0).contains(id), "{id} is not listed");
    for other in ["px-acme-000001-abcdefghijklmn-010", &id[1..]] {
        assert_exit(&place.run(&["delete", other]), 2);
    }
    assert!(assert_exit(&place.run(&["delete", id]), 0).contains("deleted and seen to be gone"));
    assert!(place.left().is_empty(), "left {:?}", place.left());
}

/// The files of the layers that end so.
fn in_layers(place: &Place, end: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, end: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                walk(&path, end, found);
            } else if path.to_string_lossy().ends_with(end) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&place.state().join("local/layer"), end, &mut found);
    found
}

fn flip_a_byte(path: &Path) {
    let mut bytes = fs::read(path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).expect("it can be written");
}

/// A29: one changed byte in what the store has, or in the record, is found, named, and nothing is launched from it.
fn one_changed_byte_is_named() {
    for (end, named) in [
        ("opt/provider/lockfile", "opt/provider/lockfile"),
        ("work/greeting.txt", "greeting.txt"),
        ("manifest", "manifest"),
    ] {
        let place = Place::new();
        let record = keep(&place, "a.json");
        assert!(assert_exit(&place.run(&["verify", &record]), 0).contains("verified"));
        let files = in_layers(&place, end);
        assert!(!files.is_empty(), "no file ends with {end}");
        flip_a_byte(&files[0]);
        let said = assert_exit(&place.run(&["verify", &record]), 1);
        assert!(said.contains(named), "{end}: {said}");
        let launched = assert_exit(&place.run(&["run", "--artifact", &record]), 1);
        assert!(launched.contains("ARTIFACT_MISSING"), "{end}: {launched}");
        assert_exit(&place.run(&["delete", &record]), 0);
        assert!(place.left().is_empty(), "left {:?}", place.left());
    }
}

/// A29: a record in which anything was changed is not what the build gave, and what was changed is named.
fn a_changed_record_is_named() {
    let place = Place::new();
    let record = keep(&place, "a.json");
    let text = fs::read_to_string(&record).expect("the record");
    let original: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let other = format!("sha256:{}", "5".repeat(64));
    for (key, value) in [
        ("lockfile_digest", serde_json::json!(other)),
        ("spec_digest", serde_json::json!(other)),
        ("base", serde_json::json!("another")),
        ("environment", serde_json::json!("another")),
        ("reproducible", serde_json::json!(true)),
        ("env_vars", serde_json::json!({ "LD_PRELOAD": "/tmp/evil.so" })),
        ("build_secrets", serde_json::json!(["token"])),
        ("language", serde_json::json!({ "version": ">=3", "packages": {} })),
        ("built", serde_json::json!(1)),
        ("expires", serde_json::json!(null)),
    ] {
        let mut forged = original.clone();
        forged[key] = value;
        let forged = place.file("forged.json", forged.to_string());
        for command in [&["verify", &forged][..], &["run", "--artifact", &forged]] {
            let said = assert_exit(&place.run(command), 1);
            assert!(said.contains("ARTIFACT_MISSING") || said.contains("differs"), "{key}: {said}");
            assert!(said.contains(key), "{key} is not named: {said}");
        }
    }
    let mut forged = original.clone();
    let reference = forged["reference"].as_str().expect("a reference").replace("sha256:", "sha256:0");
    forged["reference"] = reference.into();
    let file = place.file("forged.json", forged.to_string());
    assert!(assert_exit(&place.run(&["verify", &file]), 1).contains("is not the one that was built"));
    forged["environment"] = "\u{1b}[31mevil\nNothing is left behind.".into();
    let file = place.file("forged.json", forged.to_string());
    for command in ["verify", "delete"] {
        assert!(!assert_exit(&place.run(&[command, &file]), 2).contains('\u{1b}'));
    }
    // What another build keeps is not deleted with this one.
    let second = keep(&place, "b.json");
    let text = fs::read_to_string(&second).expect("the record");
    let foreign: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut forged = original;
    forged["intermediates"] = serde_json::json!([foreign["thing"]]);
    let file = place.file("forged.json", forged.to_string());
    assert!(assert_exit(&place.run(&["delete", &file]), 2).contains("different runs"));
    for record in [record, second] {
        assert_exit(&place.run(&["verify", &record]), 0);
        assert_exit(&place.run(&["delete", &record]), 0);
    }
    assert!(place.left().is_empty(), "left {:?}", place.left());
}

/// A pipe in the place of a file of the store is told, and not waited for.
fn pipes_are_not_waited_for() {
    let place = Place::new();
    let record = keep(&place, "a.json");
    let records = place.state().join("local/art");
    let own = fs::read_dir(records).expect("records").flatten().next().expect("a record").path();
    for path in in_layers(&place, "meta.json").into_iter().take(1).chain([own]) {
        let aside = path.with_extension("aside");
        fs::rename(&path, &aside).expect("moved away");
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        for command in [&["verify", &record][..], &["run", "--artifact", &record], &["sweep"]] {
            let mut child =
                place.matrix(command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            let ended = (0..3000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                child.try_wait().expect("its state").is_some()
            });
            if !ended {
                let _ = child.kill();
            }
            assert!(ended, "{command:?} waits for {}", path.display());
        }
        fs::remove_file(&path).expect("removed");
        fs::rename(&aside, &path).expect("moved back");
    }
    assert_exit(&place.run(&["delete", &record]), 0);
}

/// What an artifact needs stays; what nothing needs goes, on request.
fn collection_spares_what_is_needed() {
    let place = Place::new();
    let none = assert_exit(&place.run(&["gc"]), 0);
    assert!(none.contains("no cache") && !place.state().exists(), "{none}");
    let record = keep(&place, "a.json");
    let spared = assert_exit(&place.run(&["gc"]), 0);
    assert!(spared.contains("local: 0 layers removed") && spared.contains("an artifact needs"), "{spared}");
    assert_exit(&place.run(&["delete", &record]), 0);
    let recent = assert_exit(&place.run(&["gc", "--older-than", "1h"]), 0);
    assert!(recent.contains("local: 0 layers removed") && recent.contains("used of late"), "{recent}");
    let looked = assert_exit(&place.run(&["gc", "--dry-run"]), 0);
    assert!(looked.contains("3 layers would be removed"), "{looked}");
    let removed = assert_exit(&place.run(&["gc"]), 0);
    assert!(removed.contains("3 layers removed"), "{removed}");
    assert!(in_layers(&place, "").iter().all(|path| path.to_string_lossy().ends_with(".lock")));
}

/// A build that is not to be kept leaves nothing; one that fails leaves no record.
fn builds_that_are_not_kept() {
    let place = Place::new();
    let env = place.file("env.toml", PLAIN);
    let said = assert_exit(&place.run(&["build", "--env", &env]), 0);
    assert!(said.contains("Nothing is left behind."), "{said}");
    let fails =
        place.file("fails.toml", "[metadata]\nname = \"a\"\n[spec.commands]\npostInstall = [\"exit 7\"]\n");
    let out = place.path("b.json");
    let said = assert_exit(&place.run(&["build", "--env", &fails, "--keep", "--out", &out]), 1);
    assert!(said.contains("BUILD_FAILED") && !Path::new(&out).exists(), "{said}");
    assert!(place.left().is_empty(), "left {:?}", place.left());
    let hidden = fs::read_dir(Path::new(&out).parent().expect("a folder")).expect("a folder");
    assert!(hidden.flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with(".matrix-")));
}

/// A build that is killed at each step: a sweep leaves nothing, or what is kept has its record.
fn killed_while_keeping() {
    let mut kept = 0;
    for step in 1..200 {
        let place = Place::new();
        let (env, out) = (place.file("env.toml", PLAIN), place.path("a.json"));
        let number = step.to_string();
        let output = place.run(&["build", "--env", &env, "--keep", "--out", &out, "--kill-at", &number]);
        let was_killed = output.status.code().is_none();
        assert_exit(&place.run(&["sweep", "--delete"]), 0);
        let listed = fs::read_to_string(place.state().join("kept.jsonl")).unwrap_or_default();
        if listed.is_empty() {
            assert!(place.left().is_empty(), "step {step}: left {:?}", place.left());
        } else {
            kept += 1;
            assert_exit(&place.run(&["run", "--artifact", &out]), 0);
            assert_exit(&place.run(&["delete", &out]), 0);
            assert!(place.left().is_empty(), "step {step}: left {:?}", place.left());
        }
        if !was_killed {
            assert!(step > 10 && kept > 0, "only {step} steps, {kept} kept");
            return;
        }
    }
    panic!("the build has no end");
}

/// A28: a lockfile is used only if text, digest and specification agree.
fn lockfiles_that_do_not_agree() {
    let place = Place::new();
    let own = include_str!("../fixtures/environment.lock");
    let env = include_str!("../fixtures/environment.toml");
    let other = env.replace("packaging==24.2", "packaging==24.1");
    let file = place.file("env.toml", env);
    for (name, lock, words) in [
        ("text.lock", own.replacen("packaging==24.2", "packaging==24.1", 1), "the digest of its text is"),
        ("digest.lock", own.replacen("sha256:", "sha256:0", 1), "is not a SHA-256"),
        ("zero.lock", zeroed(own), "is not a SHA-256"),
        ("none.lock", String::new(), "first line"),
        ("tail.lock", format!("{own}extra==1\n"), "the digest of its text is"),
    ] {
        let lock = place.file(name, lock);
        let output = place.run(&["run", "--env", &file, "--lock", &lock]);
        let said = assert_exit(&output, 2);
        assert!(said.contains(words) && said.contains(name) && said.contains("matrix resolve"), "{said}");
        assert!(!place.state().exists(), "something was made");
    }
    let (stale, lock) = (place.file("stale.toml", other), place.file("own.lock", own));
    let said = assert_exit(&place.run(&["run", "--env", &stale, "--lock", &lock]), 2);
    assert!(said.contains("was resolved for"), "{said}");
}

/// A lockfile takes the place of no device and no link, and is not lost without a word.
fn lockfiles_go_where_they_can_be() {
    let place = Place::new();
    let env = place.file(
        "env.toml",
        "[metadata]\nname = \"a\"\n[spec.language]\nname = \"python\"\nversion = \"3.12\"\n",
    );
    let (device, link) = (place.path("device"), place.path("link"));
    std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
    assert!(Command::new("mkfifo").arg(&device).status().expect("mkfifo").success());
    for out in [&device, &link, &place.path("")] {
        assert!(assert_exit(&place.run(&["resolve", "--env", &env, "--out", out]), 2).contains("FILE_ERROR"));
    }
    assert!(fs::symlink_metadata(&link).expect("it stays").is_symlink());
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        let mut lost = place.matrix(&["resolve", "--env", &env, "--out", "-"]);
        assert_exit(&lost.stdout(full).output().expect("it starts"), 2);
    }
    assert_exit(&place.run(&["resolve", "--env", &env]), 0);
    let written = fs::read_to_string(place.path("env.lock")).expect("a lockfile");
    assert!(written.contains("pip=="), "{written}");
}

/// The lockfile with the placeholder in its first line.
fn zeroed(lock: &str) -> String {
    let (first, rest) = lock.split_once('\n').expect("lines");
    let (key, _) = first.split_once("sha256:").expect("a digest");
    format!("{key}sha256:{}\n{rest}", "0".repeat(64))
}

/// A77: without uv, resolving is refused with what to do, and nothing is made.
fn resolving_without_uv() {
    let place = Place::new();
    let env = place.file("env.toml", include_str!("../fixtures/environment.toml"));
    for arguments in [&["resolve", "--env", &env][..], &["run", "--env", &env]] {
        let mut command: Command = place.matrix(arguments);
        let said = assert_exit(&command.env("PATH", place.path("nothing")).output().expect("it starts"), 2);
        assert!(said.contains("CAPABILITY_UNSUPPORTED") && said.contains("uv"), "{said}");
        assert!(!place.state().join("ledgers").exists(), "something was made");
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial_with_sandboxes("kept_by_one_launched_by_others", false, kept_by_one_process_launched_by_others),
        trial_with_sandboxes("records_that_cannot_be_used", false, records_that_cannot_be_used),
        trial_with_sandboxes(
            "a75_a_leak_in_a_kept_artifact_is_found",
            false,
            a_leak_in_a_kept_artifact_is_found,
        ),
        trial_with_sandboxes("a_lost_record_strands_nothing", false, a_lost_record_strands_nothing),
        trial_with_sandboxes("a29_one_changed_byte_is_named", false, one_changed_byte_is_named),
        trial_with_sandboxes("a29_a_changed_record_is_named", false, a_changed_record_is_named),
        trial_with_sandboxes("pipes_are_not_waited_for", false, pipes_are_not_waited_for),
        trial_with_sandboxes("collection_spares_what_is_needed", false, collection_spares_what_is_needed),
        trial_with_sandboxes("builds_that_are_not_kept", false, builds_that_are_not_kept),
        trial_with_sandboxes("killed_while_keeping", false, killed_while_keeping),
        trial("a28_lockfiles_that_do_not_agree", lockfiles_that_do_not_agree),
        trial("lockfiles_go_where_they_can_be", lockfiles_go_where_they_can_be),
        trial("a77_resolving_without_uv", resolving_without_uv),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}
