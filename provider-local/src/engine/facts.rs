//! Who runs the engine.

use super::plan::Identity;
use std::fs;

/// What decides how boxes are made.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    /// Whether we are in the first user namespace, where `trusted.*` attributes work.
    first_namespace: bool,
    /// Whether the ids of a sandbox exist here, so that root can take them on.
    sandbox_ids: bool,
}

impl Facts {
    pub(crate) fn look() -> Self {
        let groups = rustix::process::getgroups().unwrap_or_default();
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let users = parse_map(&read("uid_map"));
        let covers =
            |map: &[(u32, u32)], id: u32| map.iter().any(|(start, count)| id.wrapping_sub(*start) < *count);
        let Identity { uid, gid } = Identity::SANDBOX;
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: groups.into_iter().map(rustix::process::Gid::as_raw).collect(),
            first_namespace: users == [(0, u32::MAX)],
            sandbox_ids: covers(&users, uid) && covers(&parse_map(&read("gid_map")), gid),
        }
    }

    /// Whether boxes get a user namespace of their own. This machine's root never maps an inside id to its
    /// own; root of a user namespace that knows one id alone (a plain `unshare -r`) is an ordinary user in
    /// truth.
    pub(crate) fn user_namespace(&self) -> bool {
        self.uid != 0 || !self.first_namespace && !self.sandbox_ids
    }

    /// Whether overlays keep their marks in `user.*` attributes.
    pub(crate) fn user_marks(&self) -> bool {
        self.user_namespace() || !self.first_namespace
    }
}

/// First inside id and count of each line.
fn parse_map(text: &str) -> Vec<(u32, u32)> {
    let parse = |line: &str| {
        let mut fields = line.split_whitespace();
        let start = fields.next()?.parse().ok()?;
        Some((start, fields.nth(1)?.parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(uid: u32, first_namespace: bool, sandbox_ids: bool) -> Facts {
        Facts { uid, gid: uid, groups: Vec::new(), first_namespace, sandbox_ids }
    }

    #[test]
    fn only_who_has_no_real_ids_gets_a_user_namespace() {
        assert!(!facts(0, true, true).user_namespace());
        assert!(!facts(0, false, true).user_namespace());
        assert!(facts(0, false, false).user_namespace());
        assert!(facts(1000, true, true).user_namespace());
    }

    #[test]
    fn maps_are_read() {
        assert_eq!(parse_map("         0          0 4294967295\n"), [(0, u32::MAX)]);
        assert_eq!(parse_map("0 1000 1\n1 100000 65536\nodd"), [(0, 1), (1, 65536)]);
    }
}
