"""How much a test tries. `make test` proves each thing on a few tries, `make thorough` repeats those marked `thorough` with all of them."""

import os

THOROUGH = os.environ.get("REACTOR_TEST_THOROUGH") == "1"


def tries(few: int, all_of_them: int) -> int:
    """How many, for this session."""
    return all_of_them if THOROUGH else few
