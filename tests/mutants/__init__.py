"""Proof of the proofs: the product with one rule broken, and the test that falls over it.

    catalogue ─▶ campaign: a process for each mutant ─▶ pytest with `Breaking` ─▶ killed, or it has survived
                                                          (the rule is broken before the first test)

A *mutant* replaces one method, or one line of `commit.sql` in the databases of its process; it names the test of the ordinary suite that
must fail by it. *Killed* means that this test failed in its own body: a fixture that fails, a test that is not found or is skipped proves
nothing, and is an error of the campaign. `make mutants` runs the list, and so does `.ci/run`; `pytest -m mutants` runs it test by test.

Hypothesis does not shrink here and draws the same examples each time, so a mutant that was killed once is killed on every machine.
"""
