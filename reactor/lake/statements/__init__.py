"""SQL text, made and never executed: pure functions of a script, an asset partition and the shape of a table.

Authority: `quoting` is the only way by which a name or a value gets into a statement. `plan` says what a run executes of a script; `reactor
compile` and the run itself ask the same functions, so they cannot differ.

| module | makes |
| --- | --- |
| quoting | names and literals |
| windows | `{partition}`, `$WM_PARTITION_*`, `wm_partition` |
| script_text | the body for one asset partition |
| reading | which columns of `batch` a body may see |
| carry | a SELECT whose rows know their records |
| staging | the stage table |
| checking | questions about staged rows, and their repair |
| writing, plan | the statements of the transaction |

Staged rows have hidden columns: `_wm_row` (of which record), `_wm_partition` (of which slice; the table has it too), `_wm_deleted` (a merge's
delete mark). The rest of the stage table is what the SELECT gave, under its names, so that statements need not list columns.

Failure: text that sqlglot cannot cut into tokens is left as it is, and DuckDB says what is wrong with it.
"""
