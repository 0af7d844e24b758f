//! A small system in a folder, put together from this machine's tools.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use provider_core::contract::SANDBOX_V1;

const TOOLS: &[&str] = &[
    "awk",
    "cat",
    "chmod",
    "cp",
    "cut",
    "date",
    "dirname",
    "env",
    "find",
    "grep",
    "head",
    "id",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "od",
    "pwd",
    "readlink",
    "rm",
    "rmdir",
    "sed",
    "setsid",
    "sh",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "tail",
    "test",
    "touch",
    "tr",
    "true",
    "uname",
    "wc",
    "xargs",
];

/// Puts the tools, their libraries and what the contract asks of a base into a folder.
pub(crate) fn fill(folder: &Path) {
    let mut files = BTreeSet::from([PathBuf::from("/etc/os-release"), PathBuf::from(SANDBOX_V1.ca_bundle)]);
    let tools: Vec<PathBuf> = TOOLS.iter().filter_map(|tool| found(tool)).collect();
    let listed = Command::new("ldd").args(&tools).output().expect("ldd");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
    files.extend(libraries.map(PathBuf::from));
    files.extend(tools);
    // Of a system with a merged /usr; names on the way to a file may be links.
    for name in ["bin", "lib", "lib64", "sbin"] {
        if fs::read_link(Path::new("/").join(name)).is_ok() {
            fs::create_dir_all(folder.join("usr").join(name)).expect("a folder");
            std::os::unix::fs::symlink(Path::new("usr").join(name), folder.join(name)).expect("a link");
        }
    }
    for file in files {
        let target = folder.join(file.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(target.parent().expect("a parent")).expect("a folder");
        fs::copy(&file, &target).expect("a copy");
    }
}

fn found(tool: &str) -> Option<PathBuf> {
    let folders = SANDBOX_V1.path.split(':');
    folders.map(|folder| Path::new(folder).join(tool)).find(|path| path.exists())
}
