//! The whole way: build, launch, use, close.

use provider_core::{
    environment::{EnvironmentSpec, SecretMount},
    sandbox::Command,
};

use crate::common::*;

/// An Environment that uses everything.
pub(crate) fn full_spec() -> EnvironmentSpec {
    let mut spec = EnvironmentSpec::named("full");
    spec.spec.files =
        vec![file("/home/sandbox/work/in/hello.txt", "hello\n"), file("/srv/data.txt", "data\n")];
    spec.spec.env.insert("GREETING".into(), "good day".into());
    spec.spec.build_secrets =
        vec![secret("token", SecretMount::Env, "TOKEN"), secret("key", SecretMount::File, "KEY_FILE")];
    spec.spec.commands.post_install = vec![
        "test \"$(id -u)\" = 0 && cat in/hello.txt && echo \"$GREETING\" >/opt/greeting".into(),
        "printf %s \"$TOKEN\" | wc -c >/opt/lengths && wc -c </run/secrets/KEY_FILE >>/opt/lengths; echo $TOKEN".into(),
    ];
    spec
}

pub(crate) fn the_whole_leg() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let artifact = world.build(&session, full_spec()).await.expect("an artifact");
        let sandbox = world.launch(&session, &artifact).await;
        let sandbox = &**sandbox;
        let said = say(
            sandbox,
            "id -u; id -g; id -un; echo $HOME; pwd; cat in/hello.txt /opt/greeting /opt/lengths",
        )
        .await;
        let length = CANARY.len();
        assert_eq!(
            said,
            format!(
                "1000\n100\nsandbox\n/home/sandbox\n/home/sandbox/work\nhello\ngood day\n{length}\n{length}\n"
            )
        );
        assert_eq!(
            say(sandbox, "echo $GREETING $TOKEN; ls /run/secrets 2>&1 | wc -l").await,
            "good day\n1\n"
        );
        assert_eq!(say(sandbox, "echo x >new && cat new && stat -c %u:%g new").await, "x\n1000:100\n");
        say(sandbox, "sleep 471101 >/dev/null 2>&1 &").await;
        assert_eq!(processes_with("471101").len(), 1);
        world.close(&session).await;
        assert_eq!(processes_with("471101"), [0; 0]);
        assert_eq!(world.layers().len(), 2);
        assert!(sandbox.exec(Command::argv(["true"])).await.is_err());
        Ok(())
    })
}
