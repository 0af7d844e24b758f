//! What to do about a failed start.

use super::facts::Facts;
use crate::helper::step::Step;
use std::fs;

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;

/// The advice for a step that failed with this error, with a semicolon in front; empty when there is none.
pub(super) fn advice(facts: &Facts, step: Step, errno: i32) -> String {
    match text(facts, step, errno) {
        Some(text) => format!("; {text}"),
        None => String::new(),
    }
}

fn text(facts: &Facts, step: Step, errno: i32) -> Option<String> {
    let forbidden = errno == EPERM || errno == EACCES;
    match step {
        Step::Namespaces if errno == ENOSPC => {
            Some("namespaces are used up or switched off: sudo sysctl -w user.max_user_namespaces=15000".to_owned())
        }
        Step::Namespaces | Step::IdMap | Step::PrivateMounts | Step::Tmpfs | Step::Hostname if forbidden => {
            Some(namespaces(facts))
        }
        Step::EnterRoot if forbidden => Some(container().to_owned()),
        Step::Proc if forbidden => Some(
            "/proc of this container is masked: start the container with --security-opt systempaths=unconfined, or run \
             outside of a container"
                .to_owned(),
        ),
        Step::Overlay if errno == EINVAL => Some(
            "the kernel cannot stack an overlay there: choose a state folder on a real file system (ext4, xfs, btrfs, \
             tmpfs), not on an overlay or a network share; in a container, on a volume"
                .to_owned(),
        ),
        Step::Overlay if errno == EPERM => Some("overlays in user namespaces need Linux 5.11 or newer".to_owned()),
        Step::Bind | Step::ReadOnly | Step::Reserve if errno == 38 => {
            Some("Linux 5.12 or newer is needed".to_owned())
        }
        Step::WriteFile | Step::MakeDir if errno == ENOSPC => Some("there is too little memory".to_owned()),
        _ => None,
    }
}

fn namespaces(facts: &Facts) -> String {
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/sys/{name}"))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    if facts.user_namespace() {
        if read("kernel/apparmor_restrict_unprivileged_userns") == "1" {
            return "AppArmor forbids user namespaces: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, \
                    or run as root"
                .to_owned();
        }
        if read("kernel/unprivileged_userns_clone") == "0" {
            return "user namespaces are switched off: sudo sysctl -w kernel.unprivileged_userns_clone=1, or run as root"
                .to_owned();
        }
    }
    container().to_owned()
}

fn container() -> &'static str {
    "this looks like a container that forbids namespaces: start it with --security-opt seccomp=unconfined \
     --security-opt systempaths=unconfined (and --cap-add SYS_ADMIN as root), with the state folder on a volume"
}
