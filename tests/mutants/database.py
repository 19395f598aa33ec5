"""The functions of `commit.sql`, each with one rule broken."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, in_sql

COMMIT, OUTBOX, POSITIONS = (f"tests/state/test_state_{name}.py::test_" for name in ("commit", "outbox", "positions"))

TOKEN_OF_POSITION = "and p.last_run = c.last_run;"
TOKEN_OF_PARTITION = "and (not parts->m.partition ? 'last_run' or m.last_run = (parts->m.partition->>'last_run')::uuid)\n    returning 1"
ORDER_OF_POSITIONS = 'order by x.consumer collate "C", x.source collate "C", x.source_partition collate "C" loop'
ONE_POSITION = (
    (TOKEN_OF_POSITION, "and (later or p.last_run = c.last_run);"),
    ("declare c record;", "declare c record; later boolean := false;"),
    ("    if not found then\n      consumer :=", "    later := true;\n    if not found then\n      consumer :="),
)
STILL_RUNNING = "where u.id = p_run and u.state = 'running' and u.lake = coalesce(p_lake, u.lake)"
FENCES_OF_RESET = """  delete from reactor.fence f where (f.consumer, f.source, f.source_partition) = (p_consumer, p_source, p_source_partition);
  return true;"""
FENCES_OF_SWITCH = (
    " or exists (select from reactor.fence f where (f.consumer, f.source, f.source_partition) = (p_consumer, p_source, p_source_partition))")
BODY_OF_TRIGGER = "  perform reactor.complete((mark->>'run')::uuid, coalesce(mark->'rows', '[]'), lake, new.snapshot_id, coalesce(at, clock_timestamp()));"
ARRIVALS_CHECKED = """  if found then raise exception using errcode = 'RF001', message = 'reactor RF001: position'; end if;
  insert into reactor.join_event"""
JOINS_CHECKED = "    if n <> jsonb_array_length(r.claims->'joins') then raise"
ORDER_OF_OUTBOX = "order by o.snapshot_id is null, o.lake, o.snapshot_id, o.committed_at, o.asset, o.partition, o.id"

MUTANTS = [
    Mutant("sql_no_token", "a token is not checked again in the transaction", "architecture", COMMIT + "a_stale_position_publishes_nothing",
           in_sql((TOKEN_OF_POSITION, ";"))),
    Mutant("sql_one_position_checked", "of several positions only the first is compared", "protocol", COMMIT + "of_several_positions_each_is_compared",
           in_sql(*ONE_POSITION)),
    Mutant("sql_positions_unsorted", "positions are locked in any order", "lake + state", COMMIT + "positions_are_taken_in_the_order_of_their_key",
           in_sql((ORDER_OF_POSITIONS, "loop"))),
    Mutant("sql_no_partition_token", "the token of an asset partition is not compared", "protocol", COMMIT + "of_several_partitions_each_is_compared",
           in_sql((TOKEN_OF_PARTITION, "    returning 1"))),
    Mutant("sql_ended_run_commits", "a run that has ended commits", "lake + state", COMMIT + "a_run_that_has_ended_commits_nothing",
           in_sql((STILL_RUNNING, STILL_RUNNING.replace("and u.state = 'running' ", "")))),
    Mutant("sql_rows_without_state", "rows are published although their state is refused", "lake + state", COMMIT + "a_stale_position_publishes_nothing",
           in_sql((BODY_OF_TRIGGER, f"  begin\n{BODY_OF_TRIGGER}\n  exception when sqlstate 'RF001' then null; end;"))),
    Mutant("sql_reset_keeps_token", "`positions reset` leaves the token as it was", "protocol", POSITIONS + "a_reset_sets_floor_and_token_and_drops_fences",
           in_sql(("set floor = p_floor, last_run = me,", "set floor = p_floor,"))),
    Mutant("sql_reset_keeps_fences", "`positions reset` leaves the rows of fence", "protocol", POSITIONS + "a_reset_sets_floor_and_token_and_drops_fences",
           in_sql((FENCES_OF_RESET, "  return true;"))),
    Mutant("sql_switch_any_time", "new routing while some stream is not at the floor", "protocol", POSITIONS + "new_routing_takes_over_at_a_common_cut_only",
           in_sql((FENCES_OF_SWITCH, ""))),
    Mutant("sql_fences_stay", "a stream that the floor has reached keeps its fence", "ledger", COMMIT + "the_difference_of_the_fences_is_written",
           in_sql(("e where e.value is null));", "e where false));"))),
    Mutant("sql_arrivals_without_position", "arrivals of a join are written although its position is another", "joins",
           POSITIONS + "arrivals_and_the_position_of_the_join_are_one",
           in_sql((ARRIVALS_CHECKED, "  insert into reactor.join_event"))),
    Mutant("sql_join_fires_again", "a run uses arrivals up that another has used up", "joins", POSITIONS + "the_firing_run_uses_up_exactly_what_it_claimed",
           in_sql((JOINS_CHECKED, "    if false then raise"))),
    Mutant("sql_numbers_by_insertion", "the outbox is read in the order of inserts, not of commits", "outbox",
           "tests/state/test_state_foreign.py::test_ours_and_theirs_are_numbered_together_in_commit_order",
           in_sql((ORDER_OF_OUTBOX, "order by o.id"))),
    Mutant("sql_gap_in_numbers", "a number is given to nobody", "outbox", OUTBOX + "an_event_committed_late_is_numbered_late_and_not_missed",
           in_sql(("set next = n + numbered where", "set next = n + numbered + 1 where"))),
    Mutant("sql_id_of_the_moment", "an event's id is another one when its commit is repeated", "outbox", OUTBOX + "the_id_is_equal_on_repeat",
           in_sql(("asset, partition), 'UTF8'", "asset, partition, clock_timestamp()), 'UTF8'"))),
]  # fmt: skip
