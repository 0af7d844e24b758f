//! The settings that the matrix reads from the environment beside those of the drivers.

use std::env;

use provider_core::{
    environment::EnvironmentSpec,
    error::{Code, Error, Result},
    secret::SecretSet,
};

/// The secret of the matrix's own environment; it gets a random value in each run.
const OWN_SECRET: &str = "matrix-token";

/// The values of an Environment's build secrets: each is read from the variable that the user names for its id. The
/// secret of the matrix's own environment needs none.
///
/// # Errors
/// [`Code::BuildSecretUnavailable`] naming the variable that is not set, never a value; [`Code::SpecInvalid`] if the
/// Environment names no such secret.
pub fn secrets(spec: &EnvironmentSpec, given: &[(String, String)]) -> Result<SecretSet> {
    let named: Vec<&str> = spec.spec.build_secrets.iter().map(|secret| secret.id.as_str()).collect();
    let mut secrets = read(&named, given)?;
    if named.contains(&OWN_SECRET) && secrets.get(OWN_SECRET).is_none() {
        let random: String = std::iter::repeat_with(fastrand::alphanumeric).take(40).collect();
        secrets.insert(OWN_SECRET, random)?;
    }
    let missing: Vec<&str> = named.iter().copied().filter(|id| secrets.get(id).is_none()).collect();
    if let Some(first) = missing.first() {
        let words = format!("no value was given for build secret {}", missing.join(", "));
        return Err(Error::new(Code::BuildSecretUnavailable, words)
            .with_advice(format!("name the variable that holds it: --secret {first}=VARIABLE")));
    }
    Ok(secrets)
}

/// The values of the secrets that an artifact was built with, as far as the user gives them: only to look for them.
///
/// # Errors
/// As for [`secrets`].
pub fn secrets_of(ids: &[String], given: &[(String, String)]) -> Result<SecretSet> {
    read(&ids.iter().map(String::as_str).collect::<Vec<_>>(), given)
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
fn read(named: &[&str], given: &[(String, String)]) -> Result<SecretSet> {
    let mut secrets = SecretSet::new();
    for (id, variable) in given {
        if !named.contains(&id.as_str()) {
            let words =
                format!("the environment names no build secret {id:?}; it names: {}", named.join(", "));
            return Err(Error::new(Code::SpecInvalid, words).with_advice("name it in spec.buildSecrets"));
        }
        let value = env::var(variable).map_err(|_| {
            Error::new(
                Code::BuildSecretUnavailable,
                format!(
                    "build secret {id:?} is to come from variable {variable}, which is not set or not UTF-8"
                ),
            )
        })?;
        secrets.insert(id, value)?;
    }
    Ok(secrets)
}

/// Whether the leg of this provider must run, so that a machine that cannot is a failure: `MATRIX_REQUIRE` names the
/// providers, separated by commas.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
pub fn requires(provider: &str) -> bool {
    env::var("MATRIX_REQUIRE").is_ok_and(|required| required.split(',').any(|id| id.trim() == provider))
}
