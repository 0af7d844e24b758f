//! What is refused before anything is built.

use provider_core::{
    environment::{Accelerator, EnvironmentSpec, Language, Lockfile, Manager, SizeClass, SourceKind},
    names::ProviderId,
    provider::Builder as _,
};
use provider_local::InstallerWay;

use crate::common::*;

/// Without network, credentials or a box: the words are the whole answer.
pub(crate) fn a73_what_cannot_be_honoured_is_refused_by_name() -> Outcome {
    let world = World::new();
    let found = |spec: &EnvironmentSpec, world: &World| -> Vec<String> {
        let findings = world.driver.validate(spec, &Lockfile::without_packages());
        findings.iter().map(ToString::to_string).collect()
    };
    let mut spec = EnvironmentSpec::named("plain");
    spec.spec.language = Some(Language::python(">=3.9"));
    assert_eq!(found(&spec, &world), [""; 0]);

    spec.spec.packages.python.manager = Manager::Uv;
    assert_eq!(found(&spec, &world).join("\n"), GOLDEN_UV);
    let only_pip = World::with(|mut config| {
        config.installer = Some(InstallerWay::PinnedPip);
        config
    });
    assert_eq!(found(&spec, &only_pip).join("\n"), GOLDEN_ONLY);

    let inner = &mut spec.spec;
    inner.base.name = "elsewhere".into();
    inner.base.channel = Some("stable".into());
    inner.platform.architecture = Some("linux/riscv64".into());
    inner.packages.python.manager = Manager::Conda;
    inner.packages.system.apt.push("git".into());
    inner.resources.size_class = Some(SizeClass::Large);
    inner.resources.accelerator = Some(Accelerator { kind: "h100".into(), count: 1, cuda: None });
    inner.resources.hints.insert("modal".into(), "x".into());
    inner.compatibility.regions.push("eu".into());
    inner.compatibility.variants.required.push(ProviderId::new("e2b").expect("an id"));
    inner.build.source = SourceKind::Dockerfile;
    let here = if cfg!(target_arch = "aarch64") { "linux/arm64" } else { "linux/amd64" };
    assert_eq!(found(&spec, &world).join("\n"), GOLDEN.replace("<here>", here));
    for (source, words) in [(SourceKind::DependencyFile, GOLDEN_DEPS), (SourceKind::Image, GOLDEN_IMAGE)] {
        let mut spec = EnvironmentSpec::named("source");
        spec.spec.build.source = source;
        assert_eq!(found(&spec, &world).join("\n"), words);
    }
    world.assert_clean();
    Ok(())
}

const GOLDEN_UV: &str =
    "spec.packages.python.manager: there is no uv on the caller's PATH; install uv, or choose auto or pip";
const GOLDEN_ONLY: &str = "spec.packages.python.manager: the driver is set up to install with the pinned pip alone; \
                           change spec.packages.python.manager";
const GOLDEN: &str = "\
spec.base.ref: there is no base \"elsewhere\"; known are host; name one of them in spec.base.ref, or configure a folder under that name
spec.compatibility.variants: the Environment does not name local; add it, or choose another provider
spec.packages.system.apt: local does not have packages of the distribution; its builds change no package of the distribution, since that needs the rights of root on this machine; install them in the base, or choose another provider
spec.packages.python.manager: local does not have the installer conda; choose auto, uv or pip
spec.build.source: local does not have a Dockerfile as the source; write its steps as packages, files and commands, or choose another provider
spec.base.channel: local does not have a channel of its base; its bases are folders of this machine, which have no channels; leave it out
spec.resources.sizeClass: local does not have a size of its sandboxes; a sandbox may use the whole machine; leave it out, or choose another provider
spec.resources.accelerator: local does not have an accelerator; leave it out, or choose another provider
spec.resources.hints: local does not have hints; leave them out
spec.compatibility.regions: local does not have regions; its sandboxes are where this machine is; leave them out, or choose another provider
spec.platform.architecture: this machine is <here>, and linux/riscv64 is asked for; leave it out, or choose another provider";
const GOLDEN_DEPS: &str = "spec.build.source: local does not have a file of requirements as the source; list the \
                           requirements in spec.packages.python.dependencies";
const GOLDEN_IMAGE: &str = "spec.build.source: local does not have an image as the source; unpack the image into a \
                            folder and name that as a base, or choose another provider";
