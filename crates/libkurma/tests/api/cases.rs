//! The cases of `tests/suite`, each with files of its own.

use std::process::Command;

use nfs4_server::Limits;
use onc_rpc::Security;
use tokio::runtime::Runtime;

use crate::compiler::{SUITE, run};
use crate::small_server::SmallServer;
use crate::world::World;

fn check(case: &str, world: &World) {
    run(Command::new(&*SUITE).arg(case).args(world.arguments()));
}

fn check_server(case: &str) {
    check(case, &World::nfs(Limits::default()));
}

fn check_each(case: &str) {
    check_server(case);
    check(case, &World::local());
}

/// A test for each case: with files of both kinds, or only with those of a server.
macro_rules! cases {
    (each { $($each:ident)* } servers { $($server:ident)* }) => {
        $(
            #[test]
            fn $each() {
                check_each(stringify!($each));
            }
        )*

        $(
            #[test]
            fn $server() {
                check_server(stringify!($server));
            }
        )*

        #[test]
        fn no_case_is_forgotten() {
            let mut known = vec![$(stringify!($each),)* $(stringify!($server),)*];
            known.extend([
                "a_server_that_takes_few_operations_at_once_gives_the_same_results",
                "a_way_that_becomes_longer_by_links_than_the_server_takes_at_once_is_gone_in_parts",
                "a_copy_that_no_transaction_can_hold_is_made_without_one",
                "a_server_that_is_gone_ends_calls_and_lets_go_of_memory",
                "a_lost_answer_is_told_as_unknown_and_nothing_is_repeated",
                "what_was_left_by_a_lost_answer_was_done_once",
                "connections_are_protected_by_tls",
                "what_a_server_loses_in_a_restart_is_written_again",
                "a_copy_from_an_open_file_survives_a_restart_of_the_server",
                "nothing_is_done_behind_data_that_turns_out_to_be_lost",
                "after_a_restart_of_the_server_everything_is_as_true_as_before",
                "a_line_that_breaks_again_and_again_loses_nothing",
                "random_vectors_do_the_same_everywhere",
            ]);
            known.extend(OF_THIS_MACHINE);
            known.extend(OF_A_FULL_SERVER);
            known.sort_unstable();
            let listed = run(&mut Command::new(&*SUITE));
            let mut listed: Vec<_> = listed.lines().collect();
            listed.sort_unstable();
            assert_eq!(listed, known);
        }
    };
}

