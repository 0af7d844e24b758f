//! Start, run, stop, publish.

use crate::common::*;
use provider_local::engine::{Base, BoxPlan, Identity};
use provider_local::store::LayerKey;
use std::time::Duration;

pub fn identity_and_groups() -> Outcome {
    let world = World::new();
    for base in both_bases() {
        let running = world.run(base);
        let said = say(&running, "id -u; id -g; id -G; hostname; pwd").ok();
        println!("{said}");
        println!(
            "{:?}",
            say(
                &running,
                "id; cat /proc/mounts; ls -la / /dev; grep -E 'Cap|NoNew' /proc/self/status; ps ax"
            )
        );
        running.stop(Duration::ZERO)?;
    }
    world.assert_clean();
    Ok(())
}

pub fn private_parts_are_hidden() -> Outcome {
    let world = World::new();
    let running = world.run(Base::Host);
    let said = say(
        &running,
        "ls /root; ls -A /home /mnt /media /tmp /run /var/tmp /srv; cat /etc/shadow; cat /etc/passwd | wc -l; cat /etc/resolv.conf /etc/hosts; ls /work",
    );
    println!("{said:?}");
    Ok(())
}

pub fn layers_stack() -> Outcome {
    let world = World::new();
    for (number, base) in both_bases().into_iter().enumerate() {
        let first = LayerKey::new(format!("first-{number}"))?;
        let lock = world.engine.store().lock_layer(&first, Duration::ZERO)?;
        let build = world.build(base.clone());
        println!(
            "{:?}",
            say_as_root(
                &build,
                "id; mkdir -p /home/sandbox /opt/provider; echo one >/opt/provider/one; echo sandbox:x:1000:100::/home/sandbox:/bin/sh >>/etc/passwd; chown 1000:100 /home/sandbox; echo hi > /home/sandbox/hi; ls -la /etc/passwd"
            )
        );
        let layer = build.publish(&lock, serde_json::json!({"n": 1}))?;
        println!("{layer:?} {}", layer.size());
        let second = LayerKey::new(format!("second-{number}"))?;
        let lock2 = world.engine.store().lock_layer(&second, Duration::ZERO)?;
        let mut plan = BoxPlan::build(new_id(), base.clone());
        plan.layers = vec![first.clone()];
        let build = world.start(&plan);
        println!(
            "{:?}",
            say_as_root(
                &build,
                "cat /opt/provider/one; echo two > /opt/provider/two; rm /home/sandbox/hi"
            )
        );
        build.publish(&lock2, serde_json::Value::Null)?;
        let mut plan = BoxPlan::run(new_id(), base);
        plan.layers = vec![first, second];
        plan.reserved = vec!["/opt/provider".into()];
        let running = world.start(&plan);
        println!(
            "{:?}",
            say(
                &running,
                "id; cat /opt/provider/*; ls -la /home/sandbox; touch /opt/provider/x; mv /opt /opt2; ls -la /opt"
            )
        );
    }
    world.assert_clean();
    Ok(())
}

pub fn needs_are_met() -> Outcome {
    let world = World::new();
    println!("{:#?}", world.engine.preflight());
    let _ = Identity::ROOT;
    world.assert_clean();
    Ok(())
}
