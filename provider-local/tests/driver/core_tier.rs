//! The core tier on real sandboxes, and Environments that make exactly one check fail.

use std::{path::Path, sync::Arc};

use provider_core::{
    contract::{
        LanguageFacts, SANDBOX_V1,
        checks::{CORE_TIER, CheckContext, CheckResult, Status, ids, run_check, run_core_tier},
    },
    environment::{EnvironmentSpec, SecretMount},
    lifecycle::{Clock as _, SystemClock, Timestamp},
    sandbox::Sandbox,
    secret::SecretSet,
};

use crate::{common::*, leg::full_spec, small_base};

async fn certify(spec: EnvironmentSpec) -> Vec<CheckResult> {
    certify_in(&World::new(), spec).await
}

/// Builds, launches and certifies; nothing is left afterwards.
async fn certify_in(world: &World, spec: EnvironmentSpec) -> Vec<CheckResult> {
    let session = world.session();
    let start = SystemClock::new().now();
    let request = world.request(spec.clone());
    let secrets = request.secrets().clone();
    let artifact = session.build(&world.provider, request).await.expect("an artifact");
    let sandbox = world.launch(&session, &artifact).await;
    let metadata = serde_json::to_string(&*artifact).expect("JSON");
    let results = check(world, &sandbox, &secrets, metadata, start).await;
    world.close(&session).await;
    results
}

async fn check(
    world: &World,
    sandbox: &Arc<dyn Sandbox>,
    secrets: &SecretSet,
    metadata: String,
    start: Timestamp,
) -> Vec<CheckResult> {
    let mut context = CheckContext::new(sandbox, secrets);
    context.contract = SANDBOX_V1.on_this_machine();
    context.metadata = vec![("artifact".into(), metadata)];
    context.groups_cannot_be_dropped = !world.driver.kept_groups().is_empty();
    context.since = Some(Timestamp::from_millis(start.as_millis().saturating_sub(60_000)));
    run_core_tier(&context).await
}

fn failed(results: &[CheckResult]) -> Vec<&CheckResult> {
    results.iter().filter(|result| result.failed()).collect()
}

/// Exactly this check fails, and says so with this word.
fn assert_only(results: &[CheckResult], id: &str, word: &str) {
    let failed = failed(results);
    assert!(failed.len() == 1 && failed[0].id == id, "{results:#?}");
    let text = format!("{:?}", failed[0]);
    assert!(text.contains(word) && !text.contains(CANARY), "{text}");
}

pub(crate) fn all_checks_pass() -> Outcome {
    on_a_runtime(async {
        let results = certify(full_spec()).await;
        assert_eq!(results.len(), CORE_TIER.len());
        let not_asked = results.iter().filter(|result| result.status == Status::NotAsked).count();
        assert_eq!(not_asked, CORE_TIER.iter().filter(|check| check.needs_language).count());
        assert!(failed(&results).is_empty(), "{results:#?}");
    });
    Ok(())
}

/// A base that the caller owns whole; then the reserved path is all the more in danger.
pub(crate) fn all_checks_pass_on_a_folder() -> Outcome {
    on_a_runtime(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        small_base::fill(folder.path());
        let world = World::with(|config| config.base("small", folder.path()));
        let mut spec = full_spec();
        spec.spec.base.name = "small".into();
        let results = certify_in(&world, spec).await;
        assert!(failed(&results).is_empty(), "{results:#?}");
    });
    Ok(())
}

pub(crate) fn a_missing_ca_bundle_fails_the_doctor() -> Outcome {
    on_a_runtime(async {
        let mut spec = EnvironmentSpec::named("no-bundle");
        // As an ordinary user /etc/ssl/certs belongs to nobody inside, but what is put above it counts.
        let remove = format!("rm -f {0} || mv /etc/ssl /etc/ssl.away", SANDBOX_V1.ca_bundle);
        spec.spec.commands.post_install = vec![remove];
        assert_only(&certify(spec).await, ids::DOCTOR, "ca_certificates");
    });
    Ok(())
}

pub(crate) fn a_secret_in_a_file_fails_the_search() -> Outcome {
    on_a_runtime(async {
        let mut spec = EnvironmentSpec::named("leak");
        spec.spec.build_secrets = vec![secret("token", SecretMount::Env, "TOKEN")];
        spec.spec.commands.post_install = vec!["printf %s \"$TOKEN\" >/opt/left-behind".into()];
        assert_only(&certify(spec).await, ids::SECRETS, "/opt/left-behind");
    });
    Ok(())
}

pub(crate) fn another_name_fails_doctor_and_identity() -> Outcome {
    on_a_runtime(async {
        let mut spec = EnvironmentSpec::named("renamed");
        spec.spec.commands.post_install = vec!["sed -i s/^sandbox:/somebody:/ /etc/passwd".into()];
        let results = certify(spec).await;
        let failed: Vec<&str> = failed(&results).iter().map(|result| result.id.as_str()).collect();
        assert_eq!(failed, [ids::DOCTOR, ids::IDENTITY], "{results:#?}");
    });
    Ok(())
}

/// Whether the sandboxes, whose base is this machine, have an interpreter.
pub(crate) fn has_python() -> bool {
    SANDBOX_V1.path.split(':').any(|folder| Path::new(folder).join(SANDBOX_V1.python).exists())
}

/// The artifact's own doctor is not asked about a language; the checks of code sessions are all the same.
pub(crate) fn code_sessions_are_real() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let none = SecretSet::new();
        let mut context = CheckContext::new(&sandbox, &none);
        context.contract = SANDBOX_V1.on_this_machine();
        context.language = Some(LanguageFacts { version: ">=3.8".into(), ..LanguageFacts::default() });
        for id in [ids::KERNEL, ids::RESTART, ids::SHUTDOWN] {
            let result = run_check(id, &context).await.expect("a check");
            assert!(result.passed(), "{result:#?}");
        }
        world.close(&session).await;
    });
    Ok(())
}
