//! What the trials of the command share: a folder of their own, and the command in it.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use libtest_mimic::{Completion, Failed, Trial};

/// An environment that needs no packages.
pub(crate) const PLAIN: &str = "[metadata]\nname = \"plain\"\n[spec.env]\nGREETING = \"hello\"\n\
                                [[spec.files]]\npath = \"/home/sandbox/work/greeting.txt\"\ncontent = \"hello\\n\"\n\
                                [spec.commands]\npostInstall = [\"cp /home/sandbox/work/greeting.txt /home/sandbox/built.txt\"]\n";

/// A folder for one trial: its state and its inputs.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    pub(crate) fn matrix(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_matrix"));
        command
            .args(arguments)
            .env("PROVIDER_STATE_DIR", self.state())
            .env_remove("PROVIDER_LOCAL_STATE_DIR");
        command.env_remove("PROVIDER_OWNER").env_remove("RUST_LOG");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.matrix(arguments).output().expect("the command starts")
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, content).expect("a file");
        path.display().to_string()
    }

    /// What is in the state folder beside what may stay: the owner's mark, the store's skeleton and cached layers.
    pub(crate) fn left(&self) -> Vec<String> {
        let may_stay = ["owner", "local/owner-id", "local/VERSION", "local/reap.lock", "local/collect.lock"];
        let skeleton = [
            "ledgers",
            "local",
            "local/tmp",
            "local/art",
            "local/trash",
            "local/layer",
            "local/box",
            "local/bin",
        ];
        let mut left = Vec::new();
        walk(&self.state(), &self.state(), &mut left);
        left.retain(|(name, is_folder)| {
            let stays = may_stay.contains(&name.as_str()) || *is_folder && skeleton.contains(&name.as_str());
            // A list of kept things that lists nothing.
            let is_empty =
                name == "kept.jsonl" && fs::metadata(self.state().join(name)).is_ok_and(|it| it.len() == 0);
            !stays && !is_empty && !name.starts_with("local/layer/")
        });
        left.into_iter().map(|(name, _)| name).collect()
    }
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, bool)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        found.push((path.strip_prefix(root).unwrap_or(&path).display().to_string(), is_folder));
        // Layers hold copies of a whole system's folders, some of them closed to us.
        if is_folder && !path.starts_with(root.join("local/layer")) {
            walk(root, &path, found);
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the local leg can run here; else why not.
pub(crate) fn unsuitable() -> Option<String> {
    let place = Place::new();
    let file = place.file("env.toml", PLAIN);
    let output = place.run(&["run", "--env", &file]);
    let err = text(&output.stderr);
    let is_refused = output.status.code() == Some(2) && err.contains("MACHINE_UNSUITABLE");
    (is_refused && !matrix_tests::settings::requires("local")).then(|| err.trim().to_owned())
}

/// A trial.
pub(crate) fn trial(name: &'static str, body: fn()) -> Trial {
    Trial::test(name, move || {
        body();
        Ok::<(), Failed>(())
    })
}

/// A trial that shows as ignored, with the reason, on a machine that cannot run sandboxes.
pub(crate) fn trial_with_sandboxes(name: &'static str, needs_root: bool, body: fn()) -> Trial {
    Trial::ignorable_test(name, move || {
        if needs_root && !rustix::process::geteuid().is_root() {
            return Ok(Completion::ignored_with("only the superuser can mount a small file system"));
        }
        if let Some(reason) = unsuitable() {
            return Ok(Completion::ignored_with(reason));
        }
        body();
        Ok(Completion::Completed)
    })
}

/// The command ended with this code.
#[track_caller]
pub(crate) fn assert_exit(output: &Output, code: i32) -> String {
    let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{all}");
    all
}
