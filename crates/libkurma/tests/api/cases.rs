//! The cases of `tests/suite`, each with files of its own.

use std::process::Command;

use nfs4_server::Limits;

use crate::compiler::{SUITE, run};
use crate::world::World;

fn check(case: &str, world: &World) {
    run(Command::new(&*SUITE).arg(case).args(world.arguments()));
}

fn check_each(case: &str) {
    check(case, &World::nfs(Limits::default()));
    check(case, &World::local());
}

/// A test for each case.
macro_rules! cases {
    ($($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                check_each(stringify!($case));
            }
        )*

        #[test]
        fn no_case_is_forgotten() {
            let mut known = vec![$(stringify!($case)),*];
            known.extend(["a_server_that_takes_few_operations_at_once_gives_the_same_results"]);
            known.extend([
                "a_server_that_is_gone_ends_calls_and_lets_go_of_memory",
                "a_lost_answer_is_told_as_unknown_and_nothing_is_repeated",
                "what_was_left_by_a_lost_answer_was_done_once",
                "connections_are_protected_by_tls",
                "what_a_server_loses_in_a_restart_is_written_again",
                "a_line_that_breaks_again_and_again_loses_nothing",
                "nothing_leads_out_of_the_root",
                "new_files_have_exactly_the_permission_bits_that_were_asked_for",
                "what_is_no_regular_file_is_neither_read_nor_waited_for",
                "a_tree_deeper_than_the_longest_path_can_be_made_listed_and_removed",
                "holes_stay_holes_in_a_copy",
                "random_vectors_do_the_same_everywhere",
            ]);
            known.sort_unstable();
            let listed = run(&mut Command::new(&*SUITE));
            let mut listed: Vec<_> = listed.lines().collect();
            listed.sort_unstable();
            assert_eq!(listed, known);
        }
    };
}

cases! {
    many_files_are_made_written_and_read_in_one_round_trip_each
    two_reads_of_one_path_share_an_open
    a_file_may_be_written_and_read_in_one_vector
    the_third_of_five_fails_and_the_rest_is_untouched
    an_exclusive_creation_of_an_existing_file_fails
    large_files_are_whole
    appended_records_of_many_clients_are_all_there
    appending_goes_on_where_the_last_append_ended
    a_read_may_ask_for_more_than_any_file_has
    no_message_is_longer_than_was_asked_for
    what_was_read_is_kept_in_as_much_memory_as_is_said
    a_copy_within_the_server_sends_no_data
    many_whole_files_are_copied_in_one_round_trip
    what_follows_a_long_copy_waits_for_all_of_it
    files_are_opened_as_each_is_wanted_in_one_round_trip
    an_open_file_is_a_target_of_every_kind_of_call
    a_path_may_begin_at_a_handle
    what_was_opened_before_a_failure_stays_open
    an_open_that_makes_no_sense_is_refused_and_changes_nothing
    files_are_opened_in_one_way_by_their_paths
    an_open_that_a_failed_vector_left_behind_is_closed
    a_tree_is_made_in_one_round_trip
    a_hundred_links_are_made_and_read_in_one_round_trip_each
    a_hundred_files_are_renamed_across_directories_in_one_round_trip
    two_hundred_objects_are_removed_in_one_round_trip_and_a_full_directory_is_not
    a_thousand_elements_are_four_round_trips
    names_that_moved_are_not_mistaken_for_what_they_were
    attributes_of_250_files_come_in_one_round_trip_and_only_those_wanted
    mode_owner_times_and_size_of_100_files_are_set_in_one_round_trip
    links_are_followed_or_not_as_asked
    links_lead_on_wherever_they_are_in_a_path
    a_link_itself_is_what_is_removed_and_renamed
    links_that_lead_nowhere_or_round_and_round_are_errors
    a_link_is_followed_before_what_comes_after_is_done
    a_posix_program_runs_after_renaming_calls
    calls_fail_as_posix_says
    readers_of_one_descriptor_never_get_the_same_bytes
    whole_files_are_read_and_written
    a_walk_finds_everything_once_breadth_first
    a_directory_of_many_pages_is_listed_once_beside_others
    a_listing_ends_when_the_callback_says_so_or_a_directory_cannot_be_read
    a_deep_directory_takes_two_round_trips
    a_file_on_the_way_to_a_directory_is_an_error
    a_copied_tree_is_the_same
    small_files_are_copied_in_three_round_trips
    a_copy_through_memory_stops_at_the_first_failure_and_says_where
    what_cannot_be_copied_is_told_and_the_rest_goes_on
    files_stay_where_they_are_kept
    a_tree_of_links_leads_to_the_original
    a_tree_is_removed_children_first_and_links_are_not_followed
    a_directory_is_not_copied_into_itself_without_end
    a_copy_over_a_link_to_its_original_replaces_the_link
    a_directory_of_many_pages_is_removed_whole
    steps_of_all_kinds_are_done_at_once_in_one_round_trip
    wherever_a_step_fails_nothing_is_done
    what_is_too_much_is_refused_before_anything_is_sent
    large_writes_and_links_on_the_way_are_part_of_a_transaction
    many_threads_share_one_client
    what_makes_no_sense_is_refused_and_nothing_is_done
    results_fit_where_they_go
    what_is_forbidden_is_refused
    a_client_of_nowhere_is_refused
    what_is_written_in_pieces_of_any_size_is_one_file
    a_small_file_is_one_round_trip_and_a_large_one_one_for_each_piece
    a_failure_is_said_once_and_that_there_was_one_ever_after
    what_many_threads_write_is_all_there_and_whole
    a_client_that_is_closed_leaves_its_writers_nothing_but_to_be_closed
}

#[test]
fn a_server_that_takes_few_operations_at_once_gives_the_same_results() {
    for operations in [6, 12, 30] {
        let world = World::nfs(Limits { operations, ..Limits::default() });
        check("a_server_that_takes_few_operations_at_once_gives_the_same_results", &world);
    }
}

#[test]
fn what_only_files_of_this_machine_have() {
    for case in [
        "nothing_leads_out_of_the_root",
        "new_files_have_exactly_the_permission_bits_that_were_asked_for",
        "what_is_no_regular_file_is_neither_read_nor_waited_for",
        "a_tree_deeper_than_the_longest_path_can_be_made_listed_and_removed",
        "holes_stay_holes_in_a_copy",
    ] {
        check(case, &World::local());
    }
}

#[test]
fn random_vectors_do_the_same_everywhere() {
    let (nfs, local) = (World::nfs(Limits::default()), World::local());
    let place = format!("{} {}", nfs.arguments()[1], local.arguments()[1]);
    run(Command::new(&*SUITE).args(["random_vectors_do_the_same_everywhere", "both", &place]));
}
