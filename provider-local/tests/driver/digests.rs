//! What differs from what was built is found, named, and not used.

use std::{
    fs,
    path::{Path, PathBuf},
};

use provider_core::{
    environment::{Artifact, EnvironmentSpec, sha256_hex},
    error::Code,
    lifecycle::{Event, Progress, Session},
    provider::{Builder as _, LaunchOptions},
};
use provider_local::{CacheLimits, LocalConfig, LocalProvider};

use crate::common::*;

/// The same state folder as another process sees it, which has compared no layer yet.
pub(crate) fn as_another_process(world: &World) -> World {
    let driver = LocalProvider::open(LocalConfig::new(world.store())).expect("a driver");
    World::at(world.folder.path(), driver)
}

/// An Environment with a file, whose layers are all cache.
fn spec_with_file() -> EnvironmentSpec {
    let mut spec = EnvironmentSpec::named("with-file");
    spec.spec.files = vec![file("/srv/data.txt", "data\n")];
    spec
}

fn flip(path: &Path, word: &str) {
    let mut bytes = fs::read(path).expect("a file");
    let place = bytes.windows(word.len()).position(|window| window == word.as_bytes());
    bytes[place.expect("the word")] ^= 1;
    fs::write(path, bytes).expect("written");
}

/// Where the file of [`spec_with_file`] lies in its layer, and the name of the layer.
fn file_in_layer(world: &World) -> (PathBuf, String) {
    let found = world.layers().into_iter().find_map(|key| {
        let files = world.store().join("layer").join(&key).join("fs");
        let path = ["srv/data.txt", "rest/srv/data.txt"].map(|path| files.join(path));
        path.into_iter().find(|path| path.exists()).map(|path| (path, key))
    });
    found.expect("the file")
}

async fn findings(world: &World, artifact: &Artifact) -> Vec<String> {
    let findings = world.driver.verify(artifact).await.expect("an answer");
    assert!(findings.iter().all(|finding| finding.code == Code::ArtifactMissing), "{findings:?}");
    findings.iter().map(ToString::to_string).collect()
}

async fn refusal(world: &World, session: &Session, artifact: &Artifact) -> String {
    let answer = session.launch(&world.provider, artifact, LaunchOptions::default()).await;
    let error = assert_code(answer, Code::ArtifactMissing);
    assert_eq!(error.advice(), "build it again");
    error.to_string()
}

/// One changed byte, wherever it is, is named by a look and by a launch; and with the byte put right, all is well.
pub(crate) fn one_changed_byte_is_named_and_refused() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let artifact = world.build(&session, spec_with_file()).await.expect("an artifact");
        assert_eq!(findings(&world, &artifact).await, [""; 0]);
        let (path, key) = file_in_layer(&world);
        let layer = world.store().join("layer").join(&key);
        let record = world.store().join("art").join(format!("{}.json", artifact.thing.id));
        let (was, is) = (sha256_hex(b"data\n"), sha256_hex(b"eata\n"));
        let content = format!("srv/data.txt: content is sha256 {is}, was sha256 {was}");
        for (path, word, found, refused) in [
            (path, "data", content.as_str(), content.as_str()),
            (layer.join("manifest"), "0644", "manifest: content is sha256", "manifest: content is sha256"),
            (layer.join("meta.json"), "files", "meta.json: does not say", "meta.json: does not say"),
            (
                layer.join("meta.json"),
                "{",
                "meta.json of one of its layers cannot be understood",
                "meta.json",
            ),
            (record, "with-file", "record: ", "its record is not the one that was built"),
        ] {
            let good = fs::read(&path).expect("a file");
            flip(&path, word);
            let other = as_another_process(&world);
            let said = findings(&other, &artifact).await;
            assert!(said[0].contains(found), "{said:?}");
            assert!(said[0].contains(&key) || said[0].starts_with("record: "), "{said:?}");
            let error = refusal(&other, &session, &artifact).await;
            assert!(error.contains(refused), "{error}");
            // This process built the layer itself; once it has seen the difference, it refuses as well.
            findings(&world, &artifact).await;
            refusal(&world, &session, &artifact).await;
            fs::write(&path, good).expect("written");
            assert_eq!(findings(&world, &artifact).await, [""; 0]);
            drop(
                session
                    .launch(&other.provider, &artifact, LaunchOptions::default())
                    .await
                    .expect("a sandbox"),
            );
        }
        world.close(&session).await;
    });
    Ok(())
}

