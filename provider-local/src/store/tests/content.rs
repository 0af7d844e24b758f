//! Manifests: what they say of a layer, and what differs from them.

use super::*;
use rustix::fs::{CWD, FileType, Mode, OFlags, XattrFlags};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Publishes what `fill` puts into the folder of a layer.
fn publish_filled(store: &Store, name: &str, fill: impl FnOnce(&Path)) -> Layer {
    let lock = store.lock_layer(&key(name), Duration::ZERO).expect("a lock");
    let folder = store.create_box(&format!("build-{name}"), &journal(&[])).expect("a box");
    make_dir_with_mode(&folder.path().join("up"), 0o755).expect("a folder");
    fill(&folder.path().join("up"));
    let layer = folder.publish(&lock, Layout::Whole, json!({ "step": name })).expect("a layer");
    folder.discard().expect("removed");
    layer
}

fn place(store: &Store, name: &str) -> PathBuf {
    store.path("layer").join(name)
}

fn lines(store: &Store, name: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(place(store, name).join("manifest")).expect("a manifest");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// A tree with something of every kind, which an ordinary user can make.
fn every_kind(up: &Path) {
    for folder in ["a", "a/empty", "a-b"] {
        make_dir_with_mode(&up.join(folder), 0o755).expect("a folder");
    }
    write(&up.join("a/file"), "content", 0o4755);
    write(&up.join("a-b/last"), "", 0o600);
    write(&up.join(OsStr::from_bytes(b"n\xff\n%")), "odd", 0o644);
    std::os::unix::fs::symlink("/etc/shadow", up.join("a/link")).expect("a link");
    rustix::fs::mknodat(CWD, up.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    rustix::fs::mknodat(CWD, up.join("gone"), FileType::CharacterDevice, Mode::empty(), 0)
        .expect("a whiteout");
}

/// Whether marks as an ordinary user's overlay writes them can be made here.
fn mark(path: &Path, name: &str, value: &[u8]) -> bool {
    match rustix::fs::setxattr(path, name, value, XattrFlags::empty()) {
        Err(rustix::io::Errno::NOTSUP) => false,
        answer => answer.map(|()| true).expect("a mark"),
    }
}

#[test]
fn a_manifest_tells_everything_in_order() {
    let (_folder, store) = store();
    let mut has_marks = false;
    let layer = publish_filled(&store, "k", |up| {
        every_kind(up);
        has_marks = mark(&up.join("a"), "user.overlay.opaque", b"y");
        mark(&up.join("a"), "user.overlay.origin", b"bookkeeping");
    });
    let lines = lines(&store, "k");
    assert_eq!(lines[0], json!({"form": 1, "key": "k", "layout": "whole", "meta": {"step": "k"}}));
    let paths: Vec<&str> = lines[1..].iter().map(|line| line["path"].as_str().expect("a path")).collect();
    assert_eq!(
        paths,
        [".", "a", "a/empty", "a/file", "a/link", "a-b", "a-b/last", "gone", "n%ff%0a%25", "pipe"]
    );
    let kinds: Vec<&str> = lines[1..].iter().map(|line| line["kind"].as_str().expect("a kind")).collect();
    let (folder, file) = ("directory", "file");
    assert_eq!(kinds, [folder, folder, folder, file, "link", folder, file, "whiteout", file, "other"]);
    let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    assert_eq!(
        lines[4],
        json!({
            "path": "a/file", "kind": "file", "mode": "4755", "uid": user.0, "gid": user.1, "size": 7,
            // Of the text "content", by sha256sum(1).
            "sha256": "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73",
        })
    );
    assert_eq!(lines[5]["target"], "/etc/shadow");
    assert_eq!(lines[10]["device"], "pipe");
    if has_marks {
        assert_eq!(lines[2]["attributes"], json!({ "user.overlay.opaque": "79" }));
    }
    let manifest = fs::read(place(&store, "k").join("manifest")).expect("a manifest");
    assert_eq!(layer.digest(), provider_core::environment::sha256_hex(&manifest));
    let again = store.layer(&key("k")).expect("a look").expect("a layer");
    assert_eq!(again.digest(), layer.digest());
    assert_eq!(store.verify_layer(&layer).expect("an answer"), Differences::default());
}

/// What a verification says after a change, as lines.
fn said_after(change: impl FnOnce(&Path)) -> Vec<String> {
    let (_folder, store) = store();
    let layer = publish_filled(&store, "k", every_kind);
    change(&place(&store, "k"));
    let layer = match store.layer(&key("k")) {
        Ok(again) => again.unwrap_or(layer),
        Err(error) => return vec![error.to_string()],
    };
    let differences = store.verify_layer(&layer).expect("an answer");
    assert_eq!(differences.total, differences.listed.len() as u64);
    differences.listed.iter().map(ToString::to_string).collect()
}

fn digest(text: &str) -> String {
    provider_core::environment::sha256_hex(text.as_bytes())
}

#[test]
fn each_difference_is_named() {
    let file = |layer: &Path| layer.join("fs/a/file");
    assert_eq!(said_after(|_| ()), [""; 0]);
    assert_eq!(
        said_after(|layer| write(&file(layer), "Content", 0o4755)),
        [format!("a/file: content is sha256 {}, was sha256 {}", digest("Content"), digest("content"))]
    );
    assert_eq!(
        said_after(|layer| write(&file(layer), "longer content", 0o755)),
        [
            format!(
                "a/file: content is sha256 {}, was sha256 {}",
                digest("longer content"),
                digest("content")
            ),
            "a/file: size is 14, was 7".to_owned(),
            "a/file: mode is 0755, was 4755".to_owned(),
        ]
    );
    assert_eq!(said_after(|layer| fs::remove_file(file(layer)).expect("removed")), ["a/file: is missing"]);
    assert_eq!(
        said_after(|layer| fs::remove_dir_all(layer.join("fs/a")).expect("removed")),
        ["a: is missing", "a/empty: is missing", "a/file: is missing", "a/link: is missing"]
    );
    assert_eq!(
        said_after(|layer| {
            fs::write(layer.join("fs/a/empty/new"), "").expect("a file");
            fs::write(layer.join("fs/z"), "").expect("a file");
        }),
        ["a/empty/new: was added", "z: was added"]
    );
    assert_eq!(
        said_after(|layer| {
            fs::remove_file(layer.join("fs/a/link")).expect("removed");
            std::os::unix::fs::symlink("/etc/passwd", layer.join("fs/a/link")).expect("a link");
            fs::remove_file(layer.join("fs/gone")).expect("removed");
            fs::write(layer.join("fs/gone"), "").expect("a file");
        }),
        ["a/link: link is /etc/passwd, was /etc/shadow", "gone: is a file, was a whiteout"]
    );
    // A link in a place of a folder is not followed.
    let said = said_after(|layer| {
        fs::rename(layer.join("fs/a"), layer.join("elsewhere")).expect("moved");
        std::os::unix::fs::symlink(layer.join("elsewhere"), layer.join("fs/a")).expect("a link");
    });
    assert_eq!(said[0], "a: is a link, was a directory");
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(said_after(|layer| fs::remove_dir_all(layer.join("fs")).expect("removed")), [".: is missing"]);
}

#[test]
fn a_mark_that_was_taken_away_is_a_difference() {
    let (_folder, store) = store();
    let mut has_marks = false;
    let layer = publish_filled(&store, "k", |up| {
        make_dir(&up.join("a")).expect("a folder");
        has_marks = mark(&up.join("a"), "user.overlay.opaque", b"y");
    });
    if has_marks {
        rustix::fs::removexattr(place(&store, "k").join("fs/a"), "user.overlay.opaque").expect("removed");
        let said = store.verify_layer(&layer).expect("an answer").to_string();
        assert_eq!(said, "a: attributes is {}, was {\"user.overlay.opaque\": \"79\"}");
    }
}

fn flip(path: &Path, index: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[index] ^= 1;
    fs::write(path, bytes).expect("written");
}

/// Every byte of the manifest and of its description, one after the other.
#[test]
fn no_byte_of_a_manifest_or_description_can_change_unnoticed() {
    let (_folder, store) = store();
    publish_filled(&store, "k", every_kind);
    for (name, step) in [("manifest", 7), ("meta.json", 1)] {
        let path = place(&store, "k").join(name);
        let length = fs::metadata(&path).expect("a file").len();
        for index in (0..usize::try_from(length).expect("a size")).step_by(step) {
            flip(&path, index);
            match store.layer(&key("k")) {
                Ok(Some(layer)) => {
                    let said = store.verify_layer(&layer).expect("an answer");
                    let first = said.listed.first().expect("a difference");
                    // With another digest in the description, it is the manifest that seems changed.
                    assert!(
                        ["manifest", "meta.json"].contains(&first.path.as_str()),
                        "{name} {index}: {said}"
                    );
                }
                // Its form seems to be another one.
                Ok(None) => assert_eq!(name, "meta.json", "{index}"),
                Err(error) => assert!(error.to_string().contains("meta.json"), "{name} {index}: {error}"),
            }
            flip(&path, index);
        }
    }
    let layer = store.layer(&key("k")).expect("a look").expect("a layer");
    fs::write(place(&store, "k").join("manifest"), vec![b'\n'; 1000]).expect("written");
    let said = store.verify_layer(&layer).expect("an answer");
    assert!(said.total > 1000 && said.listed.len() == 20, "{said}");
    assert!(said.to_string().contains("more)"), "{said}");
    fs::remove_file(place(&store, "k").join("manifest")).expect("removed");
    assert_eq!(store.verify_layer(&layer).expect("an answer").to_string(), "manifest: is missing");
}

/// As layers were before they had manifests.
#[test]
fn a_layer_of_an_older_version_is_not_found_and_makes_room() {
    let (_folder, store) = store();
    let old = place(&store, "k");
    fs::create_dir_all(old.join("fs")).expect("a folder");
    fs::write(old.join("fs/old"), "").expect("a file");
    fs::write(old.join("meta.json"), r#"{"layout":"whole","meta":null}"#).expect("a file");
    assert!(store.layer(&key("k")).expect("a look").is_none());
    assert!(store.layers().expect("a list").is_empty());
    let looked = store.collect_with(&Collection { only_look: true, ..Collection::default() });
    assert_eq!(looked.expect("a look").layers.len(), 1);
    publish_filled(&store, "k", every_kind);
    assert!(!old.join("fs/old").exists() && old.join("fs/a/file").exists());
    assert!(is_empty(&store));
}

#[test]
fn a_path_without_end_is_refused() {
    let (_folder, store) = store();
    let lock = store.lock_layer(&key("k"), Duration::ZERO).expect("a lock");
    let folder = store.create_box("b", &journal(&[])).expect("a box");
    let up = folder.path().join("up");
    make_dir(&up).expect("a folder");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here = rustix::fs::open(&up, flags, Mode::empty()).expect("open");
    let name = "d".repeat(250);
    for _ in 0..20 {
        rustix::fs::mkdirat(&here, &name, Mode::RWXU).expect("a folder");
        here = rustix::fs::openat(&here, &name, flags, Mode::empty()).expect("open");
    }
    let error = folder.publish(&lock, Layout::Whole, json!(null)).expect_err("an error");
    assert!(matches!(error, StoreError::Unfit { .. }) && error.to_string().contains("4096"), "{error}");
    assert!(store.layer(&key("k")).expect("a look").is_none());
    folder.discard().expect("removed");
    assert!(is_empty(&store));
}

/// As root, everything can be read.
#[test]
fn what_its_owner_may_not_read_is_told_without_content() {
    let (_folder, store) = store();
    let close = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    let layer = publish_filled(&store, "k", |up| {
        for folder in ["closed", "listable"] {
            make_dir(&up.join(folder)).expect("a folder");
            write(&up.join(folder).join("inner"), "inner", 0o644);
        }
        write(&up.join("secret"), "content", 0);
        close(&up.join("closed"), 0);
        close(&up.join("listable"), 0o400);
    });
    let lines = lines(&store, "k");
    let paths: Vec<&str> = lines[1..].iter().map(|line| line["path"].as_str().expect("a path")).collect();
    if rustix::process::geteuid().is_root() {
        assert_eq!(paths, [".", "closed", "closed/inner", "listable", "listable/inner", "secret"]);
        assert_eq!(lines[6]["sha256"], digest("content"));
    } else {
        assert_eq!(paths, [".", "closed", "listable", "secret"]);
        assert_eq!((&lines[4]["sha256"], &lines[4]["size"]), (&json!(null), &json!(7)));
    }
    assert!(store.verify_layer(&layer).expect("an answer").is_empty());
    close(&place(&store, "k").join("fs/secret"), 0o600);
    let said = store.verify_layer(&layer).expect("an answer").to_string();
    assert!(said.starts_with("secret: "), "{said}");
    for folder in ["closed", "listable"] {
        close(&place(&store, "k").join("fs").join(folder), 0o700);
    }
}

#[test]
fn a_layer_is_discarded_only_if_nobody_uses_it() {
    let (_folder, store) = store();
    publish(&store, "k");
    store.put_record("r", &Record { layers: vec![key("k")], body: json!(1) }).expect("put");
    let folder = store.create_box("b", &journal(&[key("k")])).expect("a box");
    let lock = store.lock_layer(&key("k"), Duration::ZERO).expect("a lock");
    let refused = |user: &str| {
        let error = store.discard_layer(&lock).expect_err("it is used").to_string();
        assert!(error.contains("\"k\"") && error.contains(user), "{error}");
        assert!(store.layer(&key("k")).expect("a look").is_some());
    };
    refused("the artifact r");
    store.remove_record("r").expect("removed");
    refused("the box b");
    folder.discard().expect("removed");
    assert!(store.discard_layer(&lock).expect("discarded"));
    assert!(!store.discard_layer(&lock).expect("nothing to do"));
    assert!(store.layer(&key("k")).expect("a look").is_none() && is_empty(&store));
}

#[test]
fn what_was_used_of_late_is_spared() {
    let (_folder, store) = store();
    let hour = Duration::from_secs(3600);
    for name in ["new", "old", "touched", "unknown", "yet-to-come"] {
        publish(&store, name);
    }
    let set = |name: &str, time: std::time::SystemTime| {
        let file =
            fs::OpenOptions::new().append(true).open(place(&store, name).join("used")).expect("a file");
        file.set_modified(time).expect("a time");
    };
    let now = std::time::SystemTime::now();
    for name in ["old", "touched"] {
        set(name, now - 2 * hour);
    }
    set("yet-to-come", now + 1000 * hour);
    fs::remove_file(place(&store, "unknown").join("used")).expect("removed");
    store.touch_layer(&store.layer(&key("touched")).expect("a look").expect("a layer"));
    let wishes = Collection { unused_for: Some(hour), only_look: true, ..Collection::default() };
    let looked = store.collect_with(&wishes).expect("a look");
    assert_eq!(store.layers().expect("a list").len(), 5, "a look removes nothing");
    let collected = store.collect_with(&Collection { only_look: false, ..wishes }).expect("a collection");
    assert_eq!(collected.layers.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["old", "unknown"]);
    assert_eq!(collected.recent, [key("new"), key("touched"), key("yet-to-come")]);
    let removed =
        |collected: &Collected| collected.layers.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    assert_eq!((removed(&looked), looked.recent), (removed(&collected), collected.recent));
    assert!(looked.bytes > 0);
    assert!(is_empty(&store));
}

/// What comparing a usual layer takes; run it with `--ignored --nocapture`.
#[test]
#[ignore = "it measures, and asserts nothing"]
fn the_cost_of_a_thousand_files() {
    let (_folder, store) = store();
    let start = std::time::Instant::now();
    let mut filled = start;
    let layer = publish_filled(&store, "k", |up| {
        for folder in 0..20 {
            fs::create_dir(up.join(folder.to_string())).expect("a folder");
            for file in 0..50 {
                let bytes = vec![b'x'; 12 << 10];
                fs::write(up.join(format!("{folder}/{file}")), bytes).expect("a file");
            }
        }
        filled = std::time::Instant::now();
    });
    let published = filled.elapsed();
    let start = std::time::Instant::now();
    for _ in 0..10 {
        assert!(store.verify_layer(&layer).expect("an answer").is_empty());
    }
    println!("published in {published:?}, compared in {:?}", start.elapsed() / 10);
}
