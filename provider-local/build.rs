//! Builds the helper with the caller's own compiler: a static program that needs neither a C library nor
//! another target.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A ready-made helper, for cross builds whose linker cannot make a static program.
const READY_MADE: &str = "PROVIDER_LOCAL_HELPER";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(embedded)");
    println!("cargo::rerun-if-changed=src/helper");
    println!("cargo::rerun-if-env-changed={READY_MADE}");
    if !wanted() {
        return;
    }
    let helper = match setting(READY_MADE) {
        Some(path) => PathBuf::from(path),
        None => build(),
    };
    println!("cargo::rustc-env=HELPER_PROGRAM={}", helper.display());
    println!("cargo::rustc-cfg=embedded");
}

/// Build scripts have no other way to be told anything.
#[allow(clippy::disallowed_methods, reason = "cargo speaks to build scripts in variables")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn wanted() -> bool {
    let is = |name, values: &[&str]| setting(name).is_some_and(|value| values.contains(&value.as_str()));
    setting("CARGO_FEATURE_EMBEDDED").is_some()
        && is("CARGO_CFG_TARGET_OS", &["linux"])
        && is("CARGO_CFG_TARGET_ARCH", &["x86_64", "aarch64"])
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", &["64"])
        && is("CARGO_CFG_TARGET_ENDIAN", &["little"])
}

fn build() -> PathBuf {
    let helper = Path::new(&setting("OUT_DIR").unwrap_or_default()).join("helper");
    let mut compiler = Command::new(setting("RUSTC").unwrap_or_else(|| "rustc".to_owned()));
    compiler.args(["src/helper/bin.rs", "--edition=2024", "--crate-type=bin", "--crate-name=helper"]);
    compiler.arg("--target").arg(setting("TARGET").unwrap_or_default()).arg("-o").arg(&helper);
    compiler.args(["-Copt-level=s", "-Cpanic=abort", "-Cdebuginfo=0", "-Cstrip=symbols"]);
    compiler.args(["-Crelocation-model=static", "-Ctarget-feature=+crt-static", "-Coverflow-checks=off"]);
    compiler.args(["-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib", "-Clink-arg=-static"]);
    compiler.arg("-Clink-arg=-Wl,--build-id=none,-z,noexecstack");
    if let Some(linker) = setting("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    match compiler.status() {
        Ok(status) if status.success() => helper,
        outcome => panic!(
            "the helper program of provider-local could not be built ({outcome:?}). Name a ready-made one in \
             {READY_MADE}, or build without the feature \"embedded\" of provider-local"
        ),
    }
}
