"""What Reactor is measured against, each written as its documentation recommends, all into the same table.

    python -m bench.rivals.hand | bytewax.run bench.rivals.bytewax_flow | python -m bench.rivals.quix

They run with the interpreter of `bench/.venv`, are told by environment variables what to read (`Task`), and answer in JSON lines on stdout:
`{"committed": rows}` after each commit. The clock starts with the first record that is read, so neither imports nor joining the group
count. All of them are at least once: none moves its offsets in the commit of its rows.
"""
