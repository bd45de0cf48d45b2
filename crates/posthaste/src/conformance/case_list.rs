//! The list of cases. There is only one, so that no store can omit a case.

/// One `#[test]` per case of the store suite. See [`conformance`](crate::conformance).
#[macro_export]
macro_rules! store_conformance {
    ($harness:expr $(, #[$attribute:meta])* $(,)?) => {
        $crate::__conformance_tests! { run_store [$(#[$attribute])*] ($harness)
            write {
                committed_rows_can_be_claimed
                rolled_back_rows_do_not_exist
                rows_of_a_rolled_back_savepoint_do_not_exist
                seqs_grow_with_each_insert
                id_that_exists_is_not_inserted_again
                id_twice_in_one_insert_is_inserted_once
                id_of_a_deleted_row_can_be_written_again
                id_of_a_rolled_back_row_can_be_written_again
                every_field_comes_back
                absent_fields_come_back_absent
                binary_payload_comes_back_byte_for_byte
                json_payload_comes_back_byte_for_byte
                empty_payload_comes_back_empty
                payload_of_one_mebibyte_comes_back
                unicode_comes_back_in_every_field
                longest_names_fit
                sixty_four_headers_come_back
                new_row_starts_from_zero
                delay_counts_by_the_stores_clock
                producers_clock_in_the_future_delays_nothing
                delayed_row_is_not_claimed_before_its_time
                longest_delay_is_no_error
                born_leased_row_is_held_until_its_lease_ends
                born_leased_row_counts_its_lease_from_the_statement
                thousand_rows_in_one_insert
                inserting_nothing_is_no_error
            }
            claim {
                claim_of_an_empty_store_returns_nothing
                oldest_due_comes_first
                rows_due_together_come_in_order_of_insertion
                retried_row_moves_behind_rows_that_were_due_earlier
                strict_claim_follows_insertion_not_due_time
                strict_claim_skips_rows_that_are_not_due
                strict_claim_never_skips_a_leased_row
                limit_is_kept
                limit_of_zero_claims_nothing
                row_is_due_exactly_at_its_time
                claim_sets_the_lock
                leased_row_is_not_claimed_again
                lapsed_lease_is_claimed_again
                recent_rows_are_skipped
                concurrent_claims_never_share_a_row
                terminal_rows_are_not_claimed
                lapsed_lease_of_another_owner_is_counted
                own_lapsed_lease_is_not_counted
                lapsed_leases_count_no_further_than_suspicion
                started_suspects_count_beyond_suspicion
                suspects_do_not_hide_other_rows
                claim_ends_before_the_row_that_does_not_fit
                first_row_is_claimed_whatever_its_size
                large_row_is_not_overtaken_by_small_ones
                bytes_bound_strict_claims_too
                claimed_event_has_no_delay
                reasons_of_parked_rows_are_returned
                attempts_replays_and_progress_come_with_the_row
                claim_clears_parked
                bad_headers_are_malformed
                unknown_status_is_malformed
                negative_attempts_are_malformed
                missing_payload_is_malformed
                malformed_row_never_hides_other_rows
                malformed_row_can_be_settled_as_dead
                paused_routes_are_returned
                oldest_pending_of_nothing_is_none
                oldest_pending_is_the_age_by_insertion
                oldest_pending_counts_leased_and_retried_rows
                oldest_pending_ignores_the_first_delay
                oldest_pending_ignores_terminal_rows
            }
            settle {
                done_is_final
                done_is_accepted_from_a_lost_lease_while_pending
                done_is_accepted_after_a_release
                done_on_a_terminal_row_is_stale
                done_on_an_unknown_row_is_stale
                lost_lease_changes_nothing
                foreign_owner_changes_nothing
                verdict_consumes_the_lease
                nothing_settles_a_terminal_row
                failure_takes_the_delay_of_the_stores_count
                last_delay_serves_all_further_attempts
                no_delays_means_immediately
                row_is_dead_exactly_at_max_attempts
                one_attempt_is_dead_after_its_first_failure
                lowered_max_attempts_apply_at_the_next_failure
                full_attempts_do_not_overflow
                long_delay_does_not_overflow
                deferral_spends_no_attempt
                deferral_of_a_retried_row_keeps_its_attempts
                dead_verdict_keeps_the_attempts
                unreachable_spends_no_attempt_and_keeps_the_status
                unreachable_parks_on_request
                every_verdict_clears_the_lock
                error_is_cleared_by_done_and_kept_by_retry
                longest_error_comes_back
                progress_grows_and_stays
                progress_grows_with_every_verdict
                progress_of_a_lost_lease_is_not_kept
                done_row_can_be_deleted
                done_row_can_be_archived
                dead_row_is_neither_deleted_nor_archived
                results_are_in_the_order_of_the_request
                thousand_outcomes_in_one_call
                settling_nothing_returns_nothing
                concurrent_settlements_count_once
                settled_row_that_stays_pending_has_lost_no_lease
                row_that_was_not_delivered_keeps_its_lost_leases
            }
            row_identity {
                number_assigned_twice_settles_the_right_row
                id_written_twice_settles_the_right_row
            }
            give_up_after {
                putting_off_ends_after_its_limit
                longest_limit_of_putting_off_applies
                interrupted_limit_of_putting_off_does_not_apply_later
                time_of_putting_off_survives_claims_and_releases
                closed_route_ends_the_time_of_putting_off
                any_other_outcome_ends_putting_off
            }
            lease {
                row_is_claimable_at_one_instant_whatever_happened_to_it
            }
            renew {
                renewing_moves_the_end
                only_held_leases_are_returned
                lapsed_lease_that_was_not_taken_over_is_renewed
                lapsed_lease_that_was_taken_over_is_not_renewed
                settled_and_released_rows_are_not_renewed
                renewal_returns_which_rows_were_committed
                renewing_does_not_count_as_a_loss
                renewing_nothing_returns_nothing
            }
            release {
                released_row_is_due_immediately
                only_held_rows_are_released
                released_row_does_not_count_as_lost
                releasing_twice_changes_nothing
                release_of_a_rolled_back_row_changes_nothing
                release_keeps_the_rest_of_the_row
            }
            park {
                parked_row_is_not_claimed
                only_held_rows_are_parked
                unattended_row_becomes_due_by_itself
                attempts_are_not_touched
                unparked_rows_are_due_immediately
                unpark_follows_insertion_and_its_limit
                unpark_leaves_other_routes_alone
                unpark_leaves_claimed_rows_alone
                unpark_counts_each_row_once
                parking_does_not_count_as_a_loss
                unreachable_rows_are_unparked_too
            }
            purge {
                old_done_rows_are_deleted
                done_and_dead_are_purged_separately
                age_counts_from_the_end_not_from_the_beginning
                pending_rows_are_never_purged_by_status
                any_purges_by_insertion_whatever_the_status
                limit_is_respected_and_the_oldest_go_first
                purged_rows_can_be_archived
                old_archived_rows_are_deleted
                purging_nothing_returns_zero
            }
            admin {
                stats_count_every_state
                stats_of_an_empty_store_are_zero
                count_follows_every_filter
                filter_by_age_counts_from_the_end
                replay_all_respects_the_age
                discard_respects_the_age
                backlog_groups_pending_events_largest_first
                backlog_has_the_age_of_the_oldest_event
                backlog_that_was_cut_is_not_complete
                backlog_is_cut_to_the_largest_page
                list_pages_have_no_gaps_and_no_repeats
                list_page_is_cut_to_the_largest
                list_of_the_last_page_has_no_next
                list_shows_every_field_of_the_row
                archive_is_listed_by_its_status_only
                get_returns_event_and_row
                get_of_an_unknown_id_is_none
                get_shows_why_a_row_is_malformed
                dead_groups_are_counted_largest_first
                replay_resets_everything
                replay_keeps_progress_unless_it_is_reset
                replay_takes_dead_rows_only
                replayed_row_has_all_its_attempts_again
                replay_all_respects_limit_and_filter
                replay_all_takes_only_dead_rows_whatever_the_filter
                concurrent_replays_change_each_row_once
                discard_takes_dead_rows_only
                discard_respects_limit_and_filter
                pause_and_resume_return_whether_they_changed_anything
                audit_names_every_change
                call_that_changes_nothing_is_not_audited
                audit_pages_newest_first
                purge_of_an_operator_is_audited
                diagnosis_never_fails
            }
            diagnose {
                healthy_outbox_has_no_findings
                late_event_is_found
                dead_events_are_found
                forgotten_pause_is_found
                events_that_wait_for_a_route_are_found_with_the_reason
                event_that_loses_its_leases_is_found
                producer_whose_clock_is_ahead_is_found
            }
        }
    };
}

/// One `#[test]` per case of the Writer suite. See [`conformance`](crate::conformance).
#[macro_export]
macro_rules! writer_conformance {
    ($harness:expr $(, #[$attribute:meta])* $(,)?) => {
        $crate::__conformance_tests! { run_writer [$(#[$attribute])*] ($harness)
            transaction {
                rolled_back_event_is_never_delivered
                hot_path_delivers_after_commit
                event_is_delivered_hot_whatever_the_service_does_after_it
                event_and_business_data_end_together
                commit_of_an_aborted_transaction_delivers_nothing
                aborted_transaction_without_events_is_not_reported_as_committed
                write_into_an_aborted_transaction_is_refused
                failed_statement_aborts_or_changes_nothing
                failed_write_is_neither_committed_nor_reported_as_committed
                write_after_a_failed_write_is_refused_or_kept
                write_on_another_database_is_refused
                write_returns_the_ids
                existing_id_is_a_no_op
                same_id_written_concurrently_is_stored_once
                events_wait_while_no_engine_runs
            }
            savepoint {
                rolled_back_savepoint_undoes_its_event
                released_savepoint_passes_its_events_up
                nested_savepoints_end_from_the_inside
                raw_savepoint_that_is_rolled_back_undoes_its_event
                event_of_a_rolled_back_savepoint_is_not_mistaken_for_the_next_row
                event_that_is_written_again_after_a_rollback_is_delivered_once
                failed_statement_in_a_savepoint_affects_nothing_around_it
            }
            receipt {
                outside_a_transaction_is_refused
                dropped_receipt_is_delivered_within_the_hot_lease
                receipt_of_a_rolled_back_transaction_delivers_nothing
                receipt_of_an_aborted_transaction_delivers_nothing
                receipt_of_a_savepoint_is_only_a_wake_up
                receipt_of_a_rolled_back_savepoint_delivers_nothing
                receipt_lists_written_ids_and_duplicates
            }
            writer_hook {
                hooks_run_in_order_and_once_per_batch
                rollback_runs_after_rollback_and_nothing_else
                receipt_runs_after_commit_when_its_caller_reports_the_commit
                refusing_hook_refuses_the_write
                suppressed_write_stores_nothing_and_returns_no_id
                writing_nothing_calls_no_hook
            }
            round_trip {
                every_field_of_a_single_event_comes_back
                every_field_of_a_batch_comes_back
                delayed_event_waits_for_its_time_by_the_stores_clock
                thousand_events_in_one_write
            }
        }
    };
}

/// One `#[test]` per case of the destination suite. See [`conformance`](crate::conformance).
#[macro_export]
macro_rules! destination_conformance {
    ($harness:expr $(, #[$attribute:meta])* $(,)?) => {
        $crate::__conformance_tests! { run_destination [$(#[$attribute])*] ($harness)
            destination {
                single_event_arrives
                every_event_of_a_batch_arrives_with_its_id
                id_key_and_headers_arrive
                one_bad_event_does_not_fail_the_batch
                order_kept_within_a_key
                too_large_is_dead_not_retried
                hostile_values_never_panic
                unreachable_is_not_an_attempt
                delivers_after_broker_restart
                empty_payload_survives
                payload_of_one_mebibyte_survives
                binary_payload_survives
                unicode_survives
                concurrent_calls_all_arrive
                repeated_event_is_taken_again
                two_events_with_one_id_both_arrive
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($run:ident $attributes:tt $harness:tt $($verb:ident { $($case:ident)* })*) => {
        $(mod $verb {
            #[allow(unused_imports)]
            use super::*;
            $($crate::__conformance_test! { $run $attributes $harness $verb $case })*
        })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_test {
    ($run:ident [$(#[$attribute:meta])*] ($harness:expr) $verb:ident $case:ident) => {
        #[test]
        $(#[$attribute])*
        fn $case() {
            let case = concat!(stringify!($verb), "::", stringify!($case));
            $crate::conformance::$run(case, async { $harness }, $crate::conformance::$verb::$case);
        }
    };
}
