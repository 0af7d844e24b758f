//! Who a command runs as, inside a sandbox.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};

/// A numeric user and group. Written `uid:gid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

impl User {
    /// The superuser.
    pub const ROOT: User = User { uid: 0, gid: 0 };
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

impl FromStr for User {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
        let (uid, gid) = parsed.ok_or_else(|| {
            Error::new(
                Code::SpecInvalid,
                format!("user {text:?} is not of the form uid:gid, such as 1000:100"),
            )
        })?;
        Ok(User { uid, gid })
    }
}

impl TryFrom<String> for User {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<User> for String {
    fn from(user: User) -> String {
        user.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_two_numbers() {
        assert_eq!("1000:100".parse::<User>().unwrap(), User { uid: 1000, gid: 100 });
        for text in ["", "1000", "root:root", "1000:100:1", "-1:0", "4294967296:0", " 1:1"] {
            assert!(text.parse::<User>().is_err(), "{text:?}");
        }
    }
}
