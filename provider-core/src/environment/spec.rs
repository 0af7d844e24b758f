//! The specification of an Environment, as a user writes it.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, MapAccess, Visitor},
};

use super::{BuildSource, Compatibility, Language, Packages, Platform, Resources, parse, sha256_hex};
use crate::{
    contract,
    error::{Code, Error, Result},
    provider::Finding,
};

/// The recipe of an image. Unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EnvironmentSpec {
    /// What it is called.
    pub metadata: Metadata,
    /// What it contains.
    #[serde(default)]
    pub spec: Spec,
}

/// What an Environment is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Metadata {
    /// A DNS label of at most 63 characters.
    pub name: String,
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Free labels.
    #[serde(default, deserialize_with = "unique_keys", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// What an Environment contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Spec {
    /// The contract that a sandbox of it fulfils.
    pub contract: String,
    /// The language that its sandboxes speak. Absent means a system without one: a shell and its programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// What it starts from.
    pub base: BaseRef,
    /// The machine that it is for.
    #[serde(skip_serializing_if = "is_default")]
    pub platform: Platform,
    /// What is installed.
    #[serde(skip_serializing_if = "is_default")]
    pub packages: Packages,
    /// Files that are put into it, in this order.
    pub files: Vec<FileSpec>,
    /// Variables of every command in the sandbox.
    #[serde(deserialize_with = "unique_keys")]
    pub env: BTreeMap<String, String>,
    /// Commands of the build.
    pub commands: Commands,
    /// Secrets that the build's commands may use, and that nothing may remember.
    pub build_secrets: Vec<BuildSecret>,
    /// How large its sandboxes are.
    #[serde(skip_serializing_if = "is_default")]
    pub resources: Resources,
    /// Where it must work.
    #[serde(skip_serializing_if = "is_default")]
    pub compatibility: Compatibility,
    /// What it is built from.
    #[serde(skip_serializing_if = "is_default")]
    pub build: BuildSource,
}

impl Spec {
    /// Whether anything must be resolved or installed.
    pub fn needs_packages(&self) -> bool {
        self.language.is_some() || self.packages != Packages::default()
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            contract: contract::SANDBOX_V1.name.to_owned(),
            language: None,
            base: BaseRef::default(),
            platform: Platform::default(),
            packages: Packages::default(),
            files: Vec::new(),
            env: BTreeMap::new(),
            commands: Commands::default(),
            build_secrets: Vec::new(),
            resources: Resources::default(),
            compatibility: Compatibility::default(),
            build: BuildSource::default(),
        }
    }
}

/// What an Environment starts from, by name. Each provider has its own bases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BaseRef {
    /// The base's name.
    #[serde(rename = "ref")]
    pub name: String,
    /// Which state of it, for bases that are published in channels. A base that a driver has of its own has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

impl Default for BaseRef {
    fn default() -> Self {
        Self { name: "host".into(), channel: None }
    }
}

/// One file that is put into the image, owned by the contract's user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FileSpec {
    /// Where, absolute.
    pub path: String,
    /// Its content, in place. Exactly one of `content` and `contentRef` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A file beside the specification that has the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_ref: Option<String>,
    /// The SHA-256 that the content must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Permissions, in octal digits.
    #[serde(default = "default_mode")]
    pub mode: String,
}

fn default_mode() -> String {
    "0644".into()
}

/// Commands of the build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Commands {
    /// Lines for `/bin/sh -c`, run as the superuser of the build after the files are in place.
    pub post_install: Vec<String>,
}

/// How a build's commands get a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretMount {
    /// As a variable.
    Env,
    /// As the file `/run/secrets/<name>`.
    File,
}

/// A secret that the build's commands may use. Its value is given with the build, never in the specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BuildSecret {
    /// Under which id the caller supplies the value.
    pub id: String,
    /// How commands get it.
    pub mount_as: SecretMount,
    /// The variable's or the file's name.
    pub name: String,
}

impl EnvironmentSpec {
    /// A specification with defaults for all but its name, for tools that write specifications in code.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            metadata: Metadata { name: name.into(), title: None, labels: BTreeMap::new() },
            spec: Spec::default(),
        }
    }

    /// Reads a specification from text and checks it.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming the place: the line or the key.
    pub fn parse(text: &str, format: parse::Format) -> Result<Self> {
        let spec: Self = parse::parse("the specification", text, format)?;
        Finding::refuse_all(&spec.check())?;
        Ok(spec)
    }

    /// Whether the Environment names a language. The doctor and the checks ask about one only then.
    pub fn names_language(&self) -> bool {
        self.spec.language.is_some()
    }

    /// The digest of all that a lockfile depends on: language, packages and apt packages. A lockfile names it, so
    /// that one that was resolved for other packages is refused.
    ///
    /// # Errors
    /// [`Code::Internal`] if the specification has no canonical form, which does not happen.
    pub fn inputs_digest(&self) -> Result<String> {
        canonical_digest(
            &serde_json::json!({ "language": self.spec.language, "packages": self.spec.packages }),
        )
    }

    /// The SHA-256 of the canonical JSON (RFC 8785) of the specification with its defaults filled in, in the form
    /// `sha256:<hex>`.
    ///
    /// # Errors
    /// [`Code::Internal`] if the specification has no canonical form, which does not happen.
    pub fn digest(&self) -> Result<String> {
        canonical_digest(self)
    }
}

fn canonical_digest(value: &impl Serialize) -> Result<String> {
    let canonical = serde_json_canonicalizer::to_vec(value).map_err(|source| {
        Error::new(Code::Internal, "the specification has no canonical form").with_source(source)
    })?;
    Ok(format!("sha256:{}", sha256_hex(&canonical)))
}

/// A map in which a repeated key is an error, where serde would let the last one win.
pub(super) fn unique_keys<'de, D, K, V>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord + fmt::Display,
    V: Deserialize<'de>,
{
    struct UniqueKeys<K, V>(PhantomData<(K, V)>);

    impl<'de, K, V> Visitor<'de> for UniqueKeys<K, V>
    where
        K: Deserialize<'de> + Ord + fmt::Display,
        V: Deserialize<'de>,
    {
        type Value = BTreeMap<K, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some(key) = access.next_key::<K>()? {
                let (name, value) = (key.to_string(), access.next_value()?);
                if map.insert(key, value).is_some() {
                    return Err(A::Error::custom(format!("duplicate key {name:?}")));
                }
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(UniqueKeys(PhantomData))
}
