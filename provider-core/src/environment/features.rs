//! What a specification asks for that not every driver can do, so that each driver refuses by name what it cannot.

use super::{EnvironmentSpec, Manager, SourceKind};
use crate::{error::Code, names::ProviderId, provider::Finding};

/// Something that a specification may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Packages of the distribution.
    AptPackages,
    /// Conda as the installer.
    Conda,
    /// A list of requirements in a file.
    DependencyFile,
    /// A Dockerfile.
    Dockerfile,
    /// An image that exists.
    Image,
    /// A base that is published in channels.
    BaseChannel,
    /// A size for sandboxes.
    SizeClass,
    /// An accelerator.
    Accelerator,
    /// Hints.
    Hints,
    /// Regions.
    Regions,
}

impl Feature {
    /// What it is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Feature::AptPackages => "packages of the distribution",
            Feature::Conda => "the installer conda",
            Feature::DependencyFile => "a file of requirements as the source",
            Feature::Dockerfile => "a Dockerfile as the source",
            Feature::Image => "an image as the source",
            Feature::BaseChannel => "a channel of its base",
            Feature::SizeClass => "a size of its sandboxes",
            Feature::Accelerator => "an accelerator",
            Feature::Hints => "hints",
            Feature::Regions => "regions",
        }
    }
}

impl EnvironmentSpec {
    /// What it asks for beyond what every driver does, with the place of each.
    pub fn features(&self) -> Vec<(Feature, &'static str)> {
        let spec = &self.spec;
        let source = |kind| spec.build.source == kind;
        let all = [
            (!spec.packages.system.apt.is_empty(), Feature::AptPackages, "spec.packages.system.apt"),
            (spec.packages.python.manager == Manager::Conda, Feature::Conda, "spec.packages.python.manager"),
            (source(SourceKind::DependencyFile), Feature::DependencyFile, "spec.build.source"),
            (source(SourceKind::Dockerfile), Feature::Dockerfile, "spec.build.source"),
            (source(SourceKind::Image), Feature::Image, "spec.build.source"),
            (spec.base.channel.is_some(), Feature::BaseChannel, "spec.base.channel"),
            (spec.resources.size_class.is_some(), Feature::SizeClass, "spec.resources.sizeClass"),
            (spec.resources.accelerator.is_some(), Feature::Accelerator, "spec.resources.accelerator"),
            (!spec.resources.hints.is_empty(), Feature::Hints, "spec.resources.hints"),
            (!spec.compatibility.regions.is_empty(), Feature::Regions, "spec.compatibility.regions"),
        ];
        all.into_iter().filter(|(asked, ..)| *asked).map(|(_, feature, place)| (feature, place)).collect()
    }

    /// What a driver must refuse of this specification: providers that it does not name, and the features that the
    /// driver does not have. `advice` says for a feature what to do instead. Pure.
    pub fn refused_by(
        &self,
        provider: &ProviderId,
        supported: &[Feature],
        advice: impl Fn(Feature) -> &'static str,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let variants = &self.spec.compatibility.variants;
        let mut named = variants.required.iter().chain(&variants.optional).peekable();
        if named.peek().is_some() && !named.any(|id| id == provider) {
            let words =
                format!("the Environment does not name {provider}; add it, or choose another provider");
            findings.push(Finding::new("spec.compatibility.variants", Code::CapabilityUnsupported, words));
        }
        for (feature, place) in self.features() {
            if !supported.contains(&feature) {
                let words = format!("{provider} does not have {}; {}", feature.words(), advice(feature));
                findings.push(Finding::new(place, Code::CapabilityUnsupported, words));
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Accelerator;

    #[test]
    fn a73_what_a_driver_does_not_have_is_refused_by_name() {
        let mut spec = EnvironmentSpec::named("a");
        assert!(spec.features().is_empty());
        spec.spec.packages.system.apt.push("git".into());
        spec.spec.packages.python.manager = Manager::Conda;
        spec.spec.base.channel = Some("2026-11".into());
        spec.spec.resources.accelerator = Some(Accelerator { kind: "h100".into(), count: 1, cuda: None });
        spec.spec.resources.hints.insert("modal".into(), "x".into());
        spec.spec.compatibility.regions.push("eu".into());
        spec.spec.build.source = SourceKind::Dockerfile;
        let here = ProviderId::new("here").unwrap();
        let refused = spec.refused_by(&here, &[Feature::Hints], |_| "leave it out");
        let places: Vec<_> = refused.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(
            places,
            [
                "spec.packages.system.apt",
                "spec.packages.python.manager",
                "spec.build.source",
                "spec.base.channel",
                "spec.resources.accelerator",
                "spec.compatibility.regions",
            ]
        );
        assert!(refused.iter().all(|it| it.code == Code::CapabilityUnsupported && it.words.contains("here")));
    }

    #[test]
    fn a_provider_that_is_not_named_is_refused_where_others_are() {
        let mut spec = EnvironmentSpec::named("a");
        let id = |name| ProviderId::new(name).unwrap();
        spec.spec.compatibility.variants.optional.push(id("e2b"));
        assert_eq!(spec.refused_by(&id("local"), &[], |_| "").len(), 1);
        assert!(spec.refused_by(&id("e2b"), &[], |_| "").is_empty());
    }
}
