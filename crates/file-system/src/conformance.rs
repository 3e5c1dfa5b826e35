//! What every implementation has to pass: one function for each promise of the contract, and a comparison with
//! [`MemoryFileSystem`](crate::memory::MemoryFileSystem) under random operations ([`model`]).
//!
//! An implementation runs all of them as tests of its own:
//!
//! ```text
//! async fn make() -> (Arc<dyn FileSystem>, impl Sized) { ... } // a new empty file system, and what it needs to live
//! file_system::conformance_tests!(make);
//! ```
//!
//! The root directory belongs to user and group 0.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // assertions of tests; the names say what is promised

pub mod access_control_lists;
pub mod attributes;
pub mod clones;
pub mod content;
pub mod directories;
pub mod exclusive_creation;
pub mod extended_attributes;
pub mod isolation;
pub mod links;
pub mod model;
pub mod permissions;
pub mod renames;
pub mod scene;
pub mod sparse_files;
pub mod unlinked_files;

/// A test for every promise of the contract; `$make` is an asynchronous function that returns a new file system
/// and whatever has to live as long.
#[macro_export]
macro_rules! conformance_tests {
    ($make:ident) => {
        $crate::conformance_tests!(@modules $make;
            access_control_lists: [
                a_list_is_kept_and_decides,
                a_new_mode_takes_from_those_whom_the_list_names,
                lists_are_set_by_owners_and_by_those_whom_a_list_lets,
                new_objects_inherit_lists,
                impossible_lists_are_refused,
            ],
            attributes: [
                the_root_is_a_directory_of_the_superuser,
                an_unknown_object_is_stale,
                objects_of_other_volumes_are_stale,
                times_and_change_follow_what_is_changed,
                setting_nothing_changes_nothing,
                special_nodes_keep_their_kind_and_numbers,
                impossible_attributes_are_refused,
                sync_and_space_answer,
            ],
            content: [
                what_was_written_is_read,
                a_write_beyond_the_end_leaves_a_hole_of_zeros,
                what_was_cut_off_does_not_come_back,
                reads_stop_at_the_end_and_say_so,
                an_empty_write_changes_nothing,
                the_largest_offset_is_the_limit,
                a_large_sparse_file_costs_nothing,
                a_transaction_sees_its_own_writes_over_what_is_committed,
                only_regular_files_have_content,
            ],
            clones: [
                a_clone_has_the_content_and_holes_of_its_source,
                what_is_written_later_is_not_shared,
                a_clone_may_end_where_its_source_ends,
                what_is_not_made_of_units_is_refused,
                a_clone_needs_permission_and_regular_files,
            ],
            directories: [
                a_listing_in_pages_returns_every_entry_once,
                cookies_stay_and_are_not_reused,
                entries_that_stay_are_listed_once_while_others_come_and_go,
                foreign_cookies_are_refused,
                names_are_bytes_and_case_counts,
                the_parent_of_a_moved_directory_is_its_new_place,
                a_directory_with_entries_stays,
                a_removed_directory_takes_no_entries,
                links_of_directories_count_their_children,
            ],
            exclusive_creation: [
                the_same_verifier_finds_the_file_and_another_does_not,
                setting_the_times_ends_exclusive_creation,
                guarded_and_unchecked_creation_of_what_exists,
                opening_by_name_tells_the_kind_of_what_is_there,
            ],
            extended_attributes: [
                values_are_kept_replaced_and_removed,
                create_and_replace_are_told_apart,
                names_are_listed_in_order,
                links_and_special_nodes_have_none,
                values_over_the_limit_are_refused,
                names_may_hold_dots_and_slashes,
            ],
            isolation: [
                nothing_is_seen_before_the_commit_and_all_after_it,
                a_dropped_transaction_leaves_no_trace,
                two_changes_of_one_file_conflict,
                a_conflict_leaves_the_first_commit_alone,
                an_exclusive_transaction_always_commits,
                an_operation_that_fails_changes_nothing,
                many_operations_are_one_transaction,
                concurrent_appends_with_retry_lose_nothing,
            ],
            links: [
                all_names_lead_to_one_object,
                directories_have_one_name_only,
                a_link_cannot_replace_anything,
                symlinks_keep_their_target,
                bad_link_targets_are_refused,
            ],
            permissions: [
                the_mode_bits_of_the_directory_decide_over_its_entries,
                listing_needs_read_and_looking_up_needs_execute,
                the_owner_may_always_use_the_content,
                an_open_file_stays_usable,
                the_sticky_bit_protects_the_entries_of_others,
                a_set_group_id_directory_gives_its_group,
                only_the_superuser_gives_files_away,
                writing_drops_set_user_id,
                moving_a_directory_elsewhere_needs_write_permission_on_it,
            ],
            renames: [
                a_name_moves_with_its_object,
                a_file_replaces_a_file_and_an_empty_directory_an_empty_directory,
                files_and_directories_do_not_replace_each_other,
                a_directory_does_not_move_below_itself,
                two_names_of_one_object_are_left_alone,
                a_replaced_name_keeps_its_place_in_the_listing,
            ],
            sparse_files: [
                holes_are_found_between_data,
                a_punched_range_reads_as_zeros_and_is_a_hole,
                what_was_punched_stays_zeros_whatever_is_written_beside_it,
                a_hole_in_a_part_of_a_block_leaves_the_rest,
                punching_beyond_the_end_keeps_the_size,
                allocation_extends_and_overwrites_nothing,
                a_transaction_sees_its_own_holes,
                sparse_operations_need_permission_and_a_regular_file,
            ],
            unlinked_files: [
                a_referenced_file_outlives_its_name,
                a_file_without_a_name_that_was_let_go_of_is_not_referenced_again,
                without_a_reference_a_removed_file_is_stale_at_once,
                a_replaced_file_lives_while_it_is_referenced,
                removed_objects_are_never_found_under_a_new_id,
            ],
        );
    };
    (@modules $make:ident; $($module:ident: [$($test:ident,)*],)*) => {
        $(
            mod $module {
                $(
                    #[tokio::test]
                    async fn $test() {
                        let (file_system, _alive) = super::$make().await;
                        $crate::conformance::$module::$test(file_system).await;
                    }
                )*
            }
        )*
    };
}
