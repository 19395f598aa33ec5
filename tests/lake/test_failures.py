"""What the exceptions of DuckDB mean."""

import duckdb
import pytest

from reactor.errors import Conflict, Outage, ReactorError, RunBlocked, RunFailed
from reactor.lake.failures import broken, classified, masked

CASES: list[tuple[duckdb.Error, type[ReactorError], str]] = [
    (duckdb.TransactionException("TransactionContext Error: Failed to commit: …: ERROR:  reactor RF001: position"), Conflict, "another writer"),
    (duckdb.TransactionException("Transaction conflict - attempting to insert into table with index \"3\""), Conflict, "another writer"),
    (duckdb.TransactionException("Failed to commit: Failed to execute query \"ROLLBACK\": "), Outage, "no connection"),
    (duckdb.IOException("IO Error: Unable to connect to Postgres at \"postgresql://u:pw@h/d\": FATAL"), Outage, "no connection"),
    (duckdb.IOException("IO Error: Could not write file \"/x\": No space left on device"), Outage, "the disk is full"),
    (duckdb.IOException("IO Error: Cannot open file \"/x\": Read-only file system"), Outage, "cannot be written"),
    (duckdb.OutOfMemoryException("failed to offload: This limit was set by the 'max_temp_directory_size' setting"), Outage, "temporary files"),
    (duckdb.OutOfMemoryException("Out of Memory Error: could not allocate block"), RunFailed, "OutOfMemory"),
    (duckdb.HTTPException("HTTP Error: 503"), Outage, "no connection"),
    (duckdb.FatalException("database has been invalidated because of a previous fatal error"), Outage, "no connection"),
    (duckdb.InternalException("INTERNAL Error: Unsupported type"), RunFailed, "Internal"),
    (duckdb.BinderException("Binder Error: Referenced column \"x\" not found"), RunBlocked, "not found"),
    (duckdb.CatalogException("Catalog Error: Table with name t does not exist!"), RunBlocked, "does not exist"),
    (duckdb.ParserException("Parser Error: syntax error"), RunBlocked, "syntax error"),
    (duckdb.ConversionException("Conversion Error: Could not convert string 'a' to INT32\n\nLINE 1: SELECT 'connection to server'"), RunFailed, "Conv"),
    (duckdb.InvalidInputException("Invalid Input Error: x"), RunFailed, "InvalidInput"),
    (duckdb.IOException("IO Error: No files found that match the pattern"), RunFailed, "IO"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "kind", "words"), CASES)
def test_classes(error: duckdb.Error, kind: type[ReactorError], words: str) -> None:
    ours = classified(error, "writing")
    assert type(ours) is kind
    assert ours.args[0].startswith("writing: ")
    assert words in ours.args[0]
    assert "pw" not in str(ours)


def test_after_which_errors_the_instance_is_gone() -> None:
    assert broken(duckdb.InternalException("x"))
    assert broken(duckdb.FatalException("x"))
    assert not broken(duckdb.BinderException("x"))


@pytest.mark.parametrize("text", ["postgresql://u:secret@h/d", "host=h password=secret user=u", "PASSWORD='secret' x"])
def test_passwords_are_masked(text: str) -> None:
    assert "secret" not in masked(text)
    assert "***" in masked(text)
