//! The driver through sessions, with real boxes and processes. Runs as root and as an ordinary user.

#[cfg(embedded)]
mod builders;
#[cfg(embedded)]
mod builds;
#[cfg(embedded)]
mod code;
#[cfg(embedded)]
mod commands;
#[cfg(embedded)]
mod common;
#[cfg(embedded)]
mod core_tier;
#[cfg(embedded)]
mod digests;
#[cfg(embedded)]
mod files;
#[cfg(embedded)]
mod leftovers;
#[cfg(embedded)]
mod leg;
#[cfg(embedded)]
mod logs;
#[cfg(embedded)]
mod machine;
#[cfg(embedded)]
mod packages;
#[cfg(embedded)]
mod sandboxes;
#[cfg(embedded)]
mod secrets;
#[cfg(embedded)]
mod shelf;
#[cfg(embedded)]
mod small_base;
#[cfg(embedded)]
mod validation;
#[cfg(embedded)]
mod wheels;

#[cfg(embedded)]
fn main() {
    use libtest_mimic::{Arguments, Trial};

    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match &words[..] {
        [word, folder] if word == leftovers::CHILD => return leftovers::child(folder.as_ref()),
        [word, folder] if word == machine::FULL_CHILD => return machine::full_child(folder.as_ref()),
        [word, folder] if word == builders::BUILDER => return builders::builder(folder.as_ref()),
        [word, folder] if word == builders::COLLECTOR => return builders::collector(folder.as_ref()),
        [word, _] if word == commands::CHILD => return commands::child(),
        [word, folder] if word == machine::CHILD => return machine::child(folder.as_ref()),
        _ => {}
    }
    logs::collect();
    /// A trial by the name of its function.
    macro_rules! trials {
        ($($module:ident :: $name:ident),* $(,)?) => {
            vec![$(common::trial(concat!(stringify!($module), "::", stringify!($name)), $module::$name)),*]
        };
    }
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = trials![
        builders::a_collector_in_another_process_disturbs_nobody,
        builders::a_layer_of_a_living_builder_stays_and_of_a_killed_one_goes,
        builders::two_drivers_of_one_process_build_once,
        builders::two_processes_build_once,
        builders::what_was_used_of_late_is_spared,
        builders::when_the_first_builder_fails_the_second_builds,
        builders::when_the_first_builder_is_killed_the_second_builds,
        builds::a_base_that_is_not_the_pinned_one_is_refused,
        builds::a_build_is_cancelled_by_the_close,
        builds::a_collection_during_a_build_takes_nothing_of_it,
        builds::a_command_that_is_killed_says_by_what,
        builds::a_dropped_build_leaves_nothing,
        builds::a_failed_build_does_not_wait_for_its_box,
        builds::a_failing_command_is_named_and_leaves_nothing,
        builds::a_kept_artifact_is_launched_by_a_later_session,
        builds::an_empty_base_takes_the_contract_and_files,
        builds::an_unknown_base_is_refused_with_the_known_ones,
        builds::a_layer_made_with_secrets_is_no_cache,
        builds::builds_of_one_environment_at_once_build_once,
        builds::layers_are_reused,
        builds::what_a_command_leaves_running_ends_with_the_build,
        commands::a_child_has_live_streams,
        commands::a_dropped_exec_ends_its_command,
        commands::a_process_left_behind_does_not_hold_the_answer,
        commands::a_time_limit_ends_the_whole_tree,
        commands::another_user_is_real_or_refused,
        commands::identity_is_real,
        commands::input_is_read_to_its_end,
        commands::status_and_streams_are_told_apart,
        commands::what_cannot_start_is_named,
        core_tier::a_missing_ca_bundle_fails_the_doctor,
        core_tier::a_secret_in_a_file_fails_the_search,
        core_tier::all_checks_pass,
        core_tier::all_checks_pass_on_a_folder,
        core_tier::another_name_fails_doctor_and_identity,
        digests::a_cached_layer_that_differs_is_built_again,
        digests::a_layer_that_was_swapped_is_refused,
        digests::a_record_of_another_version_is_refused,
        digests::one_changed_byte_is_named_and_refused,
        files::files_come_back_as_they_went,
        files::links_do_not_lead_out,
        files::what_is_no_file_is_refused_by_name,
        leftovers::a_killed_process_leaves_what_another_deletes,
        leftovers::a_process_killed_at_any_moment_leaves_nothing_for_good,
        leftovers::what_was_cut_off_on_its_way_is_found_by_name,
        leg::the_whole_leg,
        machine::nothing_is_missing_here,
        packages::what_the_base_lacks_is_named,
        sandboxes::a_dropped_session_takes_everything_along,
        sandboxes::a_life_ends_when_it_is_over,
        sandboxes::a_lost_sandbox_answers_loudly,
        sandboxes::a_record_that_was_changed_is_refused,
        sandboxes::an_artifact_of_another_state_folder_is_refused,
        sandboxes::deleting_twice_or_at_once_is_safe,
        sandboxes::only_this_process_attaches,
        sandboxes::two_sandboxes_of_one_artifact_share_nothing,
        secrets::a_canary_is_nowhere,
        validation::a73_what_cannot_be_honoured_is_refused_by_name,
    ];
    trials.extend(of_packages());
    trials.push(common::trial_if(
        commands::can_have_groups(),
        "commands::further_groups_are_dropped",
        "only root can drop groups, and setpriv(1) is needed to have some",
        commands::further_groups_are_dropped,
    ));
    for (name, body) in [
        ("core_tier::code_sessions_are_real", core_tier::code_sessions_are_real as fn() -> common::Outcome),
        ("code::a66_state_values_outputs_and_errors", code::a66_state_values_outputs_and_errors),
        ("code::a66_sessions_of_one_sandbox_are_apart", code::a66_sessions_of_one_sandbox_are_apart),
        ("code::a66_code_that_does_not_end_is_stopped", code::a66_code_that_does_not_end_is_stopped),
        ("code::a66_an_interpreter_that_ends_is_told", code::a66_an_interpreter_that_ends_is_told),
        ("code::a67_a_lost_sandbox_is_told", code::a67_a_lost_sandbox_is_told),
    ] {
        let why = "this machine has no python3 for its sandboxes";
        trials.push(common::trial_if(core_tier::has_python(), name, why, body));
    }
    trials.push(common::trial_if(
        machine::can_mount(),
        "machine::a_full_disk_is_named",
        "a small file system cannot be mounted here",
        machine::a_full_disk_is_named,
    ));
    trials.push(common::trial_if(
        machine::can_forbid_namespaces(),
        "machine::forbidden_namespaces_are_named",
        "unshare(1) cannot make a user namespace here",
        machine::forbidden_namespaces_are_named,
    ));
    trials.push(common::trial_if(
        common::is_root(),
        "machine::root_of_a_sandbox_has_no_power",
        "only root can run commands as another user",
        machine::root_of_a_sandbox_has_no_power,
    ));
    libtest_mimic::run(&arguments, trials).exit();
}

