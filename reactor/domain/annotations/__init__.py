"""The header grammar: from the leading comment lines of a file to a `Header`, with a finding for every line that does not hold.

Authority: this package alone says what an annotation is; nobody else looks at comment lines. A keyword is one class (`Keyword`): it parses
its line, fills in the project's names, and compiles the value into the header; what the value *does* is executed elsewhere, by whoever reads
the header. `KEYWORDS` is the table of them; a caller may read with more (`read_header(…, keywords=…)`).

A line takes one way: comment line → invisible characters → keyword, old word, misspelt keyword, or prose → words → value → names → header.
A line with an error is treated as not written; if its keyword decides what is written or when, or the mistake says so (`refuses`), the
script is not loaded. Nothing is guessed: a suggestion is shown, never used. Several mistakes of a line are all told, each once, at its column.

    scan       comment lines, words, lists           line      one line while it is read, with the place of every part
    values     durations, dates, paths, zones        cron      five fields             types     DuckDB's type names
    inputs timing slices tables promises links retired         the keywords            reader    the header as a whole

What needs more than one line (an annotation beside another, or beside the body) is in `reactor.domain.rules`.
"""

from reactor.domain.annotations.keyword import Annotation, Keyword
from reactor.domain.annotations.line import Line
from reactor.domain.annotations.reader import KEYWORDS, HeaderReading, read_header
from reactor.domain.annotations.scan import Word
from reactor.domain.annotations.types import read_type

__all__ = ["KEYWORDS", "Annotation", "HeaderReading", "Keyword", "Line", "Word", "read_header", "read_type"]
