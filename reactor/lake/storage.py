"""Whether files can be kept where a lake keeps them: asked by `reactor doctor` (blocking)."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import duckdb

from reactor.errors import Outage, ReactorError, UsageError
from reactor.lake.extensions import opened_duckdb
from reactor.lake.failures import masked
from reactor.lake.keep import keep_of
from reactor.lake.session import LakeSettings
from reactor.lake.statements.quoting import literal

_DENIED: Final = re.compile(r"\b(?:401|403|404)\b|AccessDenied|Forbidden|NoSuchBucket")
"""In what is said beside the address, which may hold such numbers too."""
PROBE = "_reactor_doctor"
"""Begins the names of files that are put to see whether it can be done; in an object store one stays, and is overwritten the next time."""


def prove(lake: str, settings: LakeSettings) -> None:
    """Put, get and list a file; a folder is there already. Raises `UsageError` or `Outage`: what cannot be done, and why."""
    if settings.folder is None:
        _prove_store(lake, settings.location)
        return
    text, file = secrets.token_hex(16), settings.folder / f"{PROBE}-{uuid4()}"
    try:
        with _step(lake, "put"):
            file.write_text(text)
        with _step(lake, "get"):
            if file.read_text() != text:
                raise UsageError(f"lake `{lake}`: a file in {settings.folder} is read other than it was written", hint="what is this file system?")
        with _step(lake, "list"):
            if file.name not in os.listdir(settings.folder):  # noqa: PTH208 - the listing itself is what is tried
                raise UsageError(f"lake `{lake}`: a file that was put into {settings.folder} is not listed", hint="what is this file system?")
    finally:
        with _step(lake, "delete"):
            file.unlink(missing_ok=True)
    keep_of(settings.folder)


@contextmanager
def _step(lake: str, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"lake `{lake}`: {verb} in {error.filename} does not work: {error.strerror}",
                         hint=f"[lakes.{lake}] data_path must name a folder that the service may write, with room on its disk") from error


def _prove_store(lake: str, location: str) -> None:
    url = literal(f"{location}{PROBE}.csv")
    tried = "put"
    with opened_duckdb({}) as connection:
        try:
            connection.execute(f"COPY (SELECT 1 AS one) TO {url} (FORMAT csv)")
            tried = "get"
            connection.execute(f"FROM read_csv({url})").fetchall()
            tried = "list"
            found = connection.execute(f"SELECT count(*) FROM glob({literal(f'{location}{PROBE}*')})").fetchall()
        except duckdb.Error as error:
            raise _refused(lake, location, tried, error) from error
    if found == [(0,)]:
        raise UsageError(f"lake `{lake}`: an object that was put at {location} is not listed", hint="is listing allowed to the key?")


def _refused(lake: str, location: str, tried: str, error: duckdb.Error) -> ReactorError:
    said = f"lake `{lake}`: {tried} at {location} does not work: {masked(str(error)).splitlines()[0]}"
    if _DENIED.search(re.sub(r"\w+://\S+", "", str(error))):
        return UsageError(said, hint="do the bucket and the key's rights fit? Credentials come from the environment: AWS_ACCESS_KEY_ID, AWS_REGION …")
    return Outage(said, hint="is the store up, and reached from here?")
