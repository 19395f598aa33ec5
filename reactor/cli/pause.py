"""`reactor pause` and `reactor resume`: whether runs of an asset may start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer
from rich.console import RenderableType

from reactor.cli.answers import facts, seen_at
from reactor.cli.call import Call, actor, example, verb, verbs
from reactor.cli.database import at_hand, looked_at
from reactor.cli.positions import consumer_of
from reactor.domain.spans import Consumer
from reactor.domain.spelling import nearest
from reactor.errors import UsageError
from reactor.project import Opened
from reactor.state.pauses import PauseRecord

app, resuming = verbs(), verbs()


@dataclass(frozen=True, slots=True)
class Switched:
    """How it is now. `changed`: whether it was otherwise before; reason and rest are those of the pause, None if it is not paused."""

    asset: str
    paused: bool
    changed: bool
    reason: str | None = None
    actor: str | None = None
    paused_at: datetime | None = None


@app.command(name="pause", epilog=example("reactor pause ducklake://main/orders_daily --reason 'upstream is being repaired'"))
@verb
def pause(
    call: Call,
    asset: Annotated[str, typer.Argument(help="An asset's URI or table name, or the path of the script that makes it.")],
    reason: Annotated[str, typer.Option(help="Why; `list` and `show` say it.")] = "",
) -> None:
    """Start no more runs of an asset, until `reactor resume`. Running replicas obey within seconds; a run that has begun ends.

    Nothing is lost: what comes for it gathers, first in memory, then where it comes from. A topic that forgets its records sooner than the asset
    is resumed loses them for it. Exit code 0 also if it is paused already.
    """
    opened = call.open()
    consumer = known_consumer(opened, asset)
    with at_hand(call, opened.project):
        call.answer(done := call.run(_paused(opened, consumer, reason.strip())), lambda: _shown(done))


async def _paused(opened: Opened, consumer: Consumer, reason: str) -> Switched:
    async with looked_at(opened.project) as state:
        changed = await state.pause(consumer, reason=reason, actor=actor())
        return _switched(consumer, (await state.pauses()).get(consumer), changed=changed)


@resuming.command(name="resume", epilog=example("reactor resume ducklake://main/orders_daily"))
@verb
def resume(call: Call, asset: Annotated[str, typer.Argument(help="An asset's URI or table name, or the path of the script that makes it.")]) -> None:
    """Let a paused asset run again: what has gathered is due at once. Exit code 0 also if it is not paused."""
    opened = call.open()
    consumer = Consumer(consumer_of(opened, asset))
    with at_hand(call, opened.project):
        call.answer(done := call.run(_resumed(opened, consumer, asset)), lambda: _shown(done))


async def _resumed(opened: Opened, consumer: Consumer, asset: str) -> Switched:
    async with looked_at(opened.project) as state:
        changed = await state.resume(consumer)
    if not changed:
        known_consumer(opened, asset)
    return _switched(consumer, None, changed=changed)


def known_consumer(opened: Opened, text: str) -> Consumer:
    """The consumer that a script of the project is. Raises `UsageError` for one that none is."""
    found = consumer_of(opened, text)
    known = {script.consumer for script in opened.checked.scripts.values()}
    if found not in known:
        close = nearest(found, known)
        raise UsageError(f"no script of this project makes {found}", hint=f"did you mean {close}?" if close else "reactor list shows what there is")
    return Consumer(found)


def _switched(consumer: Consumer, record: PauseRecord | None, *, changed: bool) -> Switched:
    if record is None:
        return Switched(consumer, paused=False, changed=changed)
    return Switched(consumer, paused=True, changed=changed, reason=record.reason, actor=record.actor, paused_at=record.paused_at)


def _shown(done: Switched) -> RenderableType:
    state = ("" if done.changed else "already ") + ("paused" if done.paused else "running")
    return facts({"asset": done.asset, "state": state, "reason": done.reason, "by": done.actor, "since": seen_at(done.paused_at)})
