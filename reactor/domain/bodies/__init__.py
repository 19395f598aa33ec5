"""The SQL of a script: its statements, what they read, and whether a managed script may hold them (MT-1, DP-4, DP-17).

Authority: a body is split by the lexer here, and each statement is known by its first words; nothing depends on whether a parser
understands all of DuckDB. Trees (sqlglot) only say what a query reads and gives. A query without a tree is a warning and makes no edges; it
never decides whether a script may run. Statements come back as they are written, so that what runs is what the author wrote: only
`ATTACH 'ducklake://…'` is taken out (it is a name, not an action).

    lexer        text → tokens → statements, with places        statements   what a statement is
    session      which table a name means                      reads        what a query reads and gives        reading   a body as a whole
"""

from reactor.domain.bodies.reading import BodyReading, read_body
from reactor.domain.bodies.reads import Shape

__all__ = ["BodyReading", "Shape", "read_body"]
