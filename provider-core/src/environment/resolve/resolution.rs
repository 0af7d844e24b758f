//! One resolve for all providers of a run.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{ResolveRunner, resolve};
use crate::{
    environment::{ApprovedBases, BasePin, EnvironmentSpec, Lockfile},
    error::{Code, Error, Result},
    names::ProviderId,
    provider::{Finding, Provider},
};

/// What an Environment was resolved to: the same packages everywhere, and for each provider a base of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Resolution {
    /// The packages.
    pub lockfile: Lockfile,
    /// The bases, by provider.
    pub bases: BTreeMap<ProviderId, BasePin>,
}

impl Resolution {
    /// Packages and bases that were resolved apart.
    pub fn new(lockfile: Lockfile, bases: BTreeMap<ProviderId, BasePin>) -> Self {
        Self { lockfile, bases }
    }

    /// What a [`BuildRequest`](crate::environment::BuildRequest) for this provider needs: the lockfile and the
    /// provider's own base.
    ///
    /// # Errors
    /// [`Code::ArtifactMissing`] naming the provider, if the Environment was not resolved for it.
    pub fn request_parts(&self, provider: &ProviderId) -> Result<(Lockfile, BasePin)> {
        let base = self.bases.get(provider).ok_or_else(|| {
            let known: Vec<&str> = self.bases.keys().map(ProviderId::as_str).collect();
            let words = format!("there is no base for {provider}; it was resolved for: {}", known.join(", "));
            Error::new(Code::ArtifactMissing, words)
                .with_provider(provider)
                .with_advice("resolve for all providers of the run at once")
        })?;
        Ok((self.lockfile.clone(), base.clone()))
    }
}

/// Resolves a specification for all providers of a run at once. Bases come first, since they cost nothing; then the
/// runner is asked, at most once, however many providers there are. Call it behind the gates: it starts a process.
///
/// Cancel safe if the runner is: nothing is kept.
///
/// # Errors
/// [`Code::SpecInvalid`] for a wrong specification, a provider that is named twice, or a base, channel or language
/// version that is not to be had; [`Code::ArtifactMissing`] naming the provider for which a base is not published;
/// else as for [`resolve`]. Nothing was asked of the runner where an error is about bases.
pub async fn resolve_for(
    spec: &EnvironmentSpec,
    providers: &[Arc<dyn Provider>],
    approved: &ApprovedBases,
    runner: &dyn ResolveRunner,
) -> Result<Resolution> {
    let bases = pin_bases(spec, providers, approved).await?;
    Ok(Resolution { lockfile: resolve(spec, runner).await?, bases })
}

/// The base of each provider of a run, for a specification whose packages are resolved already. Starts nothing.
///
/// Cancel safe.
///
/// # Errors
/// Those of [`resolve_for`] that are about the specification and bases.
pub async fn pin_bases(
    spec: &EnvironmentSpec,
    providers: &[Arc<dyn Provider>],
    approved: &ApprovedBases,
) -> Result<BTreeMap<ProviderId, BasePin>> {
    Finding::refuse_all(&spec.check())?;
    let mut bases = BTreeMap::new();
    for provider in providers {
        let pin = base_of(spec, provider.as_ref(), approved)
            .await
            .map_err(|error| error.with_provider(provider.id()).with_operation("resolve"))?;
        if bases.insert(provider.id().clone(), pin).is_some() {
            return Err(Error::new(Code::SpecInvalid, format!("provider {} is named twice", provider.id())));
        }
    }
    Ok(bases)
}

