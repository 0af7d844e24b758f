//! What a build made, as data.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use super::BuildRequest;
use crate::{
    contract::{LanguageFacts, SANDBOX_V1},
    error::{Code, Error, Result},
    lifecycle::{ResourceRef, Timestamp},
    names::ProviderId,
    provider::Provider,
};

/// A built Environment on one provider: data that any process can launch from. Holding it owns nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// The version of this record's form.
    pub version: u32,
    /// Which provider has it.
    pub provider: ProviderId,
    /// The account that owns it: a fingerprint that is no secret.
    pub account: String,
    /// The Environment's name.
    pub environment: String,
    /// The immutable reference that a launch uses.
    pub reference: String,
    /// What is deleted to delete it.
    pub thing: ResourceRef,
    /// What was made on the way and is deleted with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intermediates: Vec<ResourceRef>,
    /// The digest of the specification.
    pub spec_digest: String,
    /// The digest of the lockfile.
    pub lockfile_digest: String,
    /// The digest or fingerprint of the base.
    pub base: String,
    /// Whether the same request would give the same content again.
    pub reproducible: bool,
    /// What the Environment promises about its language, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<LanguageFacts>,
    /// The contract that its sandboxes fulfil.
    pub contract: String,
    /// The ids of the secrets that its build was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub build_secrets: Vec<String>,
    /// Variables of every command in its sandboxes.
    #[serde(default)]
    pub env_vars: BTreeMap<String, String>,
    /// When it was built.
    pub built: Timestamp,
    /// When it expires; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// No text of a record that is shown is longer, in bytes.
const TEXT_MAX: usize = 4096;

impl Artifact {
    /// The version of the record's form that this code writes and reads.
    pub const VERSION: u32 = 2;

    /// The record of a finished build. `reference` is what a launch uses and never changes its meaning.
    ///
    /// # Errors
    /// [`Code::Internal`] if the specification has no canonical form, which does not happen.
    pub fn of_build(
        request: &BuildRequest,
        thing: &ResourceRef,
        reference: impl Into<String>,
        built: Timestamp,
        expires: Option<Timestamp>,
    ) -> Result<Self> {
        Ok(Self {
            version: Self::VERSION,
            provider: thing.provider.clone(),
            account: thing.account.clone(),
            environment: request.spec().metadata.name.clone(),
            reference: reference.into(),
            thing: thing.clone(),
            intermediates: Vec::new(),
            spec_digest: request.spec().digest()?,
            lockfile_digest: request.lockfile().digest().to_owned(),
            base: request.base().fingerprint().to_owned(),
            reproducible: request.base().is_pinned(),
            language: request.language_facts(),
            build_secrets: request.spec().spec.build_secrets.iter().map(|it| it.id.clone()).collect(),
            contract: request.spec().spec.contract.clone(),
            env_vars: SANDBOX_V1.env_vars_of(&request.spec().spec.env, request.spec().names_language()),
            built,
            expires,
        })
    }

    /// Everything that the record says beside the reference: what a driver keeps with the artifact, so that a record in
    /// which anything was changed can be told from the one that the build gave.
    ///
    /// # Errors
    /// [`Code::Internal`] if the record has no form, which does not happen.
    pub fn facts(&self) -> Result<serde_json::Value> {
        let mut facts = serde_json::to_value(self).map_err(|source| {
            Error::new(Code::Internal, "the record of an artifact has no form").with_source(source)
        })?;
        if let Some(facts) = facts.as_object_mut() {
            facts.remove("reference");
        }
        Ok(facts)
    }

    /// The keys of the record that say something else than these [facts](Artifact::facts).
    ///
    /// # Errors
    /// As for [`Artifact::facts`].
    pub fn differs_from(&self, facts: &serde_json::Value) -> Result<Vec<String>> {
        let own = self.facts()?;
        let keys = |value: &serde_json::Value| -> BTreeSet<String> {
            value.as_object().map(|it| it.keys().cloned().collect()).unwrap_or_default()
        };
        let all = keys(&own).into_iter().chain(keys(facts)).collect::<BTreeSet<_>>();
        Ok(all.into_iter().filter(|key| own.get(key) != facts.get(key)).collect())
    }

