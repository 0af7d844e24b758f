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
    files.extend(libraries(&tools));
    files.extend(tools);
    // Of a system with a merged /usr; names on the way to a file may be links.
    for name in ["bin", "lib", "lib64", "sbin"] {
        if fs::read_link(Path::new("/").join(name)).is_ok() {
            fs::create_dir_all(folder.join("usr").join(name)).expect("a folder");
            std::os::unix::fs::symlink(Path::new("usr").join(name), folder.join(name)).expect("a link");
        }
    }
    copy(&files, folder);
}

/// The libraries of these programs.
fn libraries(programs: &[PathBuf]) -> Vec<PathBuf> {
    let listed = Command::new("ldd").args(programs).output().expect("ldd");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let words = text.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
    words.map(PathBuf::from).collect()
}

fn copy(files: &BTreeSet<PathBuf>, folder: &Path) {
    for file in files {
        let target = folder.join(file.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(target.parent().expect("a parent")).expect("a folder");
        fs::copy(file, &target).expect("a copy");
    }
}

/// Adds this machine's own Python, with its standard library but without what brings or is an installer, and without
/// these parts.
pub(crate) fn add_python(folder: &Path, without: &[&str]) {
    const LEFT_OUT: [&str; 8] = [
        "__pycache__",
        "dist-packages",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "site-packages",
        "test",
        "tkinter",
    ];
    let python = found("python3").and_then(|path| path.canonicalize().ok()).expect("python3");
    let ask = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let said = Command::new(&python).args(["-I", "-c", ask]).output().expect("python3").stdout;
    let library = PathBuf::from(String::from_utf8_lossy(&said).trim());
    let (mut folders, mut files) = (vec![library], BTreeSet::from([python.clone()]));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let is_left_out = LEFT_OUT.iter().chain(without).any(|name| entry.file_name() == *name);
            // Links lead out of it, to settings that a base need not have.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_left_out => folders.push(path),
                Ok(kind) if kind.is_file() => drop(files.insert(path)),
                _ => {}
            }
        }
    }
    let programs =
        files.iter().filter(|path| **path == python || path.extension().is_some_and(|end| end == "so"));
    files.extend(libraries(&programs.cloned().collect::<Vec<_>>()));
    copy(&files, folder);
    let link = folder.join("usr/bin/python3");
    if !link.exists() {
        std::os::unix::fs::symlink(python, link).expect("a link");
    }
}

fn found(tool: &str) -> Option<PathBuf> {
    let folders = SANDBOX_V1.path.split(':');
    folders.map(|folder| Path::new(folder).join(tool)).find(|path| path.exists())
}
