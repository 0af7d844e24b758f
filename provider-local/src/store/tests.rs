//! Tests of the state folder alone, without boxes that run.

mod content;
mod hardening;

use super::*;
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Store::open(&folder.path().join("a/state")).expect("a store");
    (folder, store)
}

fn key(name: &str) -> LayerKey {
    LayerKey::new(name).expect("a key")
}

fn journal(layers: &[LayerKey]) -> Journal {
    Journal::new("name", layers, json!({"a": 1}))
}

fn publish(store: &Store, name: &str) {
    let lock = store.lock_layer(&key(name), Duration::ZERO).expect("a lock");
    let folder = store.create_box(&format!("build-{name}"), &journal(&[])).expect("a box");
    make_dir(&folder.path().join("up")).expect("a folder");
    fs::write(folder.path().join("up/file"), name).expect("a file");
    folder.publish(&lock, Layout::Whole, json!(name)).expect("a layer");
}

fn is_empty(store: &Store) -> bool {
    ["box", "tmp", "trash"].iter().all(|name| files::names(&store.path(name)).expect("names").is_empty())
}

#[test]
fn the_folder_is_private_and_keeps_its_name() {
    let (folder, store) = store();
    assert_eq!(fs::metadata(store.root()).expect("a folder").mode() & 0o777, 0o700);
    assert_eq!(store.owner_id().len(), 32);
    let again = Store::open(&folder.path().join("a/state")).expect("a store");
    assert_eq!(again.owner_id(), store.owner_id());
    assert_eq!(fs::read_to_string(store.path("VERSION")).expect("a file"), VERSION);
}

#[test]
fn many_openers_agree() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("state");
    let start = Barrier::new(8);
    let ids: Vec<String> = std::thread::scope(|scope| {
        let open = || {
            start.wait();
            Store::open(&path).expect("a store").owner_id().to_owned()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    let leftovers: Vec<String> = files::names(&path).expect("names");
    assert!(leftovers.iter().all(|name| !name.starts_with('.')), "{leftovers:?}");
}

#[test]
fn another_version_is_refused() {
    let (_folder, store) = store();
    fs::write(store.path("VERSION"), "99").expect("a file");
    let error = Store::open(store.root()).expect_err("an error").to_string();
    assert!(error.contains("\"99\"") && error.contains("choose another"), "{error}");
}

#[test]
fn names_that_are_no_file_names_are_refused() {
    let (_folder, store) = store();
    for name in ["", ".", "..", ".x", "a/b", "a\0b", "ä", &"x".repeat(200)] {
        assert!(matches!(store.find_box(name), Err(StoreError::BadName { .. })), "{name:?}");
        assert!(matches!(store.record(name), Err(StoreError::BadName { .. })), "{name:?}");
        assert!(matches!(LayerKey::new(name), Err(StoreError::BadName { .. })), "{name:?}");
    }
    assert!(LayerKey::new("a.lock").is_err());
}

#[test]
fn a_box_is_busy_while_its_lock_is_held() {
    let (_folder, store) = store();
    let folder = store.create_box("one", &journal(&[])).expect("a box");
    let entry = store.find_box("one").expect("a look").expect("a box");
    assert!(entry.busy);
    assert_eq!((entry.name.as_str(), entry.journal), ("name", json!({"a": 1})));
    assert_eq!(store.remove_box("one").expect("an answer"), Removal::Busy);
    assert!(matches!(store.create_box("one", &journal(&[])), Err(StoreError::BoxExists { .. })));
    folder.discard().expect("removed");
    assert_eq!(store.remove_box("one").expect("an answer"), Removal::AlreadyGone);
    assert!(is_empty(&store));
}

/// What a killed process leaves: the folder, and a lock that nobody holds.
fn abandon(store: &Store, id: &str) {
    let folder = store.create_box(id, &journal(&[])).expect("a box");
    let copy = store.path("box").join("copy");
    fs::rename(folder.path(), &copy).expect("moved");
    drop(folder);
    fs::rename(copy, store.path("box").join(id)).expect("moved");
}

#[test]
fn a_free_lock_means_removable() {
    let (_folder, store) = store();
    abandon(&store, "dead");
    assert!(!store.find_box("dead").expect("a look").expect("a box").busy);
    assert_eq!(store.remove_box("dead").expect("an answer"), Removal::Removed);
    assert!(is_empty(&store));
}

#[test]
fn reaping_takes_the_dead_and_leaves_the_living() {
    let (_folder, store) = store();
    abandon(&store, "dead");
    let living = store.create_box("living", &journal(&[])).expect("a box");
    fs::create_dir(store.path("tmp/unfinished.1-0-a")).expect("a folder");
    fs::write(store.path("tmp/unfinished.json.1-1-a"), "").expect("a file");
    fs::create_dir_all(store.path("trash/old.1-2-a/work/work")).expect("a folder");
    fs::set_permissions(store.path("trash/old.1-2-a/work/work"), Permissions::from_mode(0o0))
        .expect("a mode");
    let reaped = store.reap().expect("a reap");
    let expected = (vec!["dead".to_owned()], vec!["living".to_owned()], 3);
    assert_eq!((reaped.boxes, reaped.busy, reaped.others), expected);
    living.discard().expect("removed");
    assert!(is_empty(&store));
    assert_eq!(store.reap().expect("a reap"), Reaped::default());
}

/// Newborn boxes and a reaper, many times: no newborn is ever taken away.
#[test]
fn a_reaper_never_takes_a_newborn() {
    let (_folder, store) = store();
    let done = AtomicUsize::new(0);
    let make = |maker: usize| {
        for number in 0..100 {
            let id = format!("b{maker}-{number}");
            let folder = store.create_box(&id, &journal(&[])).expect("a box");
            assert!(folder.path().join("journal.json").exists());
            folder.discard().expect("removed");
            let record = Record { layers: vec![], body: json!(number) };
            store.put_record(&format!("r{maker}"), &record).expect("put");
        }
        done.fetch_add(1, Ordering::SeqCst);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| make(0));
        scope.spawn(|| make(1));
        while done.load(Ordering::SeqCst) < 2 {
            store.reap().expect("a reap");
        }
    });
    store.reap().expect("a reap");
    assert!(is_empty(&store));
}

