//! The contract's user in the account files of a base.

use provider_core::contract::Contract;

/// `/etc/passwd` with the contract's user, who takes the place of any other of the same name or number.
pub(super) fn passwd(old: &str, contract: &Contract) -> String {
    let (name, uid) = (contract.user_name, contract.user.uid.to_string());
    let mut text = kept(old, |fields| fields.first() != Some(&name) && fields.get(2) != Some(&uid.as_str()));
    let gid = contract.user.gid;
    text.push_str(&format!("{name}:x:{uid}:{gid}::{}:/bin/sh\n", contract.home));
    text
}

/// `/etc/shadow` in which the contract's user has no password and cannot log in with one.
pub(super) fn shadow(old: &str, contract: &Contract) -> String {
    let name = contract.user_name;
    let mut text = kept(old, |fields| fields.first() != Some(&name));
    text.push_str(&format!("{name}:!:19000:0:99999:7:::\n"));
    text
}

/// `/etc/group` in which the contract's group has a name.
pub(super) fn group(old: &str, contract: &Contract) -> String {
    let gid = contract.user.gid.to_string();
    let mut text = kept(old, |_| true);
    let fields = |line: &str, index| line.split(':').nth(index).map(str::to_owned);
    if text.lines().any(|line| fields(line, 2).as_ref() == Some(&gid)) {
        return text;
    }
    let is_taken = |name: &str| text.lines().any(|line| fields(line, 0).as_deref() == Some(name));
    let name = if is_taken("users") { contract.user_name } else { "users" };
    text.push_str(&format!("{name}:x:{gid}:\n"));
    text
}

/// The lines that stay, each with its end.
fn kept(old: &str, stays: impl Fn(&[&str]) -> bool) -> String {
    let lines = old.lines().filter(|line| stays(&line.split(':').collect::<Vec<_>>()));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use provider_core::contract::SANDBOX_V1;

    use super::*;

    #[test]
    fn the_user_takes_the_place_of_others_with_the_name_or_number() {
        let old = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\nsandbox:x:7:7::/:/bin/false";
        assert_eq!(
            passwd(old, &SANDBOX_V1),
            "root:x:0:0:root:/root:/bin/bash\nsandbox:x:1000:100::/home/sandbox:/bin/sh\n"
        );
        assert_eq!(passwd("", &SANDBOX_V1).lines().count(), 1);
        let shadow = shadow("root:*:1::::::\nsandbox:HASH:1::::::\n", &SANDBOX_V1);
        assert_eq!(shadow, "root:*:1::::::\nsandbox:!:19000:0:99999:7:::\n");
    }

    #[test]
    fn the_group_keeps_the_name_that_it_has() {
        assert_eq!(group("root:x:0:\nstaff:x:100:", &SANDBOX_V1), "root:x:0:\nstaff:x:100:\n");
        assert_eq!(group("root:x:0:\n", &SANDBOX_V1), "root:x:0:\nusers:x:100:\n");
        assert_eq!(group("users:x:50:\n", &SANDBOX_V1), "users:x:50:\nsandbox:x:100:\n");
    }
}
