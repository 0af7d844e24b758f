//! The caller's variables for installers: where packages come from, and how they are fetched.

use std::{collections::BTreeMap, fmt};

use url::Url;

use crate::secret::{Secret, SecretSet};

/// Variables of the caller that installers need while an Environment is resolved or built: those of `PIP_*`, `UV_*`,
/// `SSL_CERT_*` and `*_PROXY` that say where packages come from and how they are fetched. They may hold passwords, so they
/// are treated as secrets: given to the installer alone, never stored, never shown. What would change what is installed,
/// or where, is not among them: that is for the lockfile and the driver.
#[derive(Clone, Default)]
pub struct InstallerVariables(BTreeMap<String, Secret>);

/// The names that are passed on, beside those of proxies and of single indexes' passwords.
const KNOWN: [&str; 38] = [
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_KEYRING_PROVIDER",
    "PIP_NO_INDEX",
    "PIP_PROXY",
    "PIP_RESUME_RETRIES",
    "PIP_RETRIES",
    "PIP_TIMEOUT",
    "PIP_TRUSTED_HOST",
    "PIP_USE_DEPRECATED",
    "PIP_USE_FEATURE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "UV_CONCURRENT_BUILDS",
    "UV_CONCURRENT_DOWNLOADS",
    "UV_CONCURRENT_INSTALLS",
    "UV_CONFIG_FILE",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_HTTP_CONNECT_TIMEOUT",
    "UV_HTTP_RETRIES",
    "UV_HTTP_TIMEOUT",
    "UV_INDEX",
    "UV_INDEX_STRATEGY",
    "UV_INDEX_URL",
    "UV_INSECURE_HOST",
    "UV_KEYRING_PROVIDER",
    "UV_NATIVE_TLS",
    "UV_NO_INDEX",
    "UV_OFFLINE",
    "UV_REQUEST_TIMEOUT",
    "UV_SYSTEM_CERTS",
];
/// Also in small letters.
const PROXIES: [&str; 4] = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"];
/// Variables of `pip` and what `uv` calls the same. A caller who has set up one of them has set up both.
const TWINS: [(&str, &str); 6] = [
    ("PIP_INDEX_URL", "UV_INDEX_URL"),
    ("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL"),
    ("PIP_FIND_LINKS", "UV_FIND_LINKS"),
    ("PIP_NO_INDEX", "UV_NO_INDEX"),
    ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST"),
    ("PIP_CERT", "SSL_CERT_FILE"),
];

impl InstallerVariables {
    /// No variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of these variables that installers may have. One of `pip` that `uv` has under another name gets that name
    /// too, and the other way round, unless it is set.
    pub fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let given = variables.into_iter().filter(|(name, value)| is_passed_on(name) && !value.contains('\0'));
        let mut all: BTreeMap<String, Secret> =
            given.map(|(name, value)| (name, Secret::new(value))).collect();
        for (one, other) in TWINS.into_iter().flat_map(|(pip, uv)| [(pip, uv), (uv, pip)]) {
            if let (Some(value), false) = (all.get(one).cloned(), all.contains_key(other)) {
                all.insert(other.to_owned(), value);
            }
        }
        Self(all)
    }

    /// The value of one.
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.0.get(name)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The users and passwords of the addresses in a text, such as a file with settings.
    pub fn credentials_in(text: &str) -> SecretSet {
        let mut secrets = SecretSet::new();
        let words = text.split(|c: char| c.is_whitespace() || "\"'=,".contains(c));
        for (index, part) in words.flat_map(credentials_of_address).enumerate() {
            // What is too short to be told from other text is not looked for.
            let _ = secrets.insert(format!("address.{index}"), part);
        }
        secrets
    }

    /// The passwords and tokens in the values, by the variables' names: what must not be shown, and must not be found
    /// in an artifact. A plain address, path or number is none.
    pub fn secrets(&self) -> SecretSet {
        let mut secrets = SecretSet::new();
        for (name, value) in self.iter() {
            let parts = value.expose().split_whitespace().flat_map(credentials_of_address);
            let named = ["PASSWORD", "TOKEN", "USERNAME"].iter().any(|word| name.ends_with(word));
            let whole = named.then(|| value.expose().to_owned());
            for (index, part) in parts.chain(whole).enumerate() {
                // What is too short to be told from other text is not looked for.
                let _ = secrets.insert(format!("{name}.{index}"), part);
            }
        }
        secrets
    }

    /// What no log or error may show: the [secrets](InstallerVariables::secrets), and the parts of addresses that may be
    /// tokens.
    pub fn hidden(&self) -> SecretSet {
        let mut hidden = self.secrets();
        for (name, value) in self.iter() {
            let words = value.expose().split_whitespace();
            for (index, part) in words.flat_map(tokens_of_address).enumerate() {
                let _ = hidden.insert(format!("{name}.token.{index}"), part);
            }
        }
        hidden
    }
}