#[test]
fn records_come_back() {
    let (_folder, store) = store();
    assert_eq!(store.record("a.b").expect("a look"), None);
    let missing = Record { layers: vec![key("none")], body: json!(null) };
    assert!(matches!(store.put_record("a.b", &missing), Err(StoreError::NoLayer { .. })));
    for body in [json!({"x": [1, 2]}), json!("new")] {
        let record = Record { layers: vec![], body };
        store.put_record("a.b", &record).expect("put");
        assert_eq!(store.record("a.b").expect("a look"), Some(record.clone()));
        assert_eq!(store.records().expect("a list"), [("a.b".to_owned(), record)]);
    }
    assert!(store.remove_record("a.b").expect("removed"));
    assert!(!store.remove_record("a.b").expect("removed"));
    assert!(is_empty(&store));
}

#[test]
fn a_collection_keeps_what_is_needed() {
    let (_folder, store) = store();
    for name in ["recorded", "busy", "in-use", "locked", "spare", "spare-2"] {
        publish(&store, name);
    }
    store.put_record("r", &Record { layers: vec![key("recorded")], body: json!(1) }).expect("put");
    let folder = store.create_box("b", &journal(&[key("busy")])).expect("a box");
    let lock = store.lock_layer(&key("locked"), Duration::ZERO).expect("a lock");
    let collected = store.collect(&[key("in-use")]).expect("a collection");
    let removed: Vec<&LayerKey> = collected.layers.iter().map(|(key, _)| key).collect();
    assert_eq!(removed, [&key("spare"), &key("spare-2")]);
    assert!(collected.bytes > 0 && collected.layers.iter().all(|(_, bytes)| *bytes > 0));
    assert_eq!(collected.recorded, [key("recorded")]);
    assert_eq!(collected.busy, [key("busy"), key("in-use"), key("locked")]);
    drop((folder, lock));
    store.remove_record("r").expect("removed");
    assert_eq!(store.collect(&[]).expect("a collection").layers.len(), 4);
    assert_eq!(files::names(&store.path("layer")).expect("names"), Vec::<String>::new());
    assert!(is_empty(&store));
}

#[test]
fn a_damaged_record_stops_a_collection() {
    let (_folder, store) = store();
    publish(&store, "layer");
    fs::write(store.path("art/r.json"), "{").expect("a file");
    assert!(matches!(store.collect(&[]), Err(StoreError::Unreadable { .. })));
    assert!(store.layer(&key("layer")).expect("a look").is_some());
}

#[test]
fn a_box_needs_its_layers() {
    let (_folder, store) = store();
    let answer = store.create_box("b", &journal(&[key("none")]));
    assert!(matches!(answer, Err(StoreError::NoLayer { .. })));
    assert!(is_empty(&store));
}

#[test]
fn a_published_layer_is_never_replaced() {
    let (_folder, store) = store();
    publish(&store, "layer");
    let lock = store.lock_layer(&key("layer"), Duration::ZERO).expect("a lock");
    let folder = store.create_box("again", &journal(&[])).expect("a box");
    make_dir(&folder.path().join("up")).expect("a folder");
    let layer = folder.publish(&lock, Layout::Whole, json!("second")).expect("a layer");
    assert_eq!(layer.meta(), &json!("layer"));
    folder.discard().expect("removed");
    assert!(is_empty(&store));
}

#[test]
fn one_builder_at_a_time() {
    let (_folder, store) = store();
    let lock = store.lock_layer(&key("k"), Duration::ZERO).expect("a lock");
    let second = store.lock_layer(&key("k"), Duration::from_millis(20));
    assert!(matches!(second, Err(StoreError::Locked { .. })));
    store.lock_layer(&key("other"), Duration::ZERO).expect("a lock");
    drop(lock);
    store.lock_layer(&key("k"), Duration::ZERO).expect("a lock");
}
