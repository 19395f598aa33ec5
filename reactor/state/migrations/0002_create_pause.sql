-- Consumers whose slices gather until somebody resumes them. No row guards anything by it, so it carries no token.

create table reactor.pause (
  workspace text collate "C", consumer text collate "C", reason text not null, actor text not null,
  paused_at timestamptz not null default clock_timestamp(), primary key (workspace, consumer));