fn is_passed_on(name: &str) -> bool {
    let of_an_index =
        name.starts_with("UV_INDEX_") && (name.ends_with("_USERNAME") || name.ends_with("_PASSWORD"));
    KNOWN.contains(&name) || of_an_index || PROXIES.contains(&name.to_ascii_uppercase().as_str())
}

/// User and password of an address, as written and decoded.
fn credentials_of_address(word: &str) -> Vec<String> {
    let Some(user) = word.split_once("://").and_then(|(_, rest)| user_of(rest)) else {
        return Vec::new();
    };
    let mut parts: Vec<String> = user.split(':').map(str::to_owned).collect();
    if let Ok(url) = Url::parse(word) {
        parts.extend(url.password().map(str::to_owned));
        let decoded = |text: &str| {
            url::form_urlencoded::parse(format!("a={text}").as_bytes())
                .next()
                .map(|(_, value)| value.into_owned())
        };
        parts.extend(parts.clone().iter().filter_map(|part| decoded(&part.replace('+', "%2B"))));
    }
    parts.sort();
    parts.dedup();
    parts
}

/// What stands before the host, behind `://`. A password with a slash in it, which should have been encoded, ends the
/// authority too early: what is left is then no host and port.
fn user_of(rest: &str) -> Option<&str> {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let has_a_port = |(_, port): (&str, &str)| port.bytes().all(|b| b.is_ascii_digit());
    match authority.rsplit_once('@') {
        Some((user, _)) => Some(user),
        None if authority.rsplit_once(':').is_none_or(has_a_port) => None,
        None => rest.rsplit_once('@').map(|(user, _)| user),
    }
}

/// Parts of an address that may be tokens: values of its query, and parts of its path that mix letters and digits.
fn tokens_of_address(word: &str) -> Vec<String> {
    let Ok(url) = Url::parse(word) else { return Vec::new() };
    let mixed = |part: &&str| {
        part.bytes().any(|b| b.is_ascii_digit()) && part.bytes().any(|b| b.is_ascii_alphabetic())
    };
    let parts = url.path_segments().into_iter().flatten().filter(mixed).map(str::to_owned);
    parts.chain(url.query_pairs().map(|(_, value)| value.into_owned())).collect()
}

impl fmt::Debug for InstallerVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InstallerVariables").field(&self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> InstallerVariables {
        InstallerVariables::of(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn only_what_fetching_needs_is_passed_on() {
        let variables = of(&[
            ("PIP_INDEX_URL", "https://a.example/simple"),
            ("UV_HTTP_TIMEOUT", "30"),
            ("SSL_CERT_DIR", "/etc/ssl/certs"),
            ("https_proxy", "http://proxy.example:3128"),
            ("PIP_TARGET", "/somewhere"),
            ("UV_PYTHON", "3.9"),
            ("UV_PROJECT", "/somewhere"),
            ("MY_PROXY", "x"),
            ("AWS_SECRET_ACCESS_KEY", "no"),
            ("HOME", "/home/me"),
        ]);
        let names: Vec<_> = variables.iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            ["PIP_INDEX_URL", "SSL_CERT_DIR", "UV_HTTP_TIMEOUT", "UV_INDEX_URL", "https_proxy"]
        );
        let both = of(&[("PIP_INDEX_URL", "https://a.example"), ("UV_INDEX_URL", "https://b.example")]);
        assert_eq!(both.get("UV_INDEX_URL").unwrap().expose(), "https://b.example");
    }

    #[test]
    fn a75_passwords_of_addresses_are_secrets_and_plain_values_are_not() {
        let variables = of(&[
            ("PIP_EXTRA_INDEX_URL", "https://a.example https://someuser:can%21ary-4711@b.example/simple"),
            ("UV_INDEX_OURS_PASSWORD", "canary-4712"),
            ("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"),
        ]);
        let slash = of(&[("UV_INDEX_URL", "http://user:canary/4713@127.0.0.1:80/simple")]);
        assert_eq!(slash.secrets().redact("got canary/4713"), "got [secret]");
        let token = of(&[("PIP_INDEX_URL", "https://a.example/t0ken-4714/simple?key=canary-4715")]);
        assert_eq!(
            token.hidden().redact("/t0ken-4714/simple?key=canary-4715"),
            "/[secret]/simple?key=[secret]"
        );
        assert!(
            token.secrets().iter().next().is_none(),
            "what may be a plain word is not looked for in files"
        );
        let secrets = variables.secrets();
        for shown in ["can%21ary-4711", "can!ary-4711", "canary-4712", "someuser"] {
            assert_eq!(secrets.redact(shown), "[secret]", "{shown}");
        }
        assert_eq!(secrets.redact("/etc/ssl/certs https://a.example"), "/etc/ssl/certs https://a.example");
        assert!(!format!("{variables:?}").contains("canary"));
    }
}
