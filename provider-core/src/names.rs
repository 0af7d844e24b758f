//! Names: of providers, of owners, of runs, and of the things that we make.
//!
//! Each remote thing carries a name of one grammar, `px-<owner>-<expiry>-<run>-<ordinal><check>`, so that a sweep
//! can tell from the name alone whose it is and until when it may exist. What does not parse, check character
//! included, is not ours.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    error::{Code, Error, Result},
    lifecycle::Timestamp,
};

/// The longest name that [`ThingName`] can produce, in bytes. Every provider allows it.
pub const NAME_MAX: usize = 46;

const PREFIX: &str = "px";
const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const RUN_LEN: usize = 14;
const EXPIRY_LEN: usize = 6;

/// Defines a string type that is checked when it is made, also when it is read from data.
macro_rules! checked_string {
    ($(#[$doc:meta])* $name:ident, $check:expr, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks and wraps the text.
            ///
            /// # Errors
            /// [`Code::SpecInvalid`] with the rule, if the text does not follow it.
            pub fn new(text: impl Into<String>) -> Result<Self> {
                let text = text.into();
                let check: fn(&str) -> bool = $check;
                if check(&text) {
                    Ok(Self(text))
                } else {
                    let shown: String = text.chars().take(80).collect();
                    Err(Error::new(Code::SpecInvalid, format!(concat!(stringify!($name), " {:?} is not ", $rule), shown)))
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.0
            }
        }
    };
}

fn lower_alnum(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

checked_string!(
    /// Which provider: `local`, `e2b`, `daytona`, `modal`, or a stranger's own.
    ProviderId,
    |text| (1..=32).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
    "1 to 32 lower-case letters, digits or hyphens, with a letter first"
);

checked_string!(
    /// Whose things they are: a team's or a pipeline's mark, put into each name.
    Owner,
    |text| (4..=12).contains(&text.len()) && lower_alnum(text),
    "4 to 12 lower-case letters or digits"
);

checked_string!(
    /// One run of a session. Unique without coordination: it holds 72 random bits.
    RunId,
    |text| text.len() == RUN_LEN && lower_alnum(text),
    "14 lower-case letters or digits"
);

impl Owner {
    /// A random owner, for a machine on which none was chosen.
    pub fn random() -> Self {
        Self(random_text(10))
    }
}

impl RunId {
    /// A new run.
    pub fn random() -> Self {
        Self(random_text(RUN_LEN))
    }
}

fn random_text(len: usize) -> String {
    (0..len).map(|_| char::from(ALPHABET[fastrand::usize(..ALPHABET.len())])).collect()
}

/// Until when a thing may exist, as its name carries it: a minute, or no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stamp {
    /// It may be deleted by anybody's sweep once this minute since 1970 has passed.
    Minute(u64),
    /// No sweep may delete it.
    Unbounded,
}

impl Stamp {
    /// The first whole minute that is not before `expiry`.
    pub fn at(expiry: Timestamp) -> Self {
        Stamp::Minute(expiry.as_millis().div_ceil(60_000))
    }

    /// The moment after which a sweep may delete the thing.
    pub fn expiry(self) -> Option<Timestamp> {
        match self {
            Stamp::Minute(minute) => Some(Timestamp::from_millis(minute.saturating_mul(60_000))),
            Stamp::Unbounded => None,
        }
    }

    fn encode(self) -> String {
        match self {
            Stamp::Minute(minute) => base36(minute.min(LAST_MINUTE), EXPIRY_LEN),
            Stamp::Unbounded => "z".repeat(EXPIRY_LEN),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        if text.len() != EXPIRY_LEN {
            return None;
        }
        let minute = parse_base36(text)?;
        Some(if minute > LAST_MINUTE { Stamp::Unbounded } else { Stamp::Minute(minute) })
    }
}

/// `zzzzzy`, in the year 6109; `zzzzzz` means no bound.
const LAST_MINUTE: u64 = 36_u64.pow(EXPIRY_LEN as u32) - 2;

fn base36(mut value: u64, width: usize) -> String {
    let mut digits = Vec::new();
    while value > 0 || digits.len() < width {
        digits.push(ALPHABET[(value % 36) as usize]);
        value /= 36;
    }
    digits.iter().rev().map(|&b| char::from(b)).collect()
}

fn parse_base36(text: &str) -> Option<u64> {
    (!text.is_empty() && lower_alnum(text)).then(|| u64::from_str_radix(text, 36).ok()).flatten()
}

/// The name of one thing that we make.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThingName {
    /// Whose it is.
    pub owner: Owner,
    /// Until when it may exist.
    pub stamp: Stamp,
    /// The run that makes it.
    pub run: RunId,
    /// Its number within the run.
    pub ordinal: u32,
}

impl fmt::Display for ThingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = format!(
            "{PREFIX}-{}-{}-{}-{}",
            self.owner,
            self.stamp.encode(),
            self.run,
            base36(u64::from(self.ordinal), 2)
        );
        let check = check_character(&body).ok_or(fmt::Error)?;
        f.pad(&format!("{body}{check}"))
    }
}

