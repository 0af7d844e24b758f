//! What of a specification this driver cannot honour.

use provider_core::{
    contract::{Architecture, SANDBOX_V1},
    environment::{EnvironmentSpec, Feature, Manager},
    error::Code,
    provider::Finding,
};

use crate::{config::HOST, driver::Inner, errors::ID};

/// Folders that are this machine's memory in every box on [`HOST`], so that no layer holds them.
const NOT_IN_LAYERS: [&str; 4] = ["/var/tmp", "/var/log", "/var/mail", "/var/spool"];

/// What cannot be honoured, each with its place and what to do. Pure: it looks at nothing but the specification and
/// the driver's settings.
pub(crate) fn findings(inner: &Inner, spec: &EnvironmentSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    let base = &spec.spec.base.name;
    if let Err(error) = inner.bases.get(base) {
        let words = format!("{}; {}", error.message(), error.advice());
        findings.push(Finding::new("spec.base.ref", error.code(), words));
    }
    if spec.spec.contract != SANDBOX_V1.name {
        let words = format!("{:?} is not known; this driver knows {}", spec.spec.contract, SANDBOX_V1.name);
        findings.push(Finding::new("spec.contract", Code::SpecInvalid, words));
    }
    findings.extend(spec.refused_by(&ID, &[], advice));
    findings.extend(architecture(spec));
    findings.extend(manager(inner, spec));
    findings.extend(files(spec));
    findings
}

/// What to do about something that this driver does not have.
fn advice(feature: Feature) -> &'static str {
    match feature {
        Feature::AptPackages => {
            "its builds change no package of the distribution, since that needs the rights of root on this machine; \
             install them in the base, or choose another provider"
        }
        Feature::Conda => "choose auto, uv or pip",
        Feature::DependencyFile => "list the requirements in spec.packages.python.dependencies",
        Feature::Dockerfile => "write its steps as packages, files and commands, or choose another provider",
        Feature::Image => {
            "unpack the image into a folder and name that as a base, or choose another provider"
        }
        Feature::BaseChannel => "its bases are folders of this machine, which have no channels; leave it out",
        Feature::SizeClass => "a sandbox may use the whole machine; leave it out, or choose another provider",
        Feature::Accelerator => "leave it out, or choose another provider",
        Feature::Hints => "leave them out",
        Feature::Regions => {
            "its sandboxes are where this machine is; leave them out, or choose another provider"
        }
        _ => "leave it out, or choose another provider",
    }
}

fn architecture(spec: &EnvironmentSpec) -> Option<Finding> {
    let asked = spec.spec.platform.architecture.as_deref()?;
    let here = Architecture::of_machine(std::env::consts::ARCH);
    let here = here.map_or(std::env::consts::ARCH, |here| here.platform);
    let words =
        format!("this machine is {here}, and {asked} is asked for; leave it out, or choose another provider");
    (asked != here).then(|| Finding::new("spec.platform.architecture", Code::CapabilityUnsupported, words))
}

fn manager(inner: &Inner, spec: &EnvironmentSpec) -> Option<Finding> {
    let manager = spec.spec.packages.python.manager;
    if !spec.names_language() || manager == Manager::Conda {
        return None;
    }
    let (words, advice) = inner.installers.refuses(manager)?;
    let words = format!("{words}; {advice}");
    Some(Finding::new("spec.packages.python.manager", Code::CapabilityUnsupported, words))
}

fn files(spec: &EnvironmentSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, file) in spec.spec.files.iter().enumerate() {
        let within = |folder: &&&str| {
            let rest = file.path.strip_prefix(**folder);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if spec.spec.base.name == HOST
            && let Some(folder) = NOT_IN_LAYERS.iter().find(within)
        {
            let place = format!("spec.files[{index}].path");
            let words = format!(
                "{folder} of a sandbox on base {HOST} is empty at each start, so that no file can be built into \
                 it; choose another place"
            );
            findings.push(Finding::new(place, Code::CapabilityUnsupported, words));
        }
    }
    findings
}
