//! Who runs the engine.

use std::fs;

/// What decides how boxes are made.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    /// Whether we are in the first user namespace, where `trusted.*` attributes work.
    pub(crate) first_namespace: bool,
}

impl Facts {
    pub(crate) fn look() -> Self {
        let groups = rustix::process::getgroups().unwrap_or_default();
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let first: Vec<&str> = map.split_whitespace().collect();
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: groups.into_iter().map(rustix::process::Gid::as_raw).collect(),
            first_namespace: first == ["0", "0", "4294967295"],
        }
    }

    /// Whether boxes get a user namespace of their own. Root never maps an inside id to its own.
    pub(crate) fn user_namespace(&self) -> bool {
        self.uid != 0
    }

    /// Whether overlays keep their marks in `user.*` attributes.
    pub(crate) fn user_marks(&self) -> bool {
        self.user_namespace() || !self.first_namespace
    }
}
