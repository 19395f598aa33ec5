-- The commit: what happens inside the PostgreSQL transaction in which DuckLake publishes rows. Created anew at each start.
-- Everything is decided by `update … where`: the transaction is REPEATABLE READ and may have begun long ago, so a plain select shows the world
-- of then. For the same reason `clock_timestamp()`. No text of a user's may stand in an error: DuckLake repeats a commit on words like "unique".

-- Moves the positions whose token is the believed one, in the order of their key (unsorted, two commits deadlock), and returns the others.
-- claims: [{consumer, source, source_partition, last_run believed, floor, rows: {asset partition: next | null}}]; `rows` is the difference of the
-- fence rows. Whoever touches a fence holds its position's row, so one lock guards both. A loop over positions (few), statements over streams
-- (many), no join of two big things: its plan would hang on statistics.
create or replace function reactor.move(me uuid, claims jsonb) returns table (consumer text, source text, source_partition text)
  language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare c record;
begin
  for c in select * from jsonb_to_recordset(claims) as x(consumer text, source text, source_partition text, last_run uuid, floor bigint, rows jsonb)
            order by x.consumer collate "C", x.source collate "C", x.source_partition collate "C" loop
    update reactor.position p set floor = c.floor, last_run = me
     where p.consumer = c.consumer and p.source = c.source and p.source_partition = c.source_partition and p.last_run = c.last_run;
    if not found then
      consumer := c.consumer; source := c.source; source_partition := c.source_partition;
      return next;
    elsif c.rows <> '{}' then
      delete from reactor.fence f where f.consumer = c.consumer and f.source = c.source and f.source_partition = c.source_partition
        and f.partition = any (array(select e.key from jsonb_each_text(c.rows) e where e.value is null));
      insert into reactor.fence as f select c.consumer, c.source, c.source_partition, e.key, e.value::bigint
          from jsonb_each_text(c.rows) e where e.value is not null
        on conflict on constraint fence_pkey do update set next = excluded.next;
    end if;
  end loop;
end $$;

-- A floor that no run carries, for any positions of any consumers. Each stands alone; the refused ones are returned.
create or replace function reactor.settle(me uuid, claims jsonb) returns table (consumer text, source text, source_partition text)
  language sql set search_path = pg_catalog, pg_temp as $$ select * from reactor.move(me, claims) $$;

-- `positions reset` (p_believed null), a jump over a lost range, a re-created topic (p_believed: the token that was looked at).
create or replace function reactor.reset(me uuid, p_consumer text, p_source text, p_source_partition text, p_believed uuid,
    p_floor bigint, p_topic_id text, p_started_from text, p_table_uuid uuid, p_reason text)
  returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  update reactor.position p set floor = p_floor, last_run = me, topic_id = p_topic_id, started_from = p_started_from,
      table_uuid = p_table_uuid, reset_reason = p_reason, reset_at = clock_timestamp()
   where (p.consumer, p.source, p.source_partition) = (p_consumer, p_source, p_source_partition) and p.last_run = coalesce(p_believed, p.last_run);
  if not found then return false; end if;
  delete from reactor.fence f where (f.consumer, f.source, f.source_partition) = (p_consumer, p_source, p_source_partition);
  return true;
end $$;

-- New routing takes over at a common cut: the token is the believed one and no stream stands elsewhere. The row is held before the fences are
-- looked at, in a statement of its own and so with a new snapshot.
create or replace function reactor.switch(me uuid, p_consumer text, p_source text, p_source_partition text, p_believed uuid, p_routing text)
  returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform 1 from reactor.position p
   where (p.consumer, p.source, p.source_partition) = (p_consumer, p_source, p_source_partition) and p.last_run = p_believed for no key update;
  if not found or exists (select from reactor.fence f where (f.consumer, f.source, f.source_partition) = (p_consumer, p_source, p_source_partition)) then
    return false;
  end if;
  update reactor.position p set routing = p_routing, last_run = me
   where (p.consumer, p.source, p.source_partition) = (p_consumer, p_source, p_source_partition);
  return true;
end $$;

