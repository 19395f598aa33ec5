"""The table of orders for whoever writes rows of Python into DuckLake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from bench.orders import COLUMNS
from reactor.lake.extensions import extension_path
from reactor.lake.session import connection_text

DECODED = pa.schema([
    ("order_id", pa.int64()), ("customer_id", pa.int64()), ("country", pa.string()), ("product", pa.string()), ("amount", pa.float64()),
    ("weight", pa.float64()), ("paid", pa.bool_()), ("ordered_at", pa.string()),
])  # fmt: skip
"""What a JSON parser makes of an order."""


class Lake:
    """A DuckLake with its catalog in PostgreSQL and the table `orders`, in slices of a day as Reactor's."""

    def __init__(self, postgres_url: str, folder: str) -> None:
        self._connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        for name in ("ducklake", "postgres_scanner"):
            self._connection.execute(f"LOAD '{extension_path(name)}'")
        text = connection_text(postgres_url)[0].replace("'", "''")
        self._connection.execute(f"ATTACH 'ducklake:postgres:{text}' AS lake (METADATA_SCHEMA 'lake_rival', DATA_PATH '{folder}/')")
        self._connection.execute("USE lake; SET TimeZone = 'UTC'")
        self._connection.execute(f"CREATE TABLE orders ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())}, day VARCHAR)")
        self._connection.execute("ALTER TABLE orders SET PARTITIONED BY (day)")
        cells = ", ".join(f"CAST({name} AS {kind})" for name, kind in COLUMNS.items())
        self._insert = f"INSERT INTO orders SELECT {cells}, ordered_at[:10] FROM decoded"

    def commit(self, rows: Sequence[Mapping[str, object]]) -> None:
        """These rows, in one snapshot."""
        self._connection.register("decoded", pa.Table.from_pylist(rows, DECODED))
        self._connection.execute(self._insert)
        self._connection.unregister("decoded")
