"""All operations on the same rows at the same time: each token is believed once, and nobody dies of a deadlock."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import asyncpg
import pytest

from reactor.domain.runs import PartitionCounts
from reactor.domain.spans import Consumer, PositionClaim, PositionKey, SourcePartition, Token
from reactor.errors import Conflict
from reactor.ports import Arrival
from reactor.state import PostgresState
from tests.state.making import ASSET, Catalog, append, claim, mark, merge, start

pytestmark = pytest.mark.anyio

KEYS = [PositionKey(Consumer(ASSET), SourcePartition("kafka://main/orders", str(i))) for i in range(12)]
SLICES = ("a", "b", "c")
WORKERS, STEPS = 8, 25


class Worker:
    """One replica that does at random what replicas do, and remembers which token it replaced by which."""

    def __init__(self, number: int, state: PostgresState, session: asyncpg.Connection, catalog: Catalog) -> None:
        self.r = random.Random(number)
        self.state, self.session, self.catalog = state, session, catalog
        self.moved: list[tuple[PositionKey, Token]] = []
        self.written: list[tuple[str, Token | None]] = []
        self.refusals = Counter[str]()

    async def claims(self) -> list[PositionClaim]:
        """Of some positions as they are now, in any order."""
        stored = await self.state.load(self.r.sample(KEYS, self.r.choice((1, 2, 2, 3, len(KEYS)))))
        claims = [claim(p.token, p.floor + 1, {"a": p.floor + 3, "b": None, "c": p.floor}, key) for key, p in stored.items()]
        return self.r.sample(claims, len(claims))

    async def step(self) -> None:
        try:
            await self.r.choice((self.commit, self.commit, self.complete, self.settle, self.reset, self.switch, self.join, self.fail))()
        except (Conflict, asyncpg.PostgresError) as error:
            self.refusals[str(error)] += 1

    def accepted(self, claims: Sequence[PositionClaim]) -> None:
        self.moved += [(c.key, c.believed) for c in claims]

    async def commit(self) -> None:
        async with self.state.commit_lock("main", 20):
            claims = (await self.claims())[:2]
            tokens = (await self.state.partition_tokens(ASSET, self.r.sample(SLICES, 2))).tokens
            run = merge(tokens, claims)
            await self.state.insert_run(run)
            await self.catalog.commit(mark(run), session=self.session)
        self.accepted(claims)
        self.written += tokens.items()

    async def complete(self) -> None:
        claims = await self.claims()
        run = append(claims, "b", "a")
        await self.state.insert_run(run)
        await self.state.complete(run.run_id, [PartitionCounts(0, 0)] * 2)
        self.accepted(claims)

    async def settle(self) -> None:
        claims = await self.claims()
        _, refused = await self.state.settle(claims)
        self.accepted([c for c in claims if c.key not in refused])

    async def reset(self) -> None:
        (one, *_) = await self.claims()
        if await self.state.reset(one.key, 0, None, "earliest", "at random", believed=one.believed):
            self.accepted([one])

    async def switch(self) -> None:
        (one, *_) = await self.claims()
        if await self.state.switch(one.key, one.believed, "new"):
            self.accepted([one])

    async def join(self) -> None:
        claims = await self.claims()
        await self.state.arrive(Consumer(ASSET), [Arrival(s, f"e{self.r.randrange(9)}", ASSET) for s in SLICES], claims)
        self.accepted(claims)

    async def fail(self) -> None:
        run = merge((await self.state.partition_tokens(ASSET, SLICES)).tokens)
        await self.state.fail(None, run, "it broke", final=True)


async def test_each_token_is_believed_once_and_nobody_deadlocks(state: PostgresState, catalog: Catalog) -> None:
    await start(state, *KEYS)
    workers = [Worker(i, state, await catalog.session(), catalog) for i in range(WORKERS)]

    async def work(worker: Worker) -> None:
        for _ in range(STEPS):
            await worker.step()

    await asyncio.gather(*map(work, workers))
    believed = Counter(pair for worker in workers for pair in worker.moved)
    assert max(believed.values()) == 1
    assert max(Counter(pair for worker in workers for pair in worker.written).values()) == 1
    assert len(believed) > WORKERS * STEPS / 4
    refusals = sum((worker.refusals for worker in workers), Counter[str]())
    assert refusals.total() > WORKERS
    assert not [text for text in refusals if "deadlock" in text]
