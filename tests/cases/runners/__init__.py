"""One module a kind: how its cases are run (the contract is in `tests.cases`)."""
