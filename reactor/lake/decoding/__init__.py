"""Payloads and event times, exactly and in columns.

Authority. The bytes of a record decide, with the rules below, and nothing else: not its neighbours, not the zone or the locale of the
machine, not a parser's liberties. A value enters its column unchanged or the record is set aside with one reason; never a silent NULL, wrap
or rounding. The exceptions: text that is exactly one JSON number is that number; DOUBLE and FLOAT take the nearest value they have; digits
beyond a DECIMAL's scale are rounded half away from zero, as written; times are cut to what their type counts, towards the past.

How. `grammar` is RFC 8259 and UTF-8 as one table. `scanner` walks each payload through it once, in compiled code, and notes where the
wanted members of its top object stand (by their names after escapes; exact, so `A` is not `a`): tokens, ranges of bytes that nobody has converted
yet. What is between two values is mostly what was there in the record before, and is not read again then. `tokens` has them in columns, and opens
what a path or a nested type leads into. `columns` makes one Arrow array of each column, and sees whether what 64 bits hold fits its type;
`payload` hands them to DuckDB, which casts those as they are, and the texts of longer numbers. `event_time` reads paths, headers and keys with
the same parts, and `instants` reads every time, so a column and an event time of one field agree; of a large span it has scanned, the declared
columns are read in the same go and `kept` for the run, which then reads nothing. DuckDB's own JSON reader is not used: it rounds numbers through a
double, takes `NaN` and a comma too many, loses how a number was written and does not tell that a member occurs twice; to notice all that costs
more than the whole scan. Nothing happens per record in Python but for what is rare: numbers with an exponent in exact columns, and whether a
payload that is no JSON is UTF-8 at all.

Rules by declared type, the same inside STRUCT, LIST and MAP (`null` and a missing member are NULL everywhere, other members are ignored):

    integers          numbers without a fraction, however written (1.0, 1e3); beyond the type: out_of_range
    DECIMAL           numbers; rounded to the scale; out_of_range where the rounded integer part does not fit
    DOUBLE, FLOAT     numbers; out_of_range where the nearest value would be infinite
    BOOLEAN           true and false only
    VARCHAR           a string as it spells, any other value as its JSON text
    JSON              the JSON text as it came, blanks, digits and escapes too
    UUID              a string of 8-4-4-4-12 hexadecimal digits
    TIMESTAMP (_NS)   an instant, UTC (`instants`) of the years 1 to 9999 (_NS: 1677 to 2262)
    TIMESTAMPTZ       the same
    TIMESTAMP_S, _MS  an instant without a finer part
    DATE              an instant that begins a UTC day; so also `2026-03-01` alone
    TIME              a string hh:mm, hh:mm:ss or with a fraction, without zone
    STRUCT            an object, its fields by exact name
    LIST              an array
    MAP(VARCHAR, …)   an object
    all others        refused when the script is checked (`types.decodable`), with what to declare instead

Reasons, the gravest first; the record has the first one, and of one reason the first declared column that gives it: `empty_value` `not_utf8`
`not_json` `nesting_too_deep` `not_object` `duplicate_key` `wrong_type` `out_of_range`. A leading BOM is ignored. A member that occurs twice
matters only where it feeds a column, an event time or a key, and inside a MAP.

Without declared columns the payload itself is the column `value` (JSON), any JSON text, checked as strictly. The format `raw` needs none of
this: its `value` is the BLOB that came.

Failure. Bad records never raise. `ValueError`: a type that `check` would have refused. `duckdb.Error` passes through; nothing stays
registered then. Compiled code proves its bounds: the property tests pass with `NUMBA_BOUNDSCHECK=1`, which
sees all but the reads and copies of `reactor.loads`; nesting costs no stack.

Cost, as processor time of one busy core, 184 bytes and 8 typed columns a record: 0.6 microseconds to read, 0.1 to cast where a plain SELECT
reads them, 0.3 more where they are copied into a table; of a large span 0.3 beside the split, and less than 0.1 in the run. With one bad record in a
hundred 15 % more. DuckDB's reader alone, inexact and blind to doubles, takes 0.7.
Compiling takes some seconds once per machine (`reactor.compiled`).
"""
