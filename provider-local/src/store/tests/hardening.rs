//! Folders of others, trees without end, and locks that nobody lets go of.

use super::*;
use rustix::fs::{Mode, OFlags};
use std::process::Command;
use std::time::Instant;

/// All that is in a folder, with modes and contents.
fn picture(path: &Path) -> Vec<String> {
    let metadata = path.symlink_metadata().expect("metadata");
    let mut lines = vec![format!("{} {:o}", path.display(), metadata.mode())];
    if metadata.is_dir() {
        for name in files::names(path).expect("names") {
            lines.extend(picture(&path.join(name)));
        }
    } else {
        lines.push(fs::read_to_string(path).expect("text"));
    }
    lines
}

#[test]
fn a_folder_of_somebody_else_is_refused_untouched() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let home = folder.path().join("home");
    for name in ["tmp/a", "box/photos", "trash"] {
        fs::create_dir_all(home.join(name)).expect("a folder");
    }
    for name in ["tmp/a/letter", "box/photos/one", "trash/old", "tmp/x.1-2-3"] {
        fs::write(home.join(name), name).expect("a file");
    }
    fs::set_permissions(&home, Permissions::from_mode(0o755)).expect("a mode");
    let refused = |what: &str| {
        let before = picture(&home);
        let error = Store::open(&home).expect_err(what);
        assert!(matches!(error, StoreError::NotOurs { .. }), "{what}: {error}");
        let words = error.to_string();
        assert!(words.contains("home") && words.contains("choose another"), "{words}");
        assert_eq!(picture(&home), before, "{what}");
    };
    refused("no marks");
    fs::write(home.join("VERSION"), VERSION).expect("a file");
    refused("a version alone");
    fs::write(home.join("owner-id"), "me").expect("a file");
    refused("another owner-id");
    fs::write(home.join("owner-id"), "0123456789abcdef".repeat(2)).expect("a file");
    fs::write(home.join("VERSION"), "v1.2 of my notes").expect("a file");
    refused("another VERSION");
}

#[test]
fn a_folder_that_is_empty_or_barely_begun_is_adopted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let begun: [&[(&str, &str)]; 4] = [
        &[],
        &[(".VERSION.1-0-ab", "")],
        &[("VERSION", VERSION)],
        &[("VERSION", VERSION), (".owner-id.1-1-ab", "01234567"), (".VERSION.2-0-ac", VERSION)],
    ];
    for (number, files) in begun.iter().enumerate() {
        let path = folder.path().join(number.to_string());
        fs::create_dir(&path).expect("a folder");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("a mode");
        for (name, text) in *files {
            fs::write(path.join(name), text).expect("a file");
        }
        let store = Store::open(&path).expect("a store");
        assert_eq!(fs::metadata(&path).expect("a folder").mode() & 0o7777, 0o700);
        assert_eq!(Store::open(&path).expect("a store").owner_id(), store.owner_id());
    }
}

#[test]
fn a_reap_leaves_names_that_are_not_ours() {
    let (_folder, store) = store();
    for name in ["box/photos", "box/.hidden", "tmp/work", "trash/old"] {
        fs::create_dir(store.path(name)).expect("a folder");
        fs::write(store.path(name).join("file"), "x").expect("a file");
    }
    for name in ["box/list.txt", "tmp/notes.txt", "tmp/1-2", "trash/letter", "trash/a.1-2-x"] {
        fs::write(store.path(name), "x").expect("a file");
    }
    std::os::unix::fs::symlink(store.path("trash/old"), store.path("tmp/link.1-2-3")).expect("a link");
    let before = picture(&store.path("box"));
    assert_eq!(store.reap().expect("a reap"), Reaped::default());
    assert_eq!(picture(&store.path("box")), before);
    assert_eq!(files::names(&store.path("tmp")).expect("names"), ["1-2", "link.1-2-3", "notes.txt", "work"]);
    assert_eq!(files::names(&store.path("trash")).expect("names"), ["a.1-2-x", "letter", "old"]);
    assert!(store.path("trash/old/file").exists());
}

