"""Managed code generation: from values of the domain to SQL text, and nothing else.

Nothing here opens a connection or reads a table; the same arguments give the same text. Names and values of users come in through `quoting`
only. Whoever executes the text (`reactor.lake`) keeps the order of the statements and the transactions.
"""
