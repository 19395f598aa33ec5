-- What became of each event, or of the offsets of a stream that waited together, for one asset partition of one consumer. Kept 30 days, whatever
-- becomes of the run: `run_id` is the last that took it, null while none has. `partition` of a skipped event is the event's own.

create table reactor.decision (
  workspace text collate "C", consumer text collate "C", source text collate "C", source_partition text collate "C", lo bigint, partition text collate "C",
  hi bigint not null, script text not null, outcome text not null check (outcome in ('dispatched', 'joined', 'skipped')), reason text not null,
  event_id text, asset text, inputs_in int, inputs_needed int, due_at timestamptz, run_id uuid, decided_at timestamptz not null default clock_timestamp(),
  primary key (workspace, consumer, source, source_partition, lo, partition)) with (fillfactor = 70);
create index decision_consumer on reactor.decision (workspace, consumer, decided_at);
create index decision_event on reactor.decision (event_id) where event_id is not null;
create index decision_age on reactor.decision using brin (decided_at);