fn make_deep(path: &Path, depth: usize) {
    fs::create_dir(path).expect("a folder");
    let open = |path: &Path| fs::File::open(path).map(std::os::fd::OwnedFd::from).expect("open");
    let mut here = open(path);
    for level in 0..depth {
        rustix::fs::mkdirat(&here, "d", Mode::RWXU).expect("a folder");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let below = rustix::fs::openat(&here, "d", flags, Mode::empty()).expect("open");
        if level % 1000 == 999 {
            // Root passes all the same; an ordinary user has to open these up.
            rustix::fs::fchmod(&here, Mode::empty()).expect("a mode");
        }
        here = below;
    }
}

/// In a process of its own, since the limit of open files is one for all threads.
#[test]
fn a_tree_without_end_is_measured_and_removed_with_few_open_files() {
    const NAME: &str =
        "store::tests::hardening::a_tree_without_end_is_measured_and_removed_with_few_open_files";
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limit.current != Some(24) {
        let line = "ulimit -n 24 && exec \"$0\" --exact \"$1\" --test-threads=1";
        let this = std::env::current_exe().expect("this program");
        let output = Command::new("sh").arg("-c").arg(line).arg(this).arg(NAME).output().expect("a process");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{}: {output:?}", output.status);
        return;
    }
    let (folder, store) = store();
    let outside = folder.path().join("outside");
    fs::write(&outside, "stays").expect("a file");
    let deep = store.path("trash/deep.1-2-3");
    make_deep(&deep, 15_000);
    std::os::unix::fs::symlink(folder.path(), deep.join("link")).expect("a link");
    assert!(files::tree_size(&deep) < u64::MAX);
    assert_eq!(store.reap().expect("a reap").others, 1);
    assert!(is_empty(&store));
    assert_eq!(fs::read_to_string(outside).expect("text"), "stays");
}

#[test]
fn a_size_counts_what_is_deep_and_no_links() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tree");
    make_deep(&path, 20);
    let before = files::tree_size(&path);
    fs::write(path.join("d/d/d/file"), vec![1; 100_000]).expect("a file");
    fs::write(folder.path().join("outside"), vec![1; 1_000_000]).expect("a file");
    std::os::unix::fs::symlink(folder.path(), path.join("d/link")).expect("a link");
    let grown = files::tree_size(&path) - before;
    assert!((100_000..200_000).contains(&grown), "{grown}");
    assert_eq!(files::tree_size(&folder.path().join("none")), 0);
}

/// Several removals of one tree, as when a reaper meets the owner of a box.
#[test]
fn a_tree_is_removed_by_several_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tree");
    for _ in 0..20 {
        fs::create_dir(&path).expect("a folder");
        for wide in 0..20 {
            make_deep(&path.join(wide.to_string()), 20);
        }
        std::thread::scope(|scope| {
            let removals: Vec<_> = (0..4).map(|_| scope.spawn(|| files::remove_tree(&path))).collect();
            for removal in removals {
                removal.join().expect("a thread").expect("removed");
            }
        });
        assert!(!is_there(&path));
    }
}

#[test]
fn nobody_waits_for_a_lock_for_ever() {
    let check = |name: &str, call: fn(&Store) -> Result<(), StoreError>| {
        let (_folder, store) = store();
        let path = store.path(name);
        let file = files::open_lock(&path).expect("opened").expect("there");
        let held = Held::attempt(file, &path, Want::Exclusive).expect("an answer").expect("the lock");
        let start = Instant::now();
        let error = call(&store).expect_err("it is locked");
        let waited = start.elapsed();
        assert!((Duration::from_secs(4)..Duration::from_secs(9)).contains(&waited), "{name}: {waited:?}");
        let words = error.to_string();
        assert!(matches!(error, StoreError::Locked { .. }), "{words}");
        assert!(words.contains(&path.display().to_string()) && words.contains("another process"), "{words}");
        drop(held);
        call(&store).expect("free again");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| check("reap.lock", |store| store.reap().map(drop)));
        scope.spawn(|| check("tmp", |store| store.reap().map(drop)));
        scope.spawn(|| check("tmp", |store| store.try_writing()));
        scope.spawn(|| check("collect.lock", |store| store.collect(&[]).map(drop)));
        scope.spawn(|| check("collect.lock", |store| store.create_box("b", &journal(&[])).map(drop)));
    });
}
