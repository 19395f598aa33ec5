"""Given inputs with their right answers, one JSON file a kind, and the program that runs them: `python -m tests.cases [FOLDER]`.

The files are data: what a case says is in the file's `about` and `setup`, and in `README.md`. How a kind is run is code:
`tests/cases/runners/<kind>.py` with

    def run(case: Case, setup: Case) -> str | None                       # None: right; else "got … wanted …". May be `async def`.
    def environment() -> AbstractContextManager[T]                       # optional: a server, a lake; entered once for the kind
    def run(case: Case, setup: Case, environment: T) -> str | None       # then `run` takes its value as well
    async def run_together(cases, setup[, environment]) -> Mapping[str, str | None]    # instead of `run`: by id, for cases that share a product.
                                                                         # Raising, or no answer: those are run again in halves.

A kind without a runner is skipped, and so is a case that waits for a row of the feature table (`pending.toml`): both by name. What a machine
cannot have skips the kind with the reason, and fails it in CI. A runner that raises has failed that case and no other.
"""

from collections.abc import Mapping

Case = Mapping[str, object]
