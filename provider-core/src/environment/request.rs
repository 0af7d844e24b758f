//! A build, checked when it is asked for.

use super::{BasePin, Environment, EnvironmentSpec, InstallerVariables, Lockfile, Requirement};
use crate::{
    contract::{LanguageFacts, LockedVersion},
    error::{Code, Error, Result},
    lifecycle::{Lifetime, Timestamp},
    names::RunId,
    secret::SecretSet,
};

/// The unique number of one build. Two builds of the same Environment differ in it.
pub type BuildId = RunId;

/// A build: everything that a driver needs, in agreement with itself.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    id: BuildId,
    environment: Environment,
    lockfile: Lockfile,
    base: BasePin,
    secrets: SecretSet,
    variables: InstallerVariables,
    lifetime: Lifetime,
}

impl BuildRequest {
    /// Puts a build together.
    ///
    /// # Errors
    /// [`Code::BuildSecretUnavailable`] naming each secret of the specification that has no value;
    /// [`Code::SpecInvalid`] if a secret's value stands in the specification, or if the lockfile was resolved for
    /// other packages than the specification names.
    pub fn new(
        environment: Environment,
        lockfile: Lockfile,
        base: BasePin,
        secrets: SecretSet,
    ) -> Result<Self> {
        let wanted = &environment.spec().spec.build_secrets;
        let missing: Vec<&str> =
            wanted.iter().map(|secret| secret.id.as_str()).filter(|id| secrets.get(id).is_none()).collect();
        if !missing.is_empty() {
            let words = format!("no value was given for build secret {}", missing.join(", "));
            return Err(Error::new(Code::BuildSecretUnavailable, words));
        }
        refuse_secrets_in_the_open(&environment, &secrets)?;
        lockfile.check_for(environment.spec())?;
        Ok(Self {
            id: BuildId::random(),
            environment,
            lockfile,
            base,
            secrets,
            variables: InstallerVariables::new(),
            lifetime: Lifetime::Session,
        })
    }

    /// Gives the build variables for its installers.
    #[must_use]
    pub fn with_installer_variables(mut self, variables: InstallerVariables) -> Self {
        self.variables = variables;
        self
    }

    /// Chooses until when the artifact may exist. Its name carries this, so that it cannot change later.
    ///
    /// # Errors
    /// As for [`Lifetime::check`].
    pub fn with_lifetime(mut self, lifetime: Lifetime, now: Timestamp) -> Result<Self> {
        lifetime.check(now)?;
        self.lifetime = lifetime;
        Ok(self)
    }

    /// The unique number of this build.
    pub fn id(&self) -> &BuildId {
        &self.id
    }

    /// The specification and the content of its files.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The specification.
    pub fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    /// The resolved packages.
    pub fn lockfile(&self) -> &Lockfile {
        &self.lockfile
    }

    /// What the build starts from.
    pub fn base(&self) -> &BasePin {
        &self.base
    }

    /// The values of the build secrets.
    pub fn secrets(&self) -> &SecretSet {
        &self.secrets
    }

    /// Variables for installers, as secret as secrets are.
    pub fn installer_variables(&self) -> &InstallerVariables {
        &self.variables
    }

    /// What the Environment promises about its language: the versions that will do, and its direct dependencies as
    /// they are locked.
    pub fn language_facts(&self) -> Option<LanguageFacts> {
        let spec = &self.spec().spec;
        let version = spec.language.as_ref()?.specifiers().ok()?.to_string();
        let locked = self.lockfile.by_name();
        let versions = |name: &str| {
            let packages = locked.get(name).map(Vec::as_slice).unwrap_or_default();
            packages
                .iter()
                .map(|package| LockedVersion {
                    version: package.version.clone(),
                    marker: package.marker.clone(),
                })
                .collect()
        };
        let read = spec.packages.python.dependencies.iter().filter_map(|text| Requirement::parse(text).ok());
        // One that depends on the machine may be locked for none of those that the Environment is for.
        let due = read.filter(|it| !it.depends_on_the_machine() || locked.contains_key(it.name.as_str()));
        let packages = due.map(|it| (it.name.clone(), versions(&it.name))).collect();
        Some(LanguageFacts { version, packages })
    }

