//! What an Environment asks of its providers beside its content.

use serde::{Deserialize, Serialize};

use crate::names::ProviderId;

/// The machine that an Environment is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Platform {
    /// `linux/amd64`; absent means the provider's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
}

/// How large the sandboxes of an Environment are, if nothing else is said at their launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Resources {
    /// The size; absent means the provider's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_class: Option<SizeClass>,
    /// An accelerator; absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<Accelerator>,
    /// Hints for single providers, by their ids.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub hints: std::collections::BTreeMap<String, String>,
}

/// A size of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizeClass {
    /// For a script.
    Small,
    /// For a build.
    Medium,
    /// For heavy work.
    Large,
    /// With one accelerator.
    GpuSmall,
    /// With several accelerators.
    GpuLarge,
}

/// An accelerator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Accelerator {
    /// Its type, as the provider calls it.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// The version of CUDA that is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
}

fn one() -> u32 {
    1
}

/// Where an Environment must work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Compatibility {
    /// On which providers. Where both lists are empty, on any.
    pub variants: Variants,
    /// In which regions.
    pub regions: Vec<String>,
}

/// Providers of an Environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Variants {
    /// It must work there.
    pub required: Vec<ProviderId>,
    /// It may be tried there.
    pub optional: Vec<ProviderId>,
}

/// What an Environment is built from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct BuildSource {
    /// Of which sort.
    pub source: SourceKind,
    /// The file beside the specification, for a dependency file or a Dockerfile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The image with its digest, for an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// Of which sort the source of an Environment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceKind {
    /// The packages, files and commands of the specification.
    #[default]
    Packages,
    /// A list of requirements in a file.
    DependencyFile,
    /// A Dockerfile.
    Dockerfile,
    /// An image that exists.
    Image,
}
