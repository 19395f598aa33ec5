-- What a run says while it works, in pieces of a moment each. The oldest go when they become too much; all go with the run.

create table reactor.run_log (
  run_id uuid references reactor.run on delete cascade, chunk int, text text not null,
  logged_at timestamptz not null default clock_timestamp(), primary key (run_id, chunk));
