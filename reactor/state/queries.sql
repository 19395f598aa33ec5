-- name: fix_installation
with fixed as (
  insert into reactor.installation (name, workspace) values ($1, $2) on conflict (single) do nothing returning name, workspace),
queues as (
  insert into reactor.queue (name) values ('outbox://' || $2), ('inbox://' || $2) on conflict do nothing)
select name, workspace from fixed union all select name, workspace from reactor.installation

-- name: epoch
select pg_postmaster_start_time()::text as started_at, d.oid::bigint as database_oid from pg_database d where d.datname = current_database()


-- name: load_positions
select p.*, (
    select jsonb_object_agg(f.partition, f.next) from reactor.fence f
     where (f.consumer, f.source, f.source_partition) = (p.consumer, p.source, p.source_partition)) as fences
  from reactor.position p
  join unnest($1::text[], $2::text[], $3::text[]) as k(consumer, source, source_partition) using (consumer, source, source_partition)

-- name: list_positions
select p.*, (
    select jsonb_object_agg(f.partition, f.next) from reactor.fence f
     where (f.consumer, f.source, f.source_partition) = (p.consumer, p.source, p.source_partition)) as fences
  from reactor.position p where $1::text is null or p.consumer = $1
 order by p.consumer, p.source, length(p.source_partition), p.source_partition

-- name: insert_positions
insert into reactor.position (consumer, source, source_partition, floor, last_run, topic_id, routing, started_from, table_uuid)
select consumer, source, source_partition, floor, gen_random_uuid(), topic_id, routing, started_from, table_uuid
  from jsonb_populate_recordset(null::reactor.position, $1)
 order by consumer collate "C", source collate "C", source_partition collate "C"
on conflict do nothing

-- name: settle
select consumer, source, source_partition from reactor.settle($1, $2)

