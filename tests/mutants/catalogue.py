"""All mutants."""

from __future__ import annotations

from tests.mutants import database, fakes, protocol, rooms
from tests.mutants.mutant import Mutant

CATALOGUE: list[Mutant] = [*protocol.MUTANTS, *rooms.MUTANTS, *database.MUTANTS, *fakes.MUTANTS]
MUTANTS: dict[str, Mutant] = {mutant.name: mutant for mutant in CATALOGUE}
"""By name."""
