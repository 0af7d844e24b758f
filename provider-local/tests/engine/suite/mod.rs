//! The trials, by what they are about.

mod basics;
mod child;
mod commands;
mod common;
mod crash;
mod failures;
mod file_operations;
mod inputs;
mod isolation;
mod layers;
mod processes;
mod user;
mod worlds;

pub(crate) use common::remove_small_base as clean_up;

use common::{Outcome, World};
use libtest_mimic::{Completion, Trial};
use std::sync::OnceLock;

/// Trials by the names of their functions.
macro_rules! trials {
    ($($module:ident :: $name:ident),* $(,)?) => {
        vec![$(trial(concat!(stringify!($module), "::", stringify!($name)), $module::$name)),*]
    };
}

fn trial(name: &str, run: fn() -> Outcome) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(reason) = missing() {
            return Ok(Completion::ignored_with(reason));
        }
        match run() {
            Ok(()) => Ok(Completion::Completed),
            Err(common::Stopped::Skipped(reason)) => Ok(Completion::ignored_with(reason)),
            Err(common::Stopped::Failed(reason)) => Err(reason.into()),
        }
    })
}

/// What this machine lacks, looked at once.
fn missing() -> Option<&'static str> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let look = || {
        let needs = World::new().engine.preflight();
        let unmet = needs.into_iter().find(|need| !need.ok)?;
        Some(format!("{}: {}; {}", unmet.name, unmet.detail, unmet.fix))
    };
    MISSING.get_or_init(look).as_deref()
}

/// All trials; none when a parent asked this process for something else, which is done by then.
pub(crate) fn trials() -> Option<Vec<Trial>> {
    if child::run_if_asked() {
        return None;
    }
    let mut trials = trials![
        basics::identity_and_groups,
        basics::needs_are_met,
        basics::a_preflight_leaves_nothing,
        basics::a_thread_may_end,
        basics::twenty_boxes_at_once,
        basics::stop_is_idempotent,
        basics::dropping_removes,
        basics::a_box_of_this_engine_can_be_removed,
        basics::fingerprints_follow_the_base,
        commands::exit_codes_and_signals,
        commands::streams_are_apart,
        commands::a_missing_program_is_no_exit_code,
        commands::a_missing_folder_is_named,
        commands::impossible_commands_are_refused,
        commands::programs_are_searched_in_the_path,
        commands::a_slow_reader_gets_everything,
        commands::stdin_arrives_and_ends,
        commands::the_exit_does_not_wait_for_the_pipes,
        commands::nothing_is_inherited,
        commands::a_dead_runtime_does_not_matter,
        commands::groups_are_set_where_they_can_be,
        commands::many_commands_leave_no_descriptor,
        processes::a_tree_is_killed_with_its_grandchildren,
        processes::a_tree_outlives_its_command_and_is_still_found,
        processes::one_process_alone_can_be_signalled,
        processes::orphans_are_reaped,
        processes::stop_gives_a_grace_and_then_kills,
        processes::forking_processes_cannot_escape_a_kill,
        processes::the_first_process_is_out_of_reach,
        file_operations::files_go_in_and_out,
        file_operations::links_do_not_lead_out,
        file_operations::permissions_hold,
        file_operations::a_named_pipe_does_not_block,
        isolation::private_parts_are_hidden,
        isolation::a_build_sees_no_secrets_of_this_machine,
        isolation::reserved_paths_cannot_be_changed,
        isolation::hostile_links_in_a_layer_stay_inside,
        isolation::run_boxes_have_no_privileges,
        isolation::devices_work_and_cannot_be_made,
        isolation::the_network_files_are_there,
        isolation::a_box_does_not_see_processes_outside,
        inputs::impossible_inputs_are_refused_by_name,
        inputs::inputs_are_in_no_layer,
        inputs::inputs_are_read_and_run_in_a_build,
        inputs::inputs_cannot_be_changed,
        inputs::inputs_with_mounts_below_are_closed_as_well,
        layers::layers_stack_on_both_bases,
        layers::deleted_files_stay_deleted,
        layers::a_user_made_by_a_build_exists,
        layers::secrets_are_in_no_layer,
        layers::the_base_is_never_changed,
        layers::two_builders_build_once,
        layers::a_layer_of_another_kind_is_refused,
        layers::what_a_run_box_writes_goes_away,
        layers::a_failed_build_publishes_nothing,
        failures::every_step_of_a_start_can_fail,
        failures::bad_plans_are_refused,
        failures::a_base_that_is_not_there,
        failures::a_full_disk,
        failures::a_state_folder_that_cannot_be_written,
        failures::a_state_folder_on_an_overlay,
        failures::forbidden_namespaces_name_the_setting,
        failures::a_killed_first_process_ends_the_box,
        failures::a_killed_helper_ends_the_box,
        worlds::a_state_folder_with_a_long_path,
        worlds::mounts_below_system_folders,
        worlds::system_folders_with_file_systems_of_their_own,
        worlds::a_masked_proc_names_the_flag,
        worlds::programs_in_memory_are_forbidden,
        crash::a_killed_driver_leaves_nothing_alive,
        crash::a_forked_copy_of_the_driver_does_not_keep_boxes,
        crash::a_driver_that_panics_leaves_nothing,
    ];
    trials.extend(user::trial());
    Some(trials)
}