async fn base_of(
    spec: &EnvironmentSpec,
    provider: &dyn Provider,
    approved: &ApprovedBases,
) -> Result<BasePin> {
    let base = &spec.spec.base;
    if let Some(own) = provider.own_base(base).await? {
        return Ok(own);
    }
    let pin = approved.pin(base, provider.id())?;
    approved.check_language(spec)?;
    Ok(pin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        environment::{
            BaseRef, BuildRequest, Environment, Format, Language,
            resolve::tests::{Answers, block_on, line, pip, spec},
        },
        memory::{ManualClock, MemoryProvider, Pace, World},
        secret::SecretSet,
    };

    const IDS: [&str; 3] = ["one", "two", "three"];

    fn providers() -> Vec<Arc<dyn Provider>> {
        let clock = ManualClock::new();
        let world = World::new(Arc::new(clock.clone()), Pace::SLOW);
        let one = |id: &&str| {
            let memory =
                MemoryProvider::new(&world, Arc::new(clock.clone())).with_id(ProviderId::new(*id).unwrap());
            Arc::new(memory) as Arc<dyn Provider>
        };
        IDS.iter().map(one).collect()
    }

    fn digest(index: usize) -> String {
        format!("sha256:{}", "abc"[index..=index].repeat(64))
    }

    fn approved() -> ApprovedBases {
        let rows: String = IDS
            .iter()
            .enumerate()
            .map(|(index, id)| format!("{id} = \"r/{id}@{}\"\n", digest(index)))
            .collect();
        let text = format!(
            "[py]\npython = [\"3.12\"]\n[py.channels.stable]\n{rows}[py.channels.edge]\none = \"r/one@{}\"",
            digest(0)
        );
        ApprovedBases::parse(&text, Format::Toml).unwrap()
    }

    fn on_base(channel: &str) -> EnvironmentSpec {
        let mut spec = spec(&["packaging"]);
        spec.spec.base = BaseRef { name: "py".into(), channel: Some(channel.into()) };
        spec
    }

    fn runner() -> Answers {
        Answers::new(line("packaging==24.2", &[1]) + &pip())
    }

    #[test]
    fn a26_a30_one_resolve_serves_all_and_each_gets_its_own_base() {
        let (spec, runner) = (on_base("stable"), runner());
        let resolution = block_on(resolve_for(&spec, &providers(), &approved(), &runner)).unwrap();
        assert_eq!(runner.calls(), 1);
        for (index, id) in IDS.iter().enumerate() {
            let (lockfile, base) = resolution.request_parts(&ProviderId::new(*id).unwrap()).unwrap();
            assert_eq!(base.name(), format!("r/{id}@{}", digest(index)));
            assert_eq!(lockfile, resolution.lockfile);
            let environment = Environment::new(spec.clone(), None).unwrap();
            let request = BuildRequest::new(environment, lockfile, base, SecretSet::new()).unwrap();
            assert_eq!(request.base().fingerprint(), digest(index));
        }
        let error = resolution.request_parts(&ProviderId::new("four").unwrap()).unwrap_err();
        assert_eq!(error.code(), Code::ArtifactMissing);
        assert!(error.message().contains("four") && error.message().contains("one, three, two"), "{error}");
        let stored = serde_json::to_string(&resolution).unwrap();
        assert_eq!(serde_json::from_str::<Resolution>(&stored).unwrap(), resolution);
    }

    #[test]
    fn a25_a30_a_refusal_asks_no_runner() {
        let mut other_language = on_base("stable");
        other_language.spec.language = Some(Language::python("3.13"));
        let mut unknown = on_base("stable");
        unknown.spec.base.name = "ubuntu".into();
        let mut wrong = on_base("stable");
        wrong.spec.packages.python.dependencies.push("a; id".into());
        for (spec, code, words) in [
            (on_base("edge"), Code::ArtifactMissing, "not published for two"),
            (on_base("nightly"), Code::SpecInvalid, "nightly"),
            (unknown, Code::SpecInvalid, "ubuntu"),
            (other_language, Code::SpecInvalid, "3.12"),
            (wrong, Code::SpecInvalid, "dependencies[1]"),
        ] {
            let runner = runner();
            let error = block_on(resolve_for(&spec, &providers(), &approved(), &runner)).unwrap_err();
            assert_eq!((error.code(), runner.calls()), (code, 0), "{error}");
            assert!(error.message().contains(words), "{words:?} is not in {error}");
        }
        let runner = runner();
        let twice: Vec<_> = providers().into_iter().chain(providers()).collect();
        let error = block_on(resolve_for(&on_base("stable"), &twice, &approved(), &runner)).unwrap_err();
        assert_eq!((error.code(), runner.calls()), (Code::SpecInvalid, 0), "{error}");
    }
}
