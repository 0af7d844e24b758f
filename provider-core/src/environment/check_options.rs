//! What a specification must not say about machines, sizes, places and sources.

use std::collections::BTreeSet;

use super::{
    BasePin, EnvironmentSpec, SourceKind,
    check::{Findings, is_plain_path, looks_like_a_credential},
};
use crate::contract::Architecture;

const LIST_MAX: usize = 32;
const ACCELERATORS_MAX: u32 = 16;

impl EnvironmentSpec {
    pub(super) fn check_options(&self, findings: &mut Findings) {
        let spec = &self.spec;
        let known = Architecture::AMD64.platform;
        if let Some(other) = spec.platform.architecture.as_ref().filter(|asked| *asked != known) {
            findings.add("spec.platform.architecture", format!("{other:?} is not known; {known} is"));
        }
        if spec.base.channel.as_ref().is_some_and(|channel| !is_word(channel)) {
            findings.add("spec.base.channel", "it is not letters, digits, dots and hyphens".to_owned());
        }
        self.check_resources(findings);
        self.check_compatibility(findings);
        self.check_source(findings);
    }

    fn check_resources(&self, findings: &mut Findings) {
        let resources = &self.spec.resources;
        if let Some(accelerator) = &resources.accelerator {
            let place = "spec.resources.accelerator";
            if !is_word(&accelerator.kind) {
                findings
                    .add(format!("{place}.type"), "it is not letters, digits, dots and hyphens".to_owned());
            }
            if !(1..=ACCELERATORS_MAX).contains(&accelerator.count) {
                let words = format!("{} is not between 1 and {ACCELERATORS_MAX}", accelerator.count);
                findings.add(format!("{place}.count"), words);
            }
            if accelerator.cuda.as_ref().is_some_and(|version| !is_word(version)) {
                findings.add(format!("{place}.cuda"), "it is no version".to_owned());
            }
        }
        for (key, value) in &resources.hints {
            if !is_word(key) || value.len() > 255 || value.chars().any(char::is_control) {
                findings.add("spec.resources.hints", format!("{key:?} is no hint of a usual form"));
            } else if looks_like_a_credential(value) {
                findings.add("spec.resources.hints", format!("the value of {key:?} looks like a credential"));
            }
        }
    }

    fn check_compatibility(&self, findings: &mut Findings) {
        let compatibility = &self.spec.compatibility;
        let mut named = BTreeSet::new();
        let variants = &compatibility.variants;
        for id in variants.required.iter().chain(&variants.optional) {
            if !named.insert(id) {
                findings.add("spec.compatibility.variants", format!("{id} is named twice"));
            }
        }
        let regions = &compatibility.regions;
        if regions.len() > LIST_MAX || regions.iter().any(|region| !is_word(region)) {
            findings.add("spec.compatibility.regions", "one is no name, or there are too many".to_owned());
        }
    }

    fn check_source(&self, findings: &mut Findings) {
        let build = &self.spec.build;
        let needs_path = matches!(build.source, SourceKind::DependencyFile | SourceKind::Dockerfile);
        match &build.path {
            Some(_) if !needs_path => {
                findings.add("spec.build.path", "the source has no file".to_owned());
            }
            Some(path) if !is_plain_path(path) => {
                findings
                    .add("spec.build.path", format!("{path:?} is not a plain path beside the specification"));
            }
            None if needs_path => findings.add("spec.build.path", "the source needs a file".to_owned()),
            _ => {}
        }
        match &build.image {
            Some(_) if build.source != SourceKind::Image => {
                findings.add("spec.build.image", "the source is no image".to_owned());
            }
            Some(image) => {
                if let Err(error) = BasePin::digest(image.clone()) {
                    findings.add("spec.build.image", error.message().to_owned());
                }
            }
            None if build.source == SourceKind::Image => {
                findings.add("spec.build.image", "the source needs an image".to_owned());
            }
            None => {}
        }
    }
}

fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        environment::{Accelerator, BuildSource},
        names::ProviderId,
    };

    #[test]
    fn each_wrong_field_is_found_at_its_place() {
        type Change = fn(&mut EnvironmentSpec);
        let source = |source, path: Option<&str>, image: Option<&str>| BuildSource {
            source,
            path: path.map(str::to_owned),
            image: image.map(str::to_owned),
        };
        let places = |change: &dyn Fn(&mut EnvironmentSpec)| {
            let mut spec = EnvironmentSpec::named("a");
            change(&mut spec);
            spec.check().into_iter().map(|finding| finding.place).collect::<Vec<_>>().join(" ")
        };
        let cases: [(Change, &str); 6] = [
            (
                |spec| spec.spec.platform.architecture = Some("linux/arm64".into()),
                "spec.platform.architecture",
            ),
            (|spec| spec.spec.platform.architecture = Some("linux/amd64".into()), ""),
            (|spec| spec.spec.base.channel = Some("a b".into()), "spec.base.channel"),
            (
                |spec| {
                    let accelerator = Accelerator { kind: "a b".into(), count: 0, cuda: Some("$".into()) };
                    spec.spec.resources.accelerator = Some(accelerator);
                },
                "spec.resources.accelerator.type spec.resources.accelerator.count spec.resources.accelerator.cuda",
            ),
            (
                |spec| {
                    let twice = ProviderId::new("local").unwrap();
                    spec.spec.compatibility.variants.required.extend([twice.clone(), twice]);
                },
                "spec.compatibility.variants",
            ),
            (|spec| spec.spec.compatibility.regions.push("eu west".into()), "spec.compatibility.regions"),
        ];
        for (change, place) in cases {
            assert_eq!(places(&change), place);
        }
        for (build, place) in [
            (source(SourceKind::Packages, Some("a"), None), "spec.build.path"),
            (source(SourceKind::Dockerfile, None, None), "spec.build.path"),
            (source(SourceKind::Dockerfile, Some("../a"), None), "spec.build.path"),
            (source(SourceKind::Dockerfile, Some("a/Dockerfile"), None), ""),
            (source(SourceKind::Image, None, None), "spec.build.image"),
            (source(SourceKind::Image, None, Some("debian:12")), "spec.build.image"),
            (source(SourceKind::Packages, None, Some("debian:12")), "spec.build.image"),
        ] {
            assert_eq!(places(&|spec| spec.spec.build = build.clone()), place, "{build:?}");
        }
    }
}
