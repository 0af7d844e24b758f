//! A75: the value of a secret is nowhere to be found, on good ways and on bad ones.

use std::{fs, os::unix::ffi::OsStrExt as _, path::Path, time::Duration};

use provider_core::{error::Code, lifecycle::Progress};

use crate::{common::*, leg::full_spec, logs};

fn holders(folder: &Path) -> Vec<String> {
    holders_of(CANARY, folder)
}

/// The files below a folder that hold the canary, or have it in their name.
pub(crate) fn holders_of(canary: &str, folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let holds = |bytes: &[u8]| bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            if holds(path.as_os_str().as_bytes()) {
                found.push(path.display().to_string());
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() && holds(&fs::read(&path).unwrap_or_default()) => {
                    found.push(path.display().to_string());
                }
                _ => {}
            }
        }
    }
    found
}

pub(crate) fn a_canary_is_nowhere() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let (progress, mut events) = Progress::channel();
        let mut spec = full_spec();
        spec.spec.commands.post_install.push("env; cat /run/secrets/KEY_FILE; echo; sleep 0.3".into());
        let build = session.build_observed(&world.provider, world.request(spec), progress);
        // While the commands run, with the secrets in their variables and files.
        let look = async {
            wait_until("the build has a box", || !world.names_in("box").is_empty()).await;
            for _ in 0..20 {
                let found = holders(world.folder.path());
                assert!(found.is_empty(), "{found:?}");
                pause(Duration::from_millis(15)).await;
            }
        };
        let (built, ()) = tokio::join!(build, look);
        let artifact = built.expect("an artifact");
        let mut seen = 0;
        while let Some(event) = events.try_next() {
            let text = format!("{event:?}");
            assert!(!text.contains(CANARY), "{text}");
            seen += usize::from(text.contains("[secret]"));
        }
        assert!(seen >= 2, "the log shows where the secrets were");

        let mut broken = full_spec();
        broken.spec.commands.post_install.push("echo $TOKEN; cat /run/secrets/KEY_FILE; exit 1".into());
        let error = assert_code(world.build(&session, broken).await, Code::BuildFailed);
        let sandbox = world.launch(&session, &artifact).await;
        let environment = say(&**sandbox, "env; cat /proc/1/environ; cat /opt/provider/* | tail -n 40").await;
        let report = session.close(LIMIT).await;
        for text in [
            format!("{error:?}"),
            environment,
            format!("{report:?}"),
            serde_json::to_string(&*artifact).expect("JSON"),
        ] {
            assert!(!text.contains(CANARY), "{text}");
        }
        let found = holders(world.folder.path());
        assert!(found.is_empty(), "{found:?}");
        let logged = logs::text();
        for target in ["provider_core", "created", "deleted"] {
            assert!(logged.contains(target), "the log has no line with {target}");
        }
        assert!(!logged.contains(CANARY), "the log shows a secret");
    });
    Ok(())
}