cases! {
    each {
        many_files_are_made_written_and_read_in_one_round_trip_each
        two_reads_of_one_path_share_an_open
        a_file_may_be_written_and_read_in_one_vector
        the_third_of_five_fails_and_the_rest_is_untouched
        an_exclusive_creation_of_an_existing_file_fails
        large_files_are_whole
        appended_records_of_many_clients_are_all_there
        appending_goes_on_where_the_last_append_ended
        a_read_may_ask_for_more_than_any_file_has
        a_long_write_through_a_descriptor_cuts_off_what_was_there_if_asked_to
        what_is_done_to_one_file_in_a_row_is_one_open
        a_copy_within_the_server_sends_no_data
        many_whole_files_are_copied_in_one_round_trip
        what_follows_a_long_copy_waits_for_all_of_it
        a_copy_of_what_is_being_copied_waits_for_it_however_it_is_named
        files_are_opened_as_each_is_wanted_in_one_round_trip
        what_is_open_for_reading_alone_is_not_written_however_little
        a_copy_between_open_files_may_replace_what_is_there
        what_is_too_far_out_for_a_file_is_not_appended
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
        a_link_is_in_the_way_of_what_has_to_be_new_wherever_it_leads
        a_link_is_followed_before_what_comes_after_is_done
        a_posix_program_runs_after_renaming_calls
        calls_fail_as_posix_says
        readers_of_one_descriptor_never_get_the_same_bytes
        whole_files_are_read_and_written
        a_walk_finds_everything_once_breadth_first
        a_directory_of_many_pages_is_listed_once_beside_others
        a_listing_ends_when_the_callback_says_so_or_a_directory_cannot_be_read
        a_listing_that_goes_on_tells_of_each_directory_that_cannot_be_read
        a_deep_directory_takes_two_round_trips
        several_may_make_the_same_directory_at_once
        a_file_on_the_way_to_a_directory_is_an_error
        a_copied_tree_is_the_same
        small_files_are_copied_in_three_round_trips
        a_copy_through_memory_stops_at_the_first_failure_and_says_where
        a_tree_of_small_files_is_copied_in_few_round_trips
        what_cannot_be_copied_is_told_and_the_rest_goes_on
        files_stay_where_they_are_kept
        a_tree_of_links_leads_to_the_original
        a_tree_is_removed_children_first_and_links_are_not_followed
        a_directory_is_not_copied_into_itself_without_end
        a_copy_over_a_link_to_its_original_replaces_the_link
        a_directory_of_many_pages_is_removed_whole
        what_others_put_into_a_tree_meanwhile_goes_too
        own_changes_are_seen_however_the_file_is_named
        a_vector_that_changes_a_file_reads_it_as_it_is_at_that_place
        a_name_that_leads_elsewhere_is_never_the_file_it_led_to
        what_is_written_while_the_file_is_read_ahead_is_read
        readers_never_read_what_is_older_than_the_last_write_that_had_ended
        steps_of_all_kinds_are_done_at_once_in_one_round_trip
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
    servers {
        no_message_is_longer_than_was_asked_for
        what_was_read_is_kept_in_as_much_memory_as_is_said
        what_is_written_and_closed_by_one_vector_is_safe
        the_next_directory_is_reached_from_the_one_before
        a_server_that_has_no_copy_is_not_asked_for_one_again_and_again
        wherever_a_step_fails_nothing_is_done
        what_is_too_much_is_refused_before_anything_is_sent
        large_writes_and_links_on_the_way_are_part_of_a_transaction
        an_unchanged_file_is_read_again_in_one_round_trip_without_its_content
        a_path_that_is_believed_costs_nothing_until_the_file_changes
        what_another_client_has_changed_comes_in_the_same_round_trip
        a_long_file_that_was_changed_is_read_anew_whole
        of_many_files_those_that_were_changed_cost_one_round_trip_more
        of_more_files_than_one_request_holds_those_that_were_changed_cost_one_round_more
        of_many_files_that_were_changed_the_content_of_the_last_comes_once
        what_must_not_be_read_any_more_is_not_read
        what_is_open_for_writing_alone_is_not_read_from_memory_either
        a_file_longer_than_the_memory_is_read_as_it_is
        clients_that_keep_what_they_read_read_what_is_there
        what_was_read_of_a_delegated_file_is_read_again_without_asking
        what_another_client_writes_is_seen_after_the_recall
        what_the_client_writes_itself_is_seen_though_the_server_recalls_nothing
        what_is_closed_is_in_nobodys_way
        a_delegated_file_is_closed_in_a_transaction_and_the_delegation_goes_back_after_it
        one_client_opens_a_file_that_is_delegated_to_it_as_often_as_it_likes
        a_file_is_read_from_front_to_back_in_few_round_trips
        of_a_file_that_is_read_here_and_there_nothing_else_is_read
        a_vector_is_one_round_trip_and_done_up_to_the_first_that_fails
        a_file_is_as_it_was_when_it_cannot_be_written
        what_opens_asks_and_copies_goes_as_it_always_does
        a_server_without_transactions_is_refused
    }
}

#[test]
fn a_server_that_takes_few_operations_at_once_gives_the_same_results() {
    for operations in [6, 8, 12, 30] {
        let world = World::nfs(Limits { operations, ..Limits::default() });
        check("a_server_that_takes_few_operations_at_once_gives_the_same_results", &world);
    }
}

#[test]
fn a_way_that_becomes_longer_by_links_than_the_server_takes_at_once_is_gone_in_parts() {
    let world = World::nfs(Limits { operations: 16, ..Limits::default() });
    check("a_way_that_becomes_longer_by_links_than_the_server_takes_at_once_is_gone_in_parts", &world);
}

#[test]
fn a_copy_that_no_transaction_can_hold_is_made_without_one() {
    let world = World::of(&["home", "other"], Limits::default(), Security::default());
    check("a_copy_that_no_transaction_can_hold_is_made_without_one", &world);
}

const OF_A_FULL_SERVER: &[&str] = &[
    "a_vector_ends_at_what_has_no_room_and_a_transaction_leaves_nothing",
    "a_writer_says_at_the_latest_when_it_is_closed_that_there_is_no_room",
];

#[test]
fn a_server_without_room_says_so() {
    let runtime = Runtime::new().unwrap();
    for case in OF_A_FULL_SERVER {
        let server = runtime.block_on(SmallServer::start(1 << 20));
        run(Command::new(&*SUITE).args([case, "nfs", &server.address.to_string()]));
    }
}

const OF_THIS_MACHINE: &[&str] = &[
    "nothing_leads_out_of_the_root",
    "the_whole_machine_is_what_everybody_sees",
    "new_files_have_exactly_the_permission_bits_that_were_asked_for",
    "what_is_no_regular_file_is_neither_read_nor_waited_for",
    "a_tree_deeper_than_the_longest_path_can_be_made_listed_and_removed",
    "holes_stay_holes_in_a_copy",
];

#[test]
fn what_only_files_of_this_machine_have() {
    for case in OF_THIS_MACHINE {
        check(case, &World::local());
    }
}

#[test]
fn random_vectors_do_the_same_everywhere() {
    let (nfs, local) = (World::nfs(Limits::default()), World::local());
    let place = format!("{} {}", nfs.arguments()[1], local.arguments()[1]);
    run(Command::new(&*SUITE).args(["random_vectors_do_the_same_everywhere", "both", &place]));
}
