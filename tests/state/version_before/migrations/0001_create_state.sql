-- Reactor's own tables. Every row that guards something carries `last_run`, the token: the last run or operation that changed it.
-- Keys of text are compared by byte (collate "C"): the order in which rows are locked is the same for every client. `partition` is the asset
-- partition, '' if none. Low fill factors leave room for updates in place.

create table reactor.installation (                                  -- one row, fixed at the first start: event ids hash it
  single boolean primary key default true check (single),
  name text not null, workspace text not null, created_at timestamptz not null default clock_timestamp());

create table reactor.lake (                                          -- the lakes that carry the commit trigger
  name text primary key, watch_external boolean not null);

create table reactor.position (                                      -- all below `floor` is settled, for every stream
  consumer text collate "C", source text collate "C", source_partition text collate "C",
  floor bigint not null, last_run uuid not null, topic_id text, routing text not null, started_from text not null, table_uuid uuid,
  reset_reason text, reset_at timestamptz,
  primary key (consumer, source, source_partition)) with (fillfactor = 50);

create table reactor.fence (                                         -- but these: above the floor = further, below = blocked
  consumer text collate "C", source text collate "C", source_partition text collate "C", partition text collate "C", next bigint not null,
  primary key (consumer, source, source_partition, partition)) with (fillfactor = 70);

-- No foreign key: it would be checked row by row. Only the deletion of a position needs a cascade.
create function reactor.on_position_deleted() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  delete from reactor.fence f where (f.consumer, f.source, f.source_partition) = (old.consumer, old.source, old.source_partition);
  return null;
end $$;
create trigger cascade after delete on reactor.position for each row execute function reactor.on_position_deleted();

create table reactor.source_gap (                                    -- offsets [lo, hi) were lost before they were read
  id bigint generated always as identity primary key,
  consumer text collate "C" not null, source text collate "C" not null, source_partition text collate "C" not null,
  lo bigint not null, hi bigint not null, reason text not null,
  found_at timestamptz not null default clock_timestamp(), acknowledged_at timestamptz, acknowledged_by text,
  unique (consumer, source, source_partition, lo, hi));

create table reactor.run (                                           -- `claims`: what the commit will make of positions and asset partitions
  id uuid primary key, workspace text not null,
  script text not null, script_version text not null, consumer text not null, asset text, lake text not null, strategy text,
  partition text not null, reason text not null, attempt int not null, root_run_id uuid not null, actor text not null, cascade boolean not null,
  trigger jsonb not null, claims jsonb not null, drift jsonb not null, timings jsonb not null, compiled_sql text not null,
  state text not null check (state in ('queued', 'running', 'completed', 'failed', 'aborted')), replica text not null,
  snapshot_id bigint, rows_inserted bigint, rows_deleted bigint, error text,
  fired_at timestamptz not null, created_at timestamptz not null default clock_timestamp(), finished_at timestamptz) with (fillfactor = 70);
create index run_asset on reactor.run (asset, id);
create index run_script on reactor.run (script, id);
create index run_running on reactor.run (replica) where state = 'running';

create table reactor.materialized_partition (                        -- the state row; its token guards every strategy but append from `batch`
  workspace text collate "C", asset text collate "C", partition text collate "C", last_run uuid not null,
  status text not null check (status in ('materialized', 'failed')), error text,
  snapshot_id bigint, previous_snapshot_id bigint, rows_inserted bigint, rows_deleted bigint, schema_version int,
  updated_at timestamptz, checked_at timestamptz, failed_at timestamptz,
  primary key (workspace, asset, partition)) with (fillfactor = 50);

create table reactor.materialized_asset_schema (
  workspace text collate "C", asset text collate "C", version int, fingerprint text not null, columns jsonb not null,
  run_id uuid not null, snapshot_id bigint not null, created_at timestamptz not null default clock_timestamp(),
  primary key (workspace, asset, version));

create table reactor.join_event (                                    -- arrivals that wait for the other inputs of a join
  consumer text collate "C", partition text collate "C", event_id text collate "C", asset text not null, event jsonb not null,
  arrived_at timestamptz not null default clock_timestamp(), primary key (consumer, partition, event_id));

create table reactor.queue (                                         -- numbers without gaps: whoever numbers holds the row
  name text primary key, next bigint not null default 0) with (fillfactor = 10);

create table reactor.outbox (                                        -- "offset" null: committed and not yet numbered
  id bigint generated always as identity primary key, queue text not null, "offset" bigint,
  event_id text not null, asset text not null, partition text not null, lake text not null, snapshot_id bigint, run_id uuid,
  changed boolean not null, cascade boolean not null, event jsonb not null, committed_at timestamptz not null);
create unique index outbox_numbered on reactor.outbox (queue, "offset") where "offset" is not null;
create index outbox_unnumbered on reactor.outbox (queue) where "offset" is null;
create index outbox_asset on reactor.outbox (asset, snapshot_id) where changed;
create index outbox_event on reactor.outbox (event_id);

create table reactor.foreign_commit (                                -- commits of others: insert-only and without a key, so none can fail for us
  lake text not null, snapshot_id bigint not null, changes text, created_at timestamptz not null default clock_timestamp());

create table reactor.inbox (                                         -- runs that somebody asked for
  queue text, "offset" bigint, event_id text not null unique, script text not null, partition text not null, actor text not null,
  reason text not null, cascade boolean not null, replace_slice boolean not null, arguments jsonb not null,
  requested_at timestamptz not null default clock_timestamp(), primary key (queue, "offset"));

create table reactor.lease (name text primary key, holder text not null, expires_at timestamptz not null) with (fillfactor = 50);
create table reactor.replica (
  name text primary key, started_at timestamptz not null default clock_timestamp(), seen_at timestamptz not null) with (fillfactor = 50);

create view reactor.backlog as                                       -- events that nobody has settled yet, by kind of queue
  select split_part(q.name, ':', 1) as kind, sum(q.next - p.floor) as waiting
    from reactor.queue q join reactor.position p on p.source = q.name group by 1;
