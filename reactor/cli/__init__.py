"""The command line.

    argv ─▶ entry (finds the verb) ─▶ call (flags, time limit, Ctrl-C) ─▶ a verb ─▶ answers
                                                                          └─▶ an error ─▶ failures (exit code, problem+json)

One file for each group of verbs, and in it thin functions that typer reads: they take a `Call` and what the user wrote, ask the rooms through
`reactor.project` and `reactor.wiring`, and answer. Nothing is decided here that a run or the API would have to decide too.

*Authority.* The state says what has happened, the lake what rows there are, `check_project` what a script is. A verb only asks, but for these:
`run` writes a request into the inbox, like anybody who asks for a run; `positions reset` moves positions by `State.reset`, `positions acknowledge`
marks lost ranges as seen; `pause` and `resume` are a row that every replica reads; `migrate` changes the schema and lets a role read;
`maintain --migrate-catalog` has DuckLake migrate a catalog; `doctor` puts a probe into each lake and takes it away; `init` writes files.

*Manners* (conventions 7). stdout is the result and nothing else. With `--json` it is one line, an envelope with the schema's name; errors are
problem+json on stderr. An error says where, why, and what to do next. Who looks only migrates nothing and writes nothing. `check`, `compile`,
`config`, `graph`, `init` need no database, `list` and `show` say less without one. What a name means is said once (`subject`).

*Why.* `explain` gathers facts and hands them to `reasons`, which is pure: one word, one sentence and one next step for each fact. What is waited for
it knows from the decision log beside the positions, so it needs no running service; a position that does not fit its log is judged by the same
`core.examination` that halts a replica.

*Failure.* Errors of the house become exit codes at the very border (`failures`): 0 done, 1 failed or forbidden by the state, 2 usage, settings,
script, 3 a dependency does not answer, 4 timeout or cancelled, 130 Ctrl-C. The first Ctrl-C ends in order, the second at once.

*Processes.* `serve` never starts a part; `onlooker` shows how it is (a screen, or a line of the log), `reload` has it take over edits. `dev` starts the embedded ones and `serve` as a child (`supervisor`), and `demo` is the same with a
shop that sends orders and a screen (`live` looks, `screen` draws). Other verbs start the project's PostgreSQL for their own duration if it is
embedded and does not run (`database`). A verb's module is imported when it is called: an editor asks `check` at every keystroke.
"""

from reactor.cli.entry import main

__all__ = ["main"]
"""The door: what `pyproject.toml` names."""