/// Another layer in the place of one, which is whole in itself.
pub(crate) fn a_layer_that_was_swapped_is_refused() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let artifact = world.build(&session, spec_with_file()).await.expect("an artifact");
        let (_, key) = file_in_layer(&world);
        let mut other = spec_with_file();
        other.spec.files[0].content = Some("other\n".into());
        let second = world.build(&session, other).await.expect("an artifact");
        let folder = |key: &str| world.store().join("layer").join(key);
        let added = world.layers().into_iter().find(|name| {
            *name != key && {
                let meta = fs::read_to_string(folder(name).join("meta.json")).expect("a description");
                meta.contains("files")
            }
        });
        let added = added.expect("the other layer");
        let aside = world.folder.path().join("aside");
        let swap = || {
            fs::rename(folder(&key), &aside).expect("moved");
            fs::rename(folder(&added), folder(&key)).expect("moved");
            fs::rename(&aside, folder(&added)).expect("moved");
        };
        swap();
        let other = as_another_process(&world);
        for artifact in [&artifact, &second] {
            let said = findings(&other, artifact).await;
            assert!(said[0].contains("not the one that was built"), "{said:?}");
            refusal(&other, &session, artifact).await;
        }
        swap();
        assert_eq!(findings(&other, &artifact).await, [""; 0]);
        world.close(&session).await;
    });
    Ok(())
}

/// The record of a version without digests, under a reference that fits it.
pub(crate) fn a_record_of_another_version_is_refused() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let artifact = world.build(&session, spec_with_file()).await.expect("an artifact");
        let path = world.store().join("art").join(format!("{}.json", artifact.thing.id));
        let good = fs::read_to_string(&path).expect("a record");
        for (new, old) in [("\"version\":2", "\"version\":3"), ("\"manifests\":[]", "")] {
            let text = match old {
                "" => {
                    let start = good.find("\"manifests\":[").expect("the digests");
                    let end = start + good[start..].find(']').expect("their end") + 1;
                    format!("{}{new}{}", &good[..start], &good[end..])
                }
                old => good.replace(old, new),
            };
            assert_ne!(text, good);
            fs::write(&path, &text).expect("written");
            let mut of_old = artifact.clone();
            of_old.reference = format!("{}@sha256:{}", artifact.thing.id, sha256_hex(text.as_bytes()));
            let error = refusal(&world, &session, &of_old).await;
            assert!(error.contains("of another version"), "{error}");
            assert!(findings(&world, &of_old).await[0].contains("of another version"));
        }
        fs::write(&path, good).expect("written");
        world.close(&session).await;
    });
    Ok(())
}

/// A cached layer that differs is built again, if nothing stands on it.
pub(crate) fn a_cached_layer_that_differs_is_built_again() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let first = world.build(&session, spec_with_file()).await.expect("an artifact");
        let (path, key) = file_in_layer(&world);
        flip(&path, "data");
        // This process trusts what it built; the next does not.
        let other = as_another_process(&world);
        let error = assert_code(other.build(&session, spec_with_file()).await, Code::BuildFailed);
        assert!(error.message().contains(&key) && error.message().contains("srv/data.txt"), "{error}");
        assert!(error.message().contains(&first.thing.id), "{error}");
        assert!(error.advice().contains(&first.thing.id), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "eata\n", "what is needed stays");
        first.close().await.expect("deleted");

        type Damage = fn(&Path, &Path);
        let damages: [(&str, Damage); 4] = [
            ("content", |_, _| ()),
            ("meta.json", |layer, _| flip(&layer.join("meta.json"), "{")),
            ("manifest", |layer, _| fs::remove_file(layer.join("manifest")).expect("removed")),
            ("was added", |_, file| fs::write(file.with_file_name("new"), "").expect("a file")),
        ];
        for (what, damage) in damages {
            damage(&world.store().join("layer").join(&key), &path);
            let other = as_another_process(&world);
            let (progress, mut events) = Progress::channel();
            let request = other.request(spec_with_file());
            let built =
                session.build_observed(&other.provider, request, progress).await.expect("an artifact");
            let mut logs = Vec::new();
            while let Some(event) = events.try_next() {
                if let Event::Log(line) = event {
                    logs.push(line);
                }
            }
            let is_told = |line: &String| line.contains("built again") && line.contains(what);
            assert!(logs.iter().any(is_told), "{what}: {logs:?}");
            assert_eq!(fs::read_to_string(&path).expect("a file"), "data\n");
            assert_eq!(findings(&other, &built).await, [""; 0]);
            built.close().await.expect("deleted");
        }
        world.driver.collect_cache(&CacheLimits::default()).expect("collected");
        assert_eq!(world.names_in("layer"), [""; 0]);
        world.close(&session).await;
    });
    Ok(())
}