-- name: reset
select reactor.reset(gen_random_uuid(), $1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: switch
select reactor.switch(gen_random_uuid(), $1, $2, $3, $4, $5)

-- name: arrive
select reactor.arrive($1, $2, $3, $4)

-- name: arrivals
select partition, event_id, asset, event from reactor.join_event where consumer = $1 order by arrived_at, event_id

-- name: record_gap
insert into reactor.source_gap (consumer, source, source_partition, lo, hi, reason) values ($1, $2, $3, $4, $5, $6) on conflict do nothing

-- name: acknowledge_gaps
update reactor.source_gap set acknowledged_at = clock_timestamp(), acknowledged_by = $2
 where acknowledged_at is null and ($1::text is null or consumer = $1) returning id

-- name: list_gaps
select id, consumer, source, source_partition, lo, hi, reason, found_at, acknowledged_at, acknowledged_by
  from reactor.source_gap where acknowledged_at is null or $1 order by id


-- name: partition_tokens
select pg_postmaster_start_time()::text as started_at, d.oid::bigint as database_oid, (
    select jsonb_object_agg(m.partition, m.last_run) from reactor.materialized_partition m
     where m.workspace = $1 and m.asset = $2 and m.partition = any ($3)) as tokens, array(
    select m.partition from reactor.materialized_partition m
     where m.workspace = $1 and m.asset = $2 and m.partition = any ($3) and m.snapshot_id is not null) as materialized, (
    select p.table_uuid from reactor.position p where p.consumer = $2 and p.table_uuid is not null
      and p.source not like 'inbox://%' limit 1) as table_uuid
  from pg_database d where d.datname = current_database()

-- name: upstream_snapshots
select a.asset, u.snapshot_id, u.partition from unnest($2::text[]) with ordinality as a(asset, place)
 cross join lateral (
   (select o.snapshot_id, o.partition from reactor.outbox o
     where o.asset = a.asset and o.changed and o.queue = 'outbox://' || $1 order by o.snapshot_id desc limit 1)
   union all                                     -- older than the outbox is kept: looked at only if there is no event
   (select m.snapshot_id, m.partition from reactor.materialized_partition m
     where m.workspace = $1 and m.asset = a.asset and m.snapshot_id is not null order by m.snapshot_id desc limit 1)
   limit 1) u
 order by a.place

-- name: insert_run
with inserted as (
  insert into reactor.run as u (id, workspace, script, script_version, consumer, asset, lake, strategy, partition, reason, attempt, root_run_id, actor, cascade,
      trigger, claims, drift, timings, compiled_sql, state, replica, fired_at)
  select id, workspace, script, script_version, consumer, asset, lake, strategy, partition, reason, attempt, root_run_id, actor, cascade,
      trigger, claims, drift, timings, compiled_sql, 'running', replica, fired_at
    from jsonb_populate_record(null::reactor.run, $1)
  on conflict (id) do update                     -- its answer was lost, or it was shown while it was prepared, and more is known of it now
    set claims = excluded.claims, drift = excluded.drift, timings = excluded.timings, compiled_sql = excluded.compiled_sql where u.state = 'running')
select reactor.decide($2, $3)

-- name: decide
select reactor.decide($1, $2)

-- name: list_decisions
select d.consumer, d.source, d.source_partition, d.lo, d.hi, d.partition, d.script, d.outcome, d.reason, d.event_id, d.asset, d.inputs_in,
    d.inputs_needed, d.due_at, d.run_id, d.decided_at, r.state as run_state, r.snapshot_id, r.error as run_error
  from reactor.decision d left join reactor.run r on r.id = d.run_id
 where d.workspace = $1 and d.consumer = $2 and ($3::text is null or d.partition = $3)
 order by d.decided_at desc, d.source, d.source_partition, d.lo desc limit $4

-- name: decisions_of_event
select d.consumer, d.source, d.source_partition, d.lo, d.hi, d.partition, d.script, d.outcome, d.reason, d.event_id, d.asset, d.inputs_in,
    d.inputs_needed, d.due_at, d.run_id, d.decided_at, r.state as run_state, r.snapshot_id, r.error as run_error
  from reactor.decision d left join reactor.run r on r.id = d.run_id
 where d.workspace = $1 and d.event_id = $2
 order by d.consumer, d.partition

-- name: list_waiting
select d.partition, min(d.outcome) as outcome, min(d.decided_at) as since, count(d.event_id) as events,
    coalesce(sum(d.hi - d.lo) filter (where d.event_id is null), 0)::bigint as records,
    (array_agg(d.due_at order by d.decided_at desc, d.lo desc))[1] as due_at,
    (array_agg(d.run_id order by d.decided_at desc, d.lo desc) filter (where d.run_id is not null))[1] as run_id,
    max(d.inputs_in) as inputs_in, max(d.inputs_needed) as inputs_needed
  from reactor.position p
 cross join lateral (
   select least(p.floor, min(f.next)) as low from reactor.fence f
    where (f.consumer, f.source, f.source_partition) = (p.consumer, p.source, p.source_partition)) l
  join reactor.decision d on d.workspace = $1 and (d.consumer, d.source, d.source_partition) = (p.consumer, p.source, p.source_partition) and d.lo >= l.low
  left join reactor.fence f
    on (f.consumer, f.source, f.source_partition, f.partition) = (p.consumer, p.source, p.source_partition, d.partition)
 where p.consumer = $2 and d.outcome <> 'skipped' and d.lo >= coalesce(f.next, p.floor)
 group by d.partition order by since, d.partition limit $3

-- name: purge_decisions
with gone as (
  delete from reactor.decision where ctid = any (array(
    select ctid from reactor.decision where decided_at < clock_timestamp() - make_interval(days => $1) limit $2)) returning 1)
select count(*) from gone

-- name: complete
select reactor.complete($1, $2)

-- name: run_state
select state, snapshot_id from reactor.run where id = $1

-- name: verdict
select r.state, r.snapshot_id, (
    select count(*) from {catalog}.ducklake_snapshot_changes c
     where c.snapshot_id > $2 and starts_with(c.commit_extra_info, '{"reactor":1,"run":"' || $1::uuid || '"')) as marked,
    reactor.watched($3) as watched, (
    select s.version from reactor.materialized_asset_schema s
     where (s.workspace, s.asset, s.run_id, s.snapshot_id) = (r.workspace, r.asset, r.id, r.snapshot_id)) as schema_version
  from (values (1)) as one left join reactor.run r on r.id = $1

-- name: unaccounted
select r.id as run_id, c.snapshot_id, s.snapshot_time, c.commit_extra_info::jsonb->'rows' as counts
  from {catalog}.ducklake_snapshot_changes c join {catalog}.ducklake_snapshot s using (snapshot_id)
  join reactor.run r on r.id::text = substr(c.commit_extra_info, 21, 36) and r.state <> 'completed'
 where starts_with(c.commit_extra_info, '{"reactor":1,"run":"') order by c.snapshot_id

-- name: account
with running as (update reactor.run set state = 'running' where id = $1 and state = 'aborted' returning id)
select count(*) from running

-- name: complete_published
select reactor.complete($1, $2, $3, $4, $5)

-- name: last_snapshot
select coalesce(max(snapshot_id), -1) from {catalog}.ducklake_snapshot

-- name: catalog_version
select value from {catalog}.ducklake_metadata where key = 'version'

-- name: abort
update reactor.run set state = 'aborted', finished_at = clock_timestamp() where id = $1 and state = 'running' returning state

-- name: fail
select reactor.fail($1, $2, $3)

-- name: append_log
with gone as (
  delete from reactor.run_log where run_id = $1 and chunk < $4)
insert into reactor.run_log (run_id, chunk, text) select id, $2, $3 from reactor.run where id = $1 on conflict do nothing

-- name: note_timings
update reactor.run set timings = timings || $2 where id = $1

-- name: purge_runs
delete from reactor.run where id in (             -- the first 48 bits of an id are its milliseconds, so the key tells the old ones
  select id from reactor.run where state not in ('queued', 'running') and id < rpad(lpad(
      to_hex((extract(epoch from clock_timestamp() - make_interval(days => $1)) * 1000)::bigint), 12, '0'), 32, '0')::uuid
   order by id limit $2)
returning id

-- name: heartbeat
insert into reactor.replica (name, seen_at) values ($1, clock_timestamp()) on conflict (name) do update set seen_at = excluded.seen_at

-- name: abort_silent_runs
with silent as (
  select r.id from reactor.run r where r.state = 'running' and not exists (
      select from reactor.replica p where p.name = r.replica and p.seen_at > clock_timestamp() - make_interval(secs => $1))
    for update skip locked),                     -- one that is committing right now is looked at again the next time
gone as (
  delete from reactor.replica p where p.seen_at < clock_timestamp() - interval '1 day')
update reactor.run r set state = 'aborted', error = 'its replica fell silent', finished_at = clock_timestamp()
  from silent s where r.id = s.id returning r.id

-- name: abort_own_runs
update reactor.run set state = 'aborted', error = 'the database is another one than when it began', finished_at = clock_timestamp()
 where replica = $1 and state = 'running'

-- name: lease
insert into reactor.lease as l (name, holder, expires_at) values ($1, $2, clock_timestamp() + make_interval(secs => $3))
on conflict (name) do update set holder = excluded.holder, expires_at = excluded.expires_at
 where l.holder = excluded.holder or l.expires_at <= clock_timestamp()
returning true

-- name: lease_holder
select holder from reactor.lease where name = $1 and expires_at > clock_timestamp()

-- name: release
delete from reactor.lease where name = $1 and holder = $2


-- name: watch_lake
select reactor.watch_lake($1, $2)

-- name: watched
select reactor.watched($1)

-- name: number
select reactor.number($1)

-- name: read_outbox
select o.*, case when o.event->'data'->'truncated' ? 'chain'     -- loops must end, however long the chain: that of the run is whole
    then (select r.trigger->'chain' || to_jsonb(r.script) from reactor.run r where r.id = o.run_id) else o.event->'data'->'chain' end as chain
  from reactor.outbox o where o.queue = 'outbox://' || $1 and o."offset" >= $2 order by o."offset" limit $3

-- name: list_events
select o."offset", o.event from reactor.outbox o
 where o.queue = 'outbox://' || $1 and o.changed and o."offset" < $2 and ($3::text is null or o.asset = $3)
 order by o."offset" desc limit $4

-- name: event
select o.event, r.trigger->'upstream_snapshots' as upstream_snapshots, r.trigger->'chain' as chain, r.script
  from reactor.outbox o left join reactor.run r on r.id = o.run_id where o.event_id = $1

-- name: request_run
with numbered as (
  update reactor.queue set next = next + 1 where name = 'inbox://' || $1 returning name, next - 1 as place)
insert into reactor.inbox (queue, "offset", event_id, script, partition, actor, reason, cascade, replace_slice, arguments)
select n.name, n.place, replace(gen_random_uuid()::text, '-', ''), $2, $3, $4, $5, $6, $7, $8 from numbered n
returning "offset", event_id

-- name: inbox_next
select next from reactor.queue where name = 'inbox://' || $1

-- name: read_inbox
select * from reactor.inbox where queue = 'inbox://' || $1 and "offset" >= $2 order by "offset" limit $3

-- name: runs_of_request
select r.id as run_id, r.root_run_id, r.script, r.asset, r.lake, r.partition, r.state, r.reason, r.attempt, r.actor, r.replica, r.snapshot_id,
    r.rows_inserted, r.rows_deleted, r.error, r.fired_at, r.created_at, r.finished_at
  from reactor.inbox i join reactor.run r on r.script = i.script and r.created_at >= i.requested_at
   and r.trigger @> jsonb_build_object('events', jsonb_build_array(jsonb_build_object('event_id', i.event_id)))
 where i.event_id = $1 order by r.created_at


-- name: pause
insert into reactor.pause (workspace, consumer, reason, actor) values ($1, $2, $3, $4) on conflict do nothing returning consumer

-- name: resume
delete from reactor.pause where workspace = $1 and consumer = $2 returning consumer

-- name: list_pauses
select consumer, reason, actor, paused_at from reactor.pause where workspace = $1 order by consumer


-- name: list_runs
select r.id as run_id, r.root_run_id, r.script, r.asset, r.lake, r.partition, r.state, r.reason, r.attempt, r.actor, r.replica, r.snapshot_id,
    r.rows_inserted, r.rows_deleted, r.error, r.fired_at, r.created_at, r.finished_at
  from reactor.run r
 where r.workspace = $1 and ($2::text is null or r.asset = $2 or r.script = $2) and ($3::text is null or r.state = $3)
   and ($4::uuid is null or r.id < $4)
 order by r.id desc limit $5

-- name: get_run
select r.id as run_id, r.root_run_id, r.script, r.asset, r.lake, r.partition, r.state, r.reason, r.attempt, r.actor, r.replica, r.snapshot_id,
    r.rows_inserted, r.rows_deleted, r.error, r.fired_at, r.created_at, r.finished_at,
    r.script_version, r.consumer, r.strategy, r.cascade, r.trigger, r.claims, r.drift, r.timings, r.compiled_sql
  from reactor.run r where r.id = $1

-- name: runs_between
select id from reactor.run where workspace = $1 and id between $2 and $3 order by id desc limit $4

-- name: run_log
select r.state, l.chunk, l.text, l.logged_at
  from reactor.run r left join reactor.run_log l on l.run_id = r.id and l.chunk >= $2 where r.id = $1 order by l.chunk

-- name: list_partitions
with running as (
  select distinct k.partition from reactor.run r, jsonb_object_keys(r.claims->'partitions') as k(partition)
   where r.state = 'running' and r.workspace = $1 and r.asset = $2)
select partition, case when r.partition is null then m.status else 'running' end as status, m.error, m.snapshot_id, m.previous_snapshot_id,
    m.rows_inserted, m.rows_deleted, m.schema_version, m.updated_at, m.checked_at, m.failed_at
  from (select * from reactor.materialized_partition where workspace = $1 and asset = $2) m full join running r using (partition)
 order by partition desc

-- name: list_tables
select m.asset, max(m.snapshot_id) as snapshot_id, max(m.updated_at) as updated_at, max(m.checked_at) as checked_at, max(m.schema_version) as schema_version,
    count(*) filter (where m.status = 'materialized') as materialized, count(*) filter (where m.status = 'failed') as failed
  from reactor.materialized_partition m where m.workspace = $1 group by m.asset order by m.asset

-- name: list_row_counts
select s.schema_name as schema, t.table_name as table, coalesce(sum(f.record_count - coalesce(d.delete_count, 0)), 0)::bigint as rows
  from {catalog}.ducklake_table t join {catalog}.ducklake_schema s using (schema_id)
  left join {catalog}.ducklake_data_file f on f.table_id = t.table_id and f.end_snapshot is null
  left join {catalog}.ducklake_delete_file d on d.data_file_id = f.data_file_id and d.end_snapshot is null    -- it may outlive its data file
 where t.end_snapshot is null and s.end_snapshot is null
 group by 1, 2

-- name: list_schemas
select version, fingerprint, columns, run_id, snapshot_id, created_at from reactor.materialized_asset_schema
 where workspace = $1 and asset = $2 order by version desc