    /// Until when the artifact may exist.
    pub fn lifetime(&self) -> &Lifetime {
        &self.lifetime
    }
}

/// What the artifact remembers must not hold what it must forget.
fn refuse_secrets_in_the_open(environment: &Environment, secrets: &SecretSet) -> Result<()> {
    let spec = &environment.spec().spec;
    for (id, secret) in secrets.iter() {
        let value = secret.expose();
        let place = if spec.env.values().any(|text| text.contains(value)) {
            "spec.env"
        } else if spec.commands.post_install.iter().any(|text| text.contains(value)) {
            "spec.commands.postInstall"
        } else if environment.files().iter().any(|file| contains(&file.bytes, value.as_bytes())) {
            "spec.files"
        } else {
            continue;
        };
        return Err(Error::new(Code::SpecInvalid, format!("{place} holds the value of build secret {id:?}"))
            .with_advice("refer to the secret by the variable or file that spec.buildSecrets names"));
    }
    Ok(())
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{BuildSecret, Language, SecretMount};

    const CANARY: &str = "canary-4711-value";

    fn spec() -> EnvironmentSpec {
        let mut spec = EnvironmentSpec::named("a");
        let secret = BuildSecret { id: "token".into(), mount_as: SecretMount::Env, name: "TOKEN".into() };
        spec.spec.build_secrets.push(secret);
        spec
    }

    fn request(spec: EnvironmentSpec, secrets: SecretSet) -> Result<BuildRequest> {
        let base = BasePin::unpinned("host", "x")?;
        BuildRequest::new(Environment::new(spec, None)?, Lockfile::without_packages(), base, secrets)
    }

    fn canary() -> SecretSet {
        let mut secrets = SecretSet::new();
        secrets.insert("token", CANARY).unwrap();
        secrets
    }

    #[test]
    fn a13_two_builds_of_one_environment_have_two_ids() {
        let ids: std::collections::HashSet<_> =
            (0..100).map(|_| request(spec(), canary()).unwrap().id().clone()).collect();
        assert_eq!(ids.len(), 100);
    }

    #[test]
    fn a_dependency_for_no_machine_is_not_promised_and_one_that_is_not_locked_is_refused() {
        let mut spec = EnvironmentSpec::named("a");
        spec.spec.language = Some(Language::python("3.12"));
        spec.spec.packages.python.dependencies = vec!["old; python_version < '3.8'".into(), "pip".into()];
        let lockfile = |spec: &EnvironmentSpec| {
            let installer = Lockfile::of_installer(spec)?;
            let base = BasePin::unpinned("host", "x")?;
            BuildRequest::new(Environment::new(spec.clone(), None)?, installer, base, SecretSet::new())
        };
        let facts = lockfile(&spec).unwrap().language_facts().unwrap();
        assert_eq!(facts.version, "==3.12.*");
        assert_eq!(facts.packages.keys().collect::<Vec<_>>(), ["pip"]);
        spec.spec.packages.python.dependencies.push("new".into());
        let error = lockfile(&spec).unwrap_err();
        assert!(error.message().contains("does not pin new"), "{error}");
    }

    #[test]
    fn a_missing_secret_is_named() {
        let error = request(spec(), SecretSet::new()).unwrap_err();
        assert_eq!(error.code(), Code::BuildSecretUnavailable);
        assert!(error.message().contains("token"));
    }

    #[test]
    fn a75_a_secret_in_the_open_is_refused_and_not_quoted() {
        let mut in_env = spec();
        in_env.spec.env.insert("A".into(), format!("x{CANARY}x"));
        let mut in_command = spec();
        in_command.spec.commands.post_install.push(format!("echo {CANARY}"));
        for spec in [in_env, in_command] {
            let error = request(spec, canary()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains(CANARY), "{error}");
        }
        assert!(!format!("{:?}", request(spec(), canary()).unwrap()).contains(CANARY));
    }

    #[test]
    fn a_lifetime_must_say_something() {
        let now = Timestamp::from_millis(1000);
        for lifetime in [Lifetime::Until(now), Lifetime::Unbounded { reason: " ".into() }] {
            assert!(request(spec(), canary()).unwrap().with_lifetime(lifetime, now).is_err());
        }
    }
}