    /// Refuses a record whose texts cannot be those of an artifact, before any of it is shown.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming the key.
    pub fn check_form(&self) -> Result<()> {
        let texts = [
            ("environment", self.environment.as_str(), 63),
            ("account", &self.account, TEXT_MAX),
            ("reference", &self.reference, TEXT_MAX),
            ("lockfile_digest", &self.lockfile_digest, 80),
            ("contract", &self.contract, 255),
        ];
        let things = self.things();
        let of_things = things.iter().flat_map(|thing| {
            let name = thing.name.as_deref().unwrap_or("-");
            [&thing.id, name, &thing.account, &thing.endpoint].map(|text| ("thing", text, TEXT_MAX))
        });
        for (key, text, max) in texts.into_iter().chain(of_things) {
            if text.is_empty() || text.len() > max || text.chars().any(char::is_control) {
                let words = format!(
                    "{key:?} of the artifact's record is empty, too long or holds a control character"
                );
                return Err(Error::new(Code::SpecInvalid, words));
            }
        }
        Ok(())
    }

    /// All that is deleted to delete it.
    pub fn things(&self) -> Vec<ResourceRef> {
        self.intermediates.iter().chain([&self.thing]).cloned().collect()
    }

    /// Refuses an artifact that this driver cannot launch.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if it belongs to another provider, account or endpoint, or is of a later version.
    pub fn check_for(&self, provider: &dyn Provider) -> Result<()> {
        let refuse = |words: String| Err(Error::new(Code::SpecInvalid, words).with_provider(provider.id()));
        if self.version != Self::VERSION {
            return refuse(format!(
                "the artifact's record is of version {}, and {} is known",
                self.version,
                Self::VERSION
            ));
        }
        if self.provider != *provider.id() {
            return refuse(format!("{self} is an artifact of {}", self.provider));
        }
        if self.account != provider.account() || self.thing.endpoint != provider.endpoint() {
            return refuse(format!("{self} belongs to account {} at {}", self.account, self.thing.endpoint))
                .map_err(|error| {
                    error.with_advice("use that account; a local one is that of its state folder")
                });
        }
        Ok(())
    }
}

impl fmt::Display for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.environment, self.reference)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        environment::{BasePin, Environment, EnvironmentSpec, Lockfile},
        lifecycle::{Clock, ResourceKind},
        memory::{ManualClock, MemoryProvider, Pace, World},
        secret::SecretSet,
    };

    fn provider() -> MemoryProvider {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new());
        MemoryProvider::new(&World::new(Arc::clone(&clock), Pace::SLOW), clock)
    }

    fn artifact_of(provider: &dyn Provider) -> Artifact {
        let environment = Environment::new(EnvironmentSpec::named("a"), None).unwrap();
        let base = BasePin::unpinned("memory", "x").unwrap();
        let request =
            BuildRequest::new(environment, Lockfile::without_packages(), base, SecretSet::new()).unwrap();
        let thing = ResourceRef {
            kind: ResourceKind::Artifact,
            provider: provider.id().clone(),
            account: provider.account().to_owned(),
            endpoint: provider.endpoint().to_owned(),
            id: "one".into(),
            name: None,
            details: BTreeMap::new(),
        };
        Artifact::of_build(&request, &thing, "one@sha256:1", Timestamp::from_millis(1), None).unwrap()
    }

    #[test]
    fn a74_an_artifact_of_another_provider_account_or_version_is_refused() {
        let provider = provider();
        let good = artifact_of(&provider);
        good.check_for(&provider).unwrap();
        let other = ProviderId::new("other").unwrap();
        for (changed, words) in [
            (Artifact { provider: other, ..good.clone() }, "is an artifact of other"),
            (Artifact { account: "another".into(), ..good.clone() }, "belongs to account another"),
            (Artifact { version: 1, ..good.clone() }, "is of version 1"),
        ] {
            let error = changed.check_for(&provider).unwrap_err();
            assert!(error.code() == Code::SpecInvalid && error.message().contains(words), "{error}");
        }
    }

    #[test]
    fn a29_each_changed_key_is_named_and_the_reference_is_none_of_them() {
        let good = artifact_of(&provider());
        let facts = good.facts().unwrap();
        let moved = Artifact { reference: "two".into(), ..good.clone() };
        assert!(moved.differs_from(&facts).unwrap().is_empty());
        let env_vars = BTreeMap::from([("LD_PRELOAD".to_owned(), "x".to_owned())]);
        let changed = Artifact { env_vars, expires: Some(Timestamp::from_millis(9)), ..good };
        assert_eq!(changed.differs_from(&facts).unwrap(), ["env_vars", "expires"]);
    }

    #[test]
    fn a_record_whose_texts_cannot_be_ours_is_refused_unseen() {
        let good = artifact_of(&provider());
        good.check_form().unwrap();
        for environment in ["", "a\u{1b}[31m", &"a".repeat(64)] {
            let changed = Artifact { environment: environment.to_owned(), ..good.clone() };
            let error = changed.check_form().unwrap_err();
            assert!(!error.to_string().contains('\u{1b}'), "{error:?}");
        }
    }
}
