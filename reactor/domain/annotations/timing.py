"""When a script runs and where: `trigger`, `debounce`, `freshness`, `retry`, `tag`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from reactor.domain.annotations.cron import cron
from reactor.domain.annotations.keyword import Keyword
from reactor.domain.annotations.line import Line, one_of
from reactor.domain.annotations.scan import Word
from reactor.domain.annotations.values import delay, duration, whole, zone
from reactor.domain.diagnostics import Malformed
from reactor.domain.scripts import Debounce, Freshness, Header, Retry, TriggerRule
from reactor.domain.spelling import nearest

RETRIES_MAX: Final = 100
TAG_BYTES_MAX: Final = 50


class Trigger(Keyword[TriggerRule]):
    """`trigger any|all …`: run for each update of any edge, or once all edges have updated the same asset partition.

    `expires=7d`: how long a join waits; `at_least=n`: how many edges are enough; `late=rerun`: what comes after the join runs it again.

        -- trigger all expires=2d
    """

    word, form, refuses = "trigger", "trigger any|all [expires=7d] [at_least=n] [late=rerun]", True

    def parse(self, line: Line) -> TriggerRule:
        """The rule; options of `all` have no effect on `any`."""
        mode: Literal["any", "all"] = line.take("`any` or `all`", one_of("any", "all"), "any")
        expires, at_least = line.option("expires", duration), line.option("at_least", whole(1))
        late = line.choice("late", "rerun")
        line.close()
        if mode == "any":
            for option in ("expires", "at_least", "late"):
                if line.names(option) and not line.malformed:
                    line.tell(line.place(option), "no-effect", f"`{option}=` has no effect on `trigger any`")
        return TriggerRule(mode, expires, at_least, late is not None)

    def compile(self, header: Header, value: TriggerRule) -> Header:
        """The rule of this script."""
        return replace(header, trigger=value)


class DebounceKeyword(Keyword[Debounce]):
    """`debounce <quiet> …`: a slice is due after so long without news, and at the latest after `max=` since the first; at once with `rows=` or `bytes=`.

    -- debounce 2s max=30s rows=100000
    """

    word, form = "debounce", "debounce <quiet> [max= rows= bytes=]"

    def parse(self, line: Line) -> Debounce:
        """Quiet time, and the limits that end it early."""
        quiet = line.take("a quiet time", duration, 1.0)
        wait_max = line.option("max", duration)
        rows, size = line.option("rows", whole(1)), line.option("bytes", whole(1))
        line.close()
        if wait_max is not None and wait_max < quiet:
            line.error(line.place("max="), "`max` is shorter than the quiet time: no slice could ever be quiet", code="out-of-order")
        return Debounce(quiet, wait_max, rows, size)

    def compile(self, header: Header, value: Debounce) -> Header:
        """The window of this script."""
        return replace(header, debounce=value)


class FreshnessKeyword(Keyword[Freshness]):
    """`freshness <dur> …`: how old the asset may be. `deadline=` is a cron line instead of a distance, `tz=` its zone, `on=` what ages: the run or the data.

    -- freshness 5m
    -- freshness 1d deadline="0 6 * * *" tz=Europe/Vienna
    """

    word, form = "freshness", 'freshness <dur> [deadline="<cron>"] [tz=] [on=run|data]'

    def parse(self, line: Line) -> Freshness:
        """The window, the deadline it is judged at, and what counts as an update."""
        window = line.take("a duration", duration, 1.0)
        deadline, zone_name = line.spaced_option("deadline", cron), line.option("tz", zone)
        on: Literal["run", "data"] | None = line.choice("on", "run", "data")
        line.close()
        if zone_name is not None and not line.names("deadline"):
            line.tell(line.place("tz"), "no-effect", "`tz=` has no effect without `deadline=`")
        return Freshness(window, deadline, zone_name or "UTC", on or "run")

    def compile(self, header: Header, value: Freshness) -> Header:
        """The policy of what this script makes."""
        return replace(header, freshness=value)


class RetryKeyword(Keyword[Retry]):
    """`retry <n> …`: a run fired by events that failed is tried again, n times, after a delay that may grow.

    -- retry 3 10s backoff=exponential
    """

    word, form = "retry", "retry <n> [<delay>] [backoff=exponential]"

    def parse(self, line: Line) -> Retry:
        """How often, how long between, and whether that doubles."""
        count = line.take("a count", whole(1, RETRIES_MAX), 1)
        second = line.peek()
        pause = 1.0
        if second is not None and nearest(second.raw, ("backoff", "exponential")) is None:
            pause = line.take("a delay", delay, pause)
        backoff = line.choice("backoff", "exponential")
        line.close()
        return Retry(count, pause, backoff is not None)

    def compile(self, header: Header, value: Retry) -> Header:
        """The policy of this script."""
        return replace(header, retry=value)


class Tag(Keyword[str]):
    """`tag <word>`: for selection, and for replicas that run only some scripts (`serve --tags`).

    -- tag heavy
    """

    word, form = "tag", "tag <word>"

    def parse(self, line: Line) -> str:
        """One word."""
        tag = line.take("a word", _tag, "")
        line.close()
        return tag

    def compile(self, header: Header, value: str) -> Header:
        """The tag of this script."""
        return replace(header, tag=value)


def _tag(word: Word) -> str:
    if not word.text or word.text.split() != [word.text]:
        raise Malformed("a tag is one word")
    if len(word.text.encode()) > TAG_BYTES_MAX:
        raise Malformed(f"a tag has at most {TAG_BYTES_MAX} bytes, this one has {len(word.text.encode())}")
    return word.text