-- Arrivals of a join and its position, all or nothing: a crash changes nothing.
create or replace function reactor.arrive(me uuid, p_consumer text, arrivals jsonb, claims jsonb) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from reactor.move(me, claims);
  if found then raise exception using errcode = 'RF001', message = 'reactor RF001: position'; end if;
  insert into reactor.join_event (consumer, partition, event_id, asset, event)
    select p_consumer, a.partition, a.event_id, a.asset, a.event
      from jsonb_to_recordset(arrivals) as a(partition text, event_id text, asset text, event jsonb)
     order by a.partition collate "C", a.event_id collate "C"
    on conflict do nothing;
end $$;

create or replace function reactor.rfc3339(t timestamptz) returns text language sql stable as
  $$ select to_char(t at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

-- An event has 65,536 bytes at most, 256 upstream snapshots and 64 scripts: a list that does not fit is emptied, never cut, and named. `data` goes
-- into `envelope`, the rest of the event.
create or replace function reactor.fit(data jsonb, envelope jsonb) returns jsonb language plpgsql set search_path = pg_catalog, pg_temp as $$
declare list record; room int := 65536 - octet_length(envelope::text);
begin
  for list in select * from (values ('upstream_snapshots', 256), ('chain', 64)) l(name, entries_max) order by octet_length((data->l.name)::text) desc loop
    if jsonb_array_length(data->list.name) > least(list.entries_max, case when octet_length(data::text) > room then 0 end) then
      data := data || jsonb_build_object(list.name, '[]'::jsonb, 'truncated', coalesce(data->'truncated', '[]') || to_jsonb(list.name));
    end if;
  end loop;
  return data;
end $$;

create or replace function reactor.event_source(p_workspace text, p_lake text) returns text language sql stable set search_path = pg_catalog, pg_temp as
  $$ select format('reactor://%s/%s/%s', i.name, p_workspace, p_lake) from reactor.installation i $$;

-- One asset-updated event. `attributes`: the optional ones of the run; `data`: all of it but what is of the asset partition. No setting and one
-- select, so that it is inlined: a commit may have thousands.
create or replace function reactor.asset_updated(source text, asset text, partition text, snapshot_id bigint, run_id uuid, at text, attributes jsonb,
    data jsonb, partition_data jsonb) returns jsonb language sql stable as $$
  select attributes || jsonb_build_object(
      'specversion', '1.0', 'type', 'reactor.asset.updated.v1', 'source', source, 'subject', asset, 'partitionkey', asset, 'time', at,
      'datacontenttype', 'application/json', 'dataschema', 'urn:reactor:schema:asset-updated:v1',
      'id', left(encode(sha256(convert_to(concat_ws(
          E'\n', 'reactor.asset.updated.v1', source, coalesce(snapshot_id::text, ''), coalesce(run_id::text, ''), asset, partition), 'UTF8')), 'hex'), 32),
      'data', data || partition_data)
    || jsonb_strip_nulls(jsonb_build_object('assetpartition', nullif(partition, ''), 'sequence', lpad(snapshot_id::text, 20, '0'))) $$;

-- Step 4: the state rows of a run's asset partitions, by compare-and-set. `any (keys)` and look-ups in the jsonb by key: the same plan whatever
-- the statistics say. A partition without the key `last_run` is not compared (append); with null: no row is believed. One that got no row and no
-- column by this snapshot keeps what it was made by: the snapshot is that of other slices, or of what was quarantined.
create or replace function reactor.materialize(r reactor.run, keys text[], parts jsonb, counts jsonb, p_version int, p_schema_changed boolean) returns void
  language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare n bigint; at timestamptz := clock_timestamp(); changed jsonb;
begin
  changed := (
    select coalesce(jsonb_object_agg(e.key, counts->(e.value->>'row')::int), '{}') from jsonb_each(parts) e
     where r.snapshot_id is not null and (p_schema_changed or counts->(e.value->>'row')::int <> '[0, 0]'));
  perform from reactor.materialized_partition m where m.workspace = r.workspace and m.asset = r.asset and m.partition = any (keys)
    order by m.partition for no key update;
  with updated as (
    update reactor.materialized_partition m set last_run = r.id, status = 'materialized', error = null, failed_at = null, checked_at = at,
      updated_at           = case when changed ? m.partition then at                                            else m.updated_at           end,
      snapshot_id          = case when changed ? m.partition then r.snapshot_id                                 else m.snapshot_id          end,
      previous_snapshot_id = case when changed ? m.partition then m.snapshot_id                                 else m.previous_snapshot_id end,
      schema_version       = case when changed ? m.partition then p_version                                     else m.schema_version       end,
      rows_inserted        = case when changed ? m.partition then (changed->m.partition->>0)::bigint            else m.rows_inserted        end,
      rows_deleted         = case when changed ? m.partition then (changed->m.partition->>1)::bigint            else m.rows_deleted         end
    where m.workspace = r.workspace and m.asset = r.asset and m.partition = any (keys)
      and (not parts->m.partition ? 'last_run' or m.last_run = (parts->m.partition->>'last_run')::uuid)
    returning 1),
  inserted as (                                       -- what was updated conflicts with itself and is not counted twice
    insert into reactor.materialized_partition (workspace, asset, partition, last_run, status, checked_at, updated_at, snapshot_id, schema_version,
        rows_inserted, rows_deleted)
      select r.workspace, r.asset, e.key, r.id, 'materialized', at, case when changed ? e.key then at end,
          case when changed ? e.key then r.snapshot_id end, case when changed ? e.key then p_version end,
          coalesce((changed->e.key->>0)::bigint, 0), coalesce((changed->e.key->>1)::bigint, 0)
        from jsonb_each(parts) e where e.value->>'last_run' is null order by e.key collate "C"
    on conflict do nothing returning 1)
  select (select count(*) from updated) + (select count(*) from inserted) into n;
  if n <> cardinality(keys) then raise exception using errcode = 'RF001', message = 'reactor RF001: asset partition'; end if;
end $$;

-- Step 6: an event per asset partition, unnumbered: whoever reads numbers them. Where this run changed nothing it is internal: no snapshot, and
-- `changed` is false. Lists are the same in all of them, so the longest key says whether they fit.
create or replace function reactor.emit(r reactor.run, keys text[], parts jsonb, p_at timestamptz, p_schema_changed boolean) returns void
  language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
  source text := reactor.event_source(r.workspace, r.lake);
  longest text := (select k from unnest(keys) k order by octet_length(to_jsonb(k)::text) desc limit 1);
  attributes jsonb := jsonb_strip_nulls(jsonb_build_object('correlationid', r.root_run_id, 'causationid', r.trigger->'events'->-1->>'event_id'));
  common jsonb := jsonb_build_object('asset', r.asset, 'strategy', r.strategy, 'script', r.script, 'run_id', r.id, 'root_run_id', r.root_run_id,
    'attempt', r.attempt, 'reason', r.reason, 'schema_fingerprint', r.claims->'schema'->'fingerprint', 'schema_changed', p_schema_changed,
    'upstream_snapshots', coalesce(r.trigger->'upstream_snapshots', '[]'), 'chain', coalesce(r.trigger->'chain', '[]') || to_jsonb(r.script));
begin
  common := reactor.fit(common, reactor.asset_updated(source, r.asset, longest, r.snapshot_id, r.id, reactor.rfc3339(p_at), attributes, '{}',
    jsonb_build_object('partition', longest, 'partition_start', p_at, 'partition_end', p_at, 'snapshot_id', r.snapshot_id,
      'previous_snapshot_id', r.snapshot_id, 'schema_version', 2147483647, 'rows_inserted', r.rows_inserted, 'rows_deleted', r.rows_deleted)));
  insert into reactor.outbox (queue, event_id, asset, partition, lake, snapshot_id, run_id, changed, cascade, event, committed_at)
    select 'outbox://' || r.workspace, x.event->>'id', r.asset, x.partition, r.lake, x.snapshot_id, r.id, x.changed, r.cascade, x.event, p_at
      from (select m.partition, m.snapshot_id, m.changed, reactor.asset_updated(source, r.asset, m.partition, m.snapshot_id, r.id, reactor.rfc3339(p_at),
              attributes, common, jsonb_build_object('partition', nullif(m.partition, ''),
                'partition_start', parts->m.partition->'start', 'partition_end', parts->m.partition->'end',
                'snapshot_id', m.snapshot_id, 'previous_snapshot_id', m.previous_snapshot_id, 'schema_version', m.schema_version,
                'rows_inserted', case when m.changed then m.rows_inserted else 0 end,
                'rows_deleted', case when m.changed then m.rows_deleted else 0 end)) as event
              from (select p.partition, p.snapshot_id = r.snapshot_id is true as changed,
                      case p.snapshot_id when r.snapshot_id then p.snapshot_id end as snapshot_id, p.previous_snapshot_id, p.schema_version,
                      p.rows_inserted, p.rows_deleted
                      from reactor.materialized_partition p
                     where p.workspace = r.workspace and p.asset = r.asset and p.partition = any (keys) order by p.partition offset 0) m) x;
  perform pg_notify('reactor_outbox', '');
end $$;

-- The body, for the trigger and for the loader itself when no snapshot was made (p_snapshot null): all or nothing, in this order of locks.
-- The claims are those of the run row: {positions: as `move`, partitions: {asset partition: {row, last_run?, start, end}},
-- schema: {fingerprint, columns} | null, joins: [[asset partition, event id]]}; counts: [[inserted, deleted]], `row` is an index into it.
create or replace function reactor.complete(p_run uuid, counts jsonb, p_lake text default null, p_snapshot bigint default null,
    p_at timestamptz default clock_timestamp()) returns void
  language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare r reactor.run; parts jsonb; keys text[]; fresh boolean := false; version int; n bigint;
begin
  update reactor.run u set state = 'completed', snapshot_id = p_snapshot, finished_at = clock_timestamp(),          -- 2: what an abort waits for
      rows_inserted = (select coalesce(sum((c->>0)::bigint), 0) from jsonb_array_elements(counts) c),
      rows_deleted = (select coalesce(sum((c->>1)::bigint), 0) from jsonb_array_elements(counts) c)
   where u.id = p_run and u.state = 'running' and u.lake = coalesce(p_lake, u.lake)
     and jsonb_array_length(counts) = (select count(*) from jsonb_object_keys(u.claims->'partitions')) returning * into r;
  if not found then raise exception using errcode = 'RF002', message = 'reactor RF002: the run is not running, or its mark has no counts'; end if;
  parts := r.claims->'partitions'; keys := array(select jsonb_object_keys(parts));

  perform from reactor.move(r.id, r.claims->'positions');                                                           -- 3
  if found then raise exception using errcode = 'RF001', message = 'reactor RF001: position'; end if;

  select s.version, s.fingerprint <> r.claims->'schema'->>'fingerprint' into version, fresh from reactor.materialized_asset_schema s
   where s.workspace = r.workspace and s.asset = r.asset order by s.version desc limit 1;
  fresh := p_snapshot is not null and r.claims->'schema'->>'fingerprint' is not null and coalesce(fresh, true);
  version := coalesce(version, 0) + fresh::int;
  perform reactor.materialize(r, keys, parts, counts, nullif(version, 0), fresh);                                   -- 4

  if fresh then                                                                                                     -- 5
    insert into reactor.materialized_asset_schema (workspace, asset, version, fingerprint, columns, run_id, snapshot_id)
      values (r.workspace, r.asset, version, r.claims->'schema'->>'fingerprint', r.claims->'schema'->'columns', r.id, p_snapshot);
  end if;
  if r.claims->'joins' <> '[]' then
    delete from reactor.join_event j where j.consumer = r.consumer
      and (j.partition, j.event_id) in (select e->>0, e->>1 from jsonb_array_elements(r.claims->'joins') e);
    get diagnostics n = row_count;
    if n <> jsonb_array_length(r.claims->'joins') then raise exception using errcode = 'RF001', message = 'reactor RF001: join'; end if;
  end if;

  if keys <> '{}' then perform reactor.emit(r, keys, parts, p_at, fresh); end if;                                   -- 6
end $$;

-- A run that ended `failed`. If no retry follows, its asset partitions become `failed` (snapshot and rows of the last good run stay), unless
-- somebody else has moved on since. False: the run is not running.
create or replace function reactor.fail(p_run uuid, p_error text, p_final boolean) returns boolean
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare r reactor.run;
begin
  update reactor.run u set state = 'failed', error = p_error, finished_at = clock_timestamp()
   where u.id = p_run and u.state = 'running' returning * into r;
  if not found then return false; end if;
  if p_final and not exists (
      select from jsonb_to_recordset(r.claims->'positions') as c(consumer text, source text, source_partition text, last_run uuid)
        join reactor.position p using (consumer, source, source_partition) where p.last_run <> c.last_run) then
    insert into reactor.materialized_partition as m (workspace, asset, partition, last_run, status, error, failed_at)
      select r.workspace, r.asset, e.key, r.id, 'failed', p_error, clock_timestamp() from jsonb_each(r.claims->'partitions') e order by e.key collate "C"
      on conflict on constraint materialized_partition_pkey do update
        set last_run = r.id, status = 'failed', error = excluded.error, failed_at = excluded.failed_at
        where not r.claims->'partitions'->m.partition ? 'last_run' or m.last_run = (r.claims->'partitions'->m.partition->>'last_run')::uuid;
  end if;
  return true;
end $$;

-- Commits of others become events of whole tables: insert, delete, create, alter; compaction and expiry do not. A change names a table by id
-- (looked up as it was at that snapshot) or, when it was made or renamed, by name. Lakes that nobody watches are only emptied. `horizon`: lake →
-- the highest snapshot id to look at.
create or replace function reactor.take_foreign(p_workspace text, horizon jsonb) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare l record;
begin
  delete from reactor.foreign_commit f using reactor.lake w where w.name = f.lake and not w.watch_external;
  for l in select w.name, (horizon->>w.name)::bigint as snapshot_max from reactor.lake w
            where w.watch_external and horizon ? w.name and exists (select from reactor.foreign_commit f where f.lake = w.name) loop
    begin
      execute replace($q$
        with taken as (delete from reactor.foreign_commit where lake = $2 and snapshot_id <= $3 returning snapshot_id, changes, created_at),
        change as (
          select t.snapshot_id, t.created_at, c[1] as word, c[2]::bigint as table_id,
              replace(c[3], '""', '"') as schema_name, replace(c[4], '""', '"') as table_name
            from taken t, regexp_matches(t.changes, '([a-z_]+):(?:(\d{1,18})|"((?:[^"]|"")*)"(?:\."((?:[^"]|"")*)")?)', 'g') c
           where c[1] in ('created_table', 'altered_table', 'inserted_into_table', 'deleted_from_table', 'inlined_insert', 'inlined_delete')),
        named as (
          select c.snapshot_id, c.created_at, lower(coalesce(c.schema_name, s.schema_name)) as schema_name,
              lower(coalesce(c.table_name, t.table_name)) as table_name,
              c.word = 'created_table' or c.word = 'altered_table' and exists (
                select from {catalog}.ducklake_column k where k.table_id = c.table_id and c.snapshot_id in (k.begin_snapshot, k.end_snapshot)) as ddl
            from change c
            left join {catalog}.ducklake_table t on t.table_id = c.table_id
              and c.snapshot_id >= t.begin_snapshot and (t.end_snapshot is null or c.snapshot_id < t.end_snapshot)
            left join {catalog}.ducklake_schema s on s.schema_id = t.schema_id
              and c.snapshot_id >= s.begin_snapshot and (s.end_snapshot is null or c.snapshot_id < s.end_snapshot)),
        touched as (
          select n.snapshot_id, 'ducklake://' || $2 || '/' || case n.schema_name when 'main' then '' else n.schema_name || '.' end || n.table_name as asset,
              bool_or(n.ddl) as ddl, coalesce(min(p.snapshot_time), min(n.created_at)) as at
            from named n left join {catalog}.ducklake_snapshot p using (snapshot_id)
           where n.schema_name is not null and n.table_name is not null group by 1, 2)
        insert into reactor.outbox (queue, event_id, asset, partition, lake, snapshot_id, changed, cascade, event, committed_at)
          select 'outbox://' || $1, e.event->>'id', t.asset, '', $2, t.snapshot_id, true, true, e.event, t.at
            from touched t, reactor.asset_updated(reactor.event_source($1, $2), t.asset, '', t.snapshot_id, null, reactor.rfc3339(t.at),
              '{}', '{}', jsonb_build_object('asset', t.asset, 'partition', null,
              'partition_start', null, 'partition_end', null, 'snapshot_id', t.snapshot_id, 'previous_snapshot_id', null, 'rows_inserted', null,
              'rows_deleted', null, 'strategy', 'external', 'script', null, 'run_id', null, 'root_run_id', null, 'attempt', 1, 'reason', 'external',
              'schema_version', null, 'schema_fingerprint', null, 'schema_changed', t.ddl, 'upstream_snapshots', '[]'::jsonb, 'chain', '[]'::jsonb)) as e(event)
      $q$, '{catalog}', quote_ident('lake_' || l.name)) using p_workspace, l.name, l.snapshot_max;
    exception when undefined_table or invalid_schema_name then
      delete from reactor.foreign_commit f where f.lake = l.name and f.snapshot_id <= l.snapshot_max;      -- the lake is gone, with what they changed
    end;
  end loop;
end $$;

-- Numbers what is committed and has no number, without a gap and in commit order, and returns the next number. The queue's row is held first;
-- a new statement then sees every transaction that committed before, and sets the horizon: of each lake all up to that snapshot is committed, and
-- what later statements see beyond it (ours, but not yet the other tool's before it) waits. Not for REPEATABLE READ sessions.
create or replace function reactor.number(p_workspace text) returns bigint language plpgsql set search_path = pg_catalog, pg_temp as $$
declare me text := 'outbox://' || p_workspace; n bigint; numbered bigint; horizon jsonb;
begin
  if not exists (select from reactor.foreign_commit) and not exists (select from reactor.outbox o where o.queue = me and o."offset" is null) then
    return (select q.next from reactor.queue q where q.name = me);
  end if;
  select q.next into strict n from reactor.queue q where q.name = me for update;
  select coalesce(jsonb_object_agg(c.lake, c.snapshot_id), '{}') into horizon from (
    select u.lake, max(u.snapshot_id) as snapshot_id from (
      select f.lake, f.snapshot_id from reactor.foreign_commit f
      union all select o.lake, o.snapshot_id from reactor.outbox o where o.queue = me and o."offset" is null and o.snapshot_id is not null) u
    group by u.lake) c;
  perform reactor.take_foreign(p_workspace, horizon);
  with fresh as (
    select o.id, row_number() over (order by o.snapshot_id is null, o.lake, o.snapshot_id, o.committed_at, o.asset, o.partition, o.id) as place
      from reactor.outbox o where o.queue = me and o."offset" is null and (o.snapshot_id is null or o.snapshot_id <= (horizon->>o.lake)::bigint))
  update reactor.outbox o set "offset" = n + f.place - 1 from fresh f where o.id = f.id;
  get diagnostics numbered = row_count;
  update reactor.queue q set next = n + numbered where q.name = me;
  return n + numbered;
end $$;

-- The trigger of a lake. Ours is text that begins {"reactor":1, with the run and its counts, or with `setup` (our tables and maintenance: no
-- run, nobody is told). Anything else is another tool's commit and never waits or fails for us.
create or replace function reactor.on_commit() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare lake text := substr(tg_table_schema, 6); mark jsonb; at timestamptz;
begin
  if new.commit_extra_info is null or not starts_with(new.commit_extra_info, '{"reactor":1,') then
    insert into reactor.foreign_commit (lake, snapshot_id, changes) values (lake, new.snapshot_id, new.changes_made);
    return null;
  end if;
  mark := new.commit_extra_info::jsonb;
  if mark ? 'setup' then return null; end if;
  perform set_config('idle_in_transaction_session_timeout', '5s', true), set_config('lock_timeout', '5s', true);    -- 1: DuckLake sends COMMIT apart
  execute format('select snapshot_time from %I.ducklake_snapshot where snapshot_id = $1', tg_table_schema) into at using new.snapshot_id;
  perform reactor.complete((mark->>'run')::uuid, coalesce(mark->'rows', '[]'), lake, new.snapshot_id, coalesce(at, clock_timestamp()));
  return null;
end $$;

create or replace function reactor.watch_lake(p_lake text, p_watch_external boolean) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare catalog text := 'lake_' || p_lake;
begin
  insert into reactor.lake values (p_lake, p_watch_external) on conflict (name) do update set watch_external = excluded.watch_external;
  if not reactor.watched(p_lake) then
    execute format('create or replace trigger reactor_commit after insert on %1$I.ducklake_snapshot_changes
      for each row execute function reactor.on_commit(); alter table %1$I.ducklake_snapshot_changes enable always trigger reactor_commit', catalog);
  end if;
end $$;

-- Whether the commit trigger of a lake is there, is ours and always fires.
create or replace function reactor.watched(p_lake text) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace s on s.oid = c.relnamespace
    where s.nspname = 'lake_' || p_lake and c.relname = 'ducklake_snapshot_changes' and t.tgname = 'reactor_commit' and t.tgenabled = 'A'
      and t.tgfoid = 'reactor.on_commit'::regproc) $$;