impl FromStr for ThingName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse_name(text).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            Error::new(Code::SpecInvalid, format!("{shown:?} is not a name that this tool gives"))
        })
    }
}

fn parse_name(text: &str) -> Option<ThingName> {
    if text.len() > NAME_MAX || !text.is_ascii() {
        return None;
    }
    let (body, check) = text.split_at(text.len().checked_sub(1)?);
    if !check.starts_with(check_character(body)?) {
        return None;
    }
    let parts: Vec<&str> = body.split('-').collect();
    let [PREFIX, owner, stamp, run, ordinal] = parts[..] else {
        return None;
    };
    let name = ThingName {
        owner: Owner::new(owner).ok()?,
        stamp: Stamp::decode(stamp)?,
        run: RunId::new(run).ok()?,
        ordinal: u32::try_from(parse_base36(ordinal)?).ok()?,
    };
    // One thing has one name: a longer spelling of the ordinal is not ours.
    (name.to_string() == text).then_some(name)
}

/// The check character of ISO 7064 MOD 37,36, which finds each single wrong character and each swap of neighbours.
fn check_character(body: &str) -> Option<char> {
    let mut check: usize = 36;
    for byte in body.bytes().filter(|&b| b != b'-') {
        let value = ALPHABET.iter().position(|&a| a == byte)?;
        let sum = (check + value) % 36;
        check = (if sum == 0 { 36 } else { sum } * 2) % 37;
    }
    Some(char::from(ALPHABET[(37 - check) % 36]))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn name() -> ThingName {
        ThingName {
            owner: Owner::new("acme12345678").unwrap(),
            stamp: Stamp::at(Timestamp::from_millis(1_796_000_000_000)),
            run: RunId::random(),
            ordinal: 7,
        }
    }

    #[test]
    fn a_name_is_read_back_exactly_and_fits_everywhere() {
        let mut longest = name();
        longest.ordinal = u32::MAX;
        for name in [name(), longest] {
            let text = name.to_string();
            assert!(text.len() <= NAME_MAX, "{text} has {} bytes", text.len());
            assert_eq!(text.parse::<ThingName>().unwrap(), name);
        }
    }

    #[test]
    fn what_resembles_a_name_is_not_ours() {
        let text = name().to_string();
        for other in [
            String::new(),
            "px".into(),
            format!("{text}x"),
            text.to_uppercase(),
            text.replacen("px-", "py-", 1),
            text.replacen("acme12345678", "acme1234567", 1),
            format!(" {text}"),
            format!("{}\u{e9}", &text[..text.len() - 1]),
        ] {
            assert!(other.parse::<ThingName>().is_err(), "{other:?} was taken for ours");
        }
    }

    #[test]
    fn a13_run_ids_do_not_repeat() {
        let ids: HashSet<_> = (0..100_000).map(|_| RunId::random()).collect();
        assert_eq!(ids.len(), 100_000);
    }

    #[test]
    fn an_unbounded_stamp_and_a_distant_one_differ() {
        for (stamp, expiry) in [
            (Stamp::Unbounded, None),
            (Stamp::Minute(LAST_MINUTE), Stamp::Minute(LAST_MINUTE).expiry()),
            (Stamp::Minute(0), Some(Timestamp::from_millis(0))),
        ] {
            assert_eq!(Stamp::decode(&stamp.encode()), Some(stamp));
            assert_eq!(stamp.expiry(), expiry);
        }
    }

    proptest! {
        #[test]
        fn each_single_change_of_a_character_is_found(position in 0usize..60, to in 0usize..36) {
            let text = name().to_string();
            let position = position % text.len();
            let mut changed = text.clone().into_bytes();
            prop_assume!(changed[position] != b'-' && changed[position] != ALPHABET[to]);
            changed[position] = ALPHABET[to];
            let changed = String::from_utf8(changed).unwrap();
            prop_assert!(changed.parse::<ThingName>().is_err());
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".*") {
            let _ = text.parse::<ThingName>();
        }
    }
}
