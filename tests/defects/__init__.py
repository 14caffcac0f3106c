"""Promises that were once broken: one test for each defect that was found.

Each of these tests, or the script that it was made of, was seen to fail on the code before.

======  ===========================================================================================================
defect  test
======  ===========================================================================================================
d01     storage/test_loading.py::test_an_array_is_in_one_place
d02     storage/test_loading.py::test_the_memory_of_a_pipeline_is_left_out_and_no_code_of_it_runs
d02b    storage/test_loading.py::test_a_file_that_names_a_path_is_refused_and_nothing_is_written
d02c    storage/test_loading.py::test_parameters_cannot_exhaust
d03     defects/test_files.py::test_going_back_to_an_older_file_never_touches_a_newer_one
d04     storage/test_loading.py::test_a_forged_history_touches_no_folder
d05     defects/test_calls.py::test_a_refused_call_leaves_no_label
d06     defects/test_durable.py::test_durable_refuses_what_it_could_not_open_again
d07     defects/test_durable.py::test_a_fork_cannot_write_to_the_file_of_its_parent
d08     defects/test_command_line.py::test_a_state_in_a_folder_deletes_nothing_there
d09     defects/test_command_line.py::test_a_run_killed_before_its_first_state_starts_over
d10     defects/test_calls.py::test_an_interrupt_at_any_line_leaves_the_call_undone_or_done
d11     defects/test_input.py::test_entries_that_repeat_a_cell_are_summed_before_they_are_checked
d12     defects/test_copies.py::test_a_copy_that_goes_on_has_all_rows_and_leaves_the_original_alone
d13     defects/test_copies.py::test_merging_in_bounded_memory_promises_what_it_says
d14     defects/test_command_line.py::test_the_second_of_two_runs_on_one_state_says_so_and_ends
d15     defects/test_files.py::test_forgotten_rows_are_in_no_byte_that_is_left
d16     defects/test_durable.py::test_a_lost_end_of_the_log_is_an_error
d17     defects/test_files.py::test_foreign_files_beside_a_model_do_no_harm
d18     defects/test_durable.py::test_no_content_of_rows_can_make_recovery_fail
d19     defects/test_files.py::test_saving_keeps_mode_and_owner_and_links
d20     estimator/test_hostile_input.py::test_names_are_shown_as_they_are
d21     estimator/test_hostile_input.py::test_odd_lines_of_json_are_one_sentence_each
d22     defects/test_durable.py::test_a_checkpoint_that_fails_never_makes_the_caller_send_rows_twice
d23     defects/test_calls.py::test_an_interrupted_call_never_hides_later_rows
d24     app/cli/test_outputs.py::test_predictions_after_a_killed_run_are_those_of_one_run
d25     defects/test_durable.py::test_the_file_beside_the_model_is_synced_before_it_is_needed
d26     defects/test_files.py::test_looking_writes_nothing
d27     defects/test_files.py::test_looking_at_an_older_file_never_touches_a_newer_one
d28     defects/test_input.py::test_masked_cells_are_missing
d29     estimator/test_hostile_input.py::test_two_columns_of_one_name
d29     estimator/test_hostile_input.py::test_odd_lines_of_json_are_one_sentence_each
d29     estimator/test_hostile_input.py::test_json_holds_finite_numbers_alone
d29     estimator/test_hostile_input.py::test_a_state_that_holds_no_model
======  ===========================================================================================================
"""