/// Whether `MATRIX_REQUIRE` names it.
#[cfg(embedded)]
#[expect(clippy::disallowed_methods, reason = "what must run is said by whoever runs the trials")]
fn requires(what: &str) -> bool {
    std::env::var("MATRIX_REQUIRE").is_ok_and(|text| text.split(',').any(|word| word.trim() == what))
}

/// The trials that need the file of the pinned pip. Without it they are ignored, but where `packages` is required they
/// fail; and without `uv` the one that needs it is, but where `uv` is.
#[cfg(embedded)]
fn of_packages() -> Vec<libtest_mimic::Trial> {
    let pip = if requires("packages") { Ok(()) } else { wheels::pip().map(drop) };
    type Run = fn() -> common::Outcome;
    let trial = |can: bool, name: &str, reason: &str, run: Run| {
        let reason = pip.err().unwrap_or(reason);
        common::trial_if(can && pip.is_ok(), &format!("packages::{name}"), reason, run)
    };
    let mut trials = vec![
        trial(
            packages::uv().is_some() || requires("uv"),
            "uv_installs",
            "there is no uv on PATH",
            packages::uv_installs,
        ),
        trial(
            packages::base_has_pip(),
            "pip_of_the_base_installs",
            "this machine's own python3 has no pip",
            packages::pip_of_the_base_installs,
        ),
    ];
    let others: [(&str, Run); 9] = [
        ("the_pinned_pip_installs", packages::the_pinned_pip_installs),
        (
            "a_base_without_any_installer_gets_the_pinned_pip",
            packages::a_base_without_any_installer_gets_the_pinned_pip,
        ),
        ("an_uv_that_cannot_run_is_passed_over", packages::an_uv_that_cannot_run_is_passed_over),
        ("a_changed_file_is_refused_with_both_hashes", packages::a_changed_file_is_refused_with_both_hashes),
        ("a_changed_pip_is_refused_before_it_runs", packages::a_changed_pip_is_refused_before_it_runs),
        (
            "what_is_not_there_is_told_from_what_does_not_fit",
            packages::what_is_not_there_is_told_from_what_does_not_fit,
        ),
        (
            "an_index_that_does_not_answer_is_named_without_its_password",
            packages::an_index_that_does_not_answer_is_named_without_its_password,
        ),
        ("an_index_that_refuses_the_caller_is_named", packages::an_index_that_refuses_the_caller_is_named),
        ("a75_settings_in_a_file_stay_secret", packages::a75_settings_in_a_file_stay_secret),
    ];
    trials.extend(others.map(|(name, run)| trial(true, name, "", run)));
    trials
}

#[cfg(not(embedded))]
fn main() {
    use libtest_mimic::{Arguments, Trial};

    let ignored =
        Trial::test("driver (this system has no embedded engine)", || Ok(())).with_ignored_flag(true);
    libtest_mimic::run(&Arguments::from_args(), vec![ignored]).exit();
}
