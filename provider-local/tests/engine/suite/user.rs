//! As root, the whole suite once more as an ordinary user.

use super::common::is_root;
use libtest_mimic::{Completion, Trial};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A user that no machine has.
const STRANGER: u32 = 54321;

pub(crate) fn trial() -> Option<Trial> {
    is_root().then(|| Trial::ignorable_test("user::the_suite_passes_as_an_ordinary_user", run))
}

fn run() -> Result<Completion, libtest_mimic::Failed> {
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let program = folder.path().join("engine-tests");
    // The program may lie where the user cannot go.
    fs::copy(std::env::current_exe()?, &program)?;
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary)?;
    chown(&temporary, Some(STRANGER), Some(STRANGER))?;
    let output = Command::new(&program)
        .env_clear()
        .env("TMPDIR", &temporary)
        .env("PATH", super::common::PATH)
        .current_dir("/")
        .uid(STRANGER)
        .gid(STRANGER)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(format!("{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    let summary = said.lines().find(|line| line.starts_with("test result")).unwrap_or_default();
    if summary.contains(" 0 passed") {
        let reason = said.lines().find(|line| line.contains("ignored")).unwrap_or("everything was ignored");
        return Ok(Completion::ignored_with(reason.to_owned()));
    }
    println!("{summary}");
    Ok(Completion::Completed)
}
