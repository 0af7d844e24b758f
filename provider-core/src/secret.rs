//! Values that must never be seen.
//!
//! [`Secret`] prints as `[secret]` and cannot be serialised. [`SecretSet`] holds the values of an Environment's
//! build secrets by id.

use std::{collections::BTreeMap, fmt};

use secrecy::{ExposeSecret, SecretString};

use crate::error::{Code, Error, Result};

/// One secret value. Its memory is cleared when it is dropped.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Wraps the value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(SecretString::from(value.into()))
    }

    /// The value itself. Do not put it into an error, a log or a record.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The values of build secrets, by the id that the Environment names.
#[derive(Clone, Debug, Default)]
pub struct SecretSet(BTreeMap<String, Secret>);

impl SecretSet {
    /// No secrets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`], without the value, if it is shorter than 8 bytes, which cannot be told from ordinary
    /// text, or holds a control character, which cannot be passed on every provider.
    pub fn insert(&mut self, id: impl Into<String>, value: impl Into<String>) -> Result<()> {
        let (id, value) = (id.into(), Secret::new(value));
        if value.expose().len() < 8 {
            return Err(Error::new(
                Code::SpecInvalid,
                format!("build secret {id:?} is shorter than 8 bytes"),
            )
            .with_advice("give a longer one: so short a text could be found anywhere"));
        }
        if value.expose().chars().any(char::is_control) {
            return Err(Error::new(
                Code::SpecInvalid,
                format!("build secret {id:?} holds a control character"),
            ));
        }
        self.0.insert(id, value);
        Ok(())
    }

    /// The value of a secret, where it is known.
    pub fn get(&self, id: &str) -> Option<&Secret> {
        self.0.get(id)
    }

    /// Ids and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(id, value)| (id.as_str(), value))
    }

    /// These secrets and those of another set, whose value counts where both have an id.
    #[must_use]
    pub fn and(mut self, other: &SecretSet) -> Self {
        self.0.extend(other.0.iter().map(|(id, value)| (id.clone(), value.clone())));
        self
    }

    /// The text with each secret value replaced, for logs of commands that were given secrets.
    pub fn redact(&self, text: &str) -> String {
        self.0.values().fold(text.to_owned(), |text, secret| text.replace(secret.expose(), "[secret]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a75_a_secret_prints_as_its_placeholder() {
        let mut set = SecretSet::new();
        set.insert("token", "canary-4711").unwrap();
        assert!(!format!("{set:?} {:?}", set.get("token")).contains("canary"));
        assert_eq!(set.redact("got canary-4711!"), "got [secret]!");
    }

    #[test]
    fn a75_a_refused_secret_is_not_quoted() {
        for value in ["shorty", "canary\nwith-newline", "nul\0canary-long"] {
            let error = SecretSet::new().insert("token", value).unwrap_err();
            assert!(!format!("{error} {error:?}").contains(value), "{error}");
        }
    }
}
