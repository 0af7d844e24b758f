//! What a process of the box may do: ids, capabilities, new privileges.

use super::step::Step;
use super::sys::{self, Answer, Errno};

const PR_CAPBSET_DROP: usize = 24;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const PR_CAP_AMBIENT: usize = 47;
const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;

/// The rules of the box, the same for all its commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Ids are mapped one to one; supplementary groups cannot be changed.
    pub(crate) user_namespace: bool,
    pub(crate) no_new_privileges: bool,
    /// What user 0 keeps.
    pub(crate) capabilities: u64,
}

/// Gives up everything but the given identity. `setgid` comes before `setuid`, after which it would not be
/// allowed.
pub(crate) fn assume(policy: &Policy, uid: u32, gid: u32, groups: &[u32]) -> Result<(), (Step, Errno)> {
    let keep = if uid == 0 { policy.capabilities } else { 0 };
    drop_bounding_set(keep).map_err(|errno| (Step::Capabilities, errno))?;
    // A kernel without ambient capabilities has none to clear.
    let _ = sys::process_control(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
    if !policy.user_namespace {
        sys::set_groups(groups).map_err(|errno| (Step::Groups, errno))?;
    }
    sys::set_group(gid).map_err(|errno| (Step::Group, errno))?;
    sys::set_user(uid).map_err(|errno| (Step::User, errno))?;
    sys::set_capabilities(keep).map_err(|errno| (Step::Capabilities, errno))?;
    if policy.no_new_privileges {
        sys::process_control(PR_SET_NO_NEW_PRIVS, 1).map_err(|errno| (Step::NoNewPrivileges, errno))?;
    }
    Ok(())
}

/// EINVAL marks the first number that this kernel does not know; a capability that is not in the set is no
/// error.
fn drop_bounding_set(keep: u64) -> Answer<()> {
    for capability in 0..64 {
        if keep >> capability & 1 == 1 {
            continue;
        }
        match sys::process_control(PR_CAPBSET_DROP, capability) {
            Ok(()) => {}
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
