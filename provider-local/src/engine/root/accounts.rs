//! The account files of a box: the system accounts of the base, no human beings, no passwords.

use std::collections::HashSet;

/// `passwd`, `group`, `shadow`, `gshadow` for a box.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Accounts {
    pub(crate) passwd: String,
    pub(crate) group: String,
    pub(crate) shadow: String,
    pub(crate) gshadow: String,
}

impl Accounts {
    /// Keeps what belongs to the system. Lines that are no accounts are left out.
    pub(crate) fn filter(passwd: &str, group: &str) -> Self {
        let kept: Vec<&str> = passwd.lines().filter(|line| field(line, 2).is_some_and(is_system)).collect();
        let names: HashSet<&str> = kept.iter().filter_map(|line| line.split(':').next()).collect();
        let mut accounts = Self {
            passwd: String::new(),
            group: String::new(),
            shadow: String::new(),
            gshadow: String::new(),
        };
        for line in kept {
            let mut fields: Vec<&str> = line.split(':').collect();
            if let Some(password) = fields.get_mut(1) {
                *password = "x";
            }
            add_line(&mut accounts.passwd, &fields.join(":"));
            let name = fields.first().copied().unwrap_or_default();
            add_line(&mut accounts.shadow, &format!("{name}:*:19000:0:99999:7:::"));
        }
        for line in group.lines().filter(|line| field(line, 2).is_some_and(is_system)) {
            let name = line.split(':').next().unwrap_or_default();
            let gid = line.split(':').nth(2).unwrap_or_default();
            let members = line.split(':').nth(3).unwrap_or_default();
            let members: Vec<&str> = members.split(',').filter(|member| names.contains(member)).collect();
            let members = members.join(",");
            add_line(&mut accounts.group, &format!("{name}:x:{gid}:{members}"));
            add_line(&mut accounts.gshadow, &format!("{name}:*::{members}"));
        }
        accounts
    }
}

fn add_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn field(line: &str, index: usize) -> Option<u32> {
    line.split(':').nth(index)?.parse().ok()
}

/// Ids below 1000 belong to the system; 65534 is "nobody".
fn is_system(id: u32) -> bool {
    id < 1000 || id == 65534
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn humans_and_passwords_are_left_out() {
        let passwd = "root:HASH:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\n\
                      nobody:x:65534:65534::/:/bin/false\n+nis\nbroken:x:many:0:::\n";
        let group = "root:x:0:\nadm:x:4:ann,root\nann:x:1000:\nusers:x:100:ann\n";
        let accounts = Accounts::filter(passwd, group);
        assert_eq!(accounts.passwd, "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n");
        assert_eq!(accounts.group, "root:x:0:\nadm:x:4:root\nusers:x:100:\n");
        assert_eq!(accounts.shadow, "root:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n");
        assert_eq!(accounts.gshadow, "root:*::\nadm:*::root\nusers:*::\n");
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(Accounts::filter("", ":::").passwd, "");
    }
}
