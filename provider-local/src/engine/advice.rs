//! What to do about a failed start.

use super::facts::Facts;
use crate::helper::step::Step;
use std::fs;

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const ENOSYS: i32 = 38;

/// The advice for a step that failed with this error, with a semicolon in front; empty when there is none.
pub(super) fn advice(facts: &Facts, step: Step, errno: i32) -> String {
    match text(facts, step, errno) {
        Some(text) => format!("; {text}"),
        None => String::new(),
    }
}

fn text(facts: &Facts, step: Step, errno: i32) -> Option<&'static str> {
    let forbidden = errno == EPERM || errno == EACCES;
    match step {
        Step::Namespaces if errno == ENOSPC => Some(NAMESPACES_OFF),
        Step::Namespaces | Step::IdMap | Step::PrivateMounts | Step::Tmpfs | Step::Hostname if forbidden => {
            Some(namespaces(facts))
        }
        Step::EnterRoot if forbidden => Some(CONTAINER),
        Step::Proc if forbidden => Some(PROC_MASKED),
        Step::Overlay if errno == EINVAL => Some(NO_OVERLAY_THERE),
        Step::Overlay if errno == EPERM => Some("overlays in user namespaces need Linux 5.11 or newer"),
        Step::Take | Step::Bind | Step::ReadOnly | Step::Reserve if errno == ENOSYS => {
            Some("Linux 5.12 or newer is needed")
        }
        Step::WriteFile | Step::MakeDir if errno == ENOSPC => Some("there is too little memory"),
        _ => None,
    }
}

const NAMESPACES_OFF: &str = "namespaces are used up or switched off: sudo sysctl -w user.max_user_namespaces=15000 (and likewise \
     max_mnt_namespaces, max_pid_namespaces, max_ipc_namespaces, max_uts_namespaces)";
const PROC_MASKED: &str = "/proc of this container is masked: start the container with --security-opt systempaths=unconfined, or \
     run outside of a container";
const NO_OVERLAY_THERE: &str = "the kernel cannot stack an overlay there: choose a state folder on a real file system (ext4, xfs, \
     btrfs, tmpfs), not on an overlay or a network share; in a container, on a volume";
const APPARMOR: &str = "AppArmor forbids user namespaces: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run \
     as root";
const SWITCHED_OFF: &str =
    "user namespaces are switched off: sudo sysctl -w kernel.unprivileged_userns_clone=1, or run as root";
const CONTAINER: &str = "this looks like a container that forbids namespaces: start it with --security-opt seccomp=unconfined \
     --security-opt systempaths=unconfined (and --cap-add SYS_ADMIN as root), with the state folder on a \
     volume";

fn namespaces(facts: &Facts) -> &'static str {
    let is = |name: &str, value: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}")).is_ok_and(|text| text.trim() == value)
    };
    match facts.user_namespace() {
        true if is("apparmor_restrict_unprivileged_userns", "1") => APPARMOR,
        true if is("unprivileged_userns_clone", "0") => SWITCHED_OFF,
        _ => CONTAINER,
    }
}
