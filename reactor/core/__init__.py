"""Decides: pure, synchronous, sans-IO. Inputs carry `now`; the answers are effects for the runtime to carry out.

One `Engine` holds, per consumer, a *lane* (its single run slot), a *debouncer* (open slices and when they are due) and, per source
partition, a *ledger* (what is believed of the position, what was read and waits). The router maps a span to the asset partitions of each
consumer. The runtime feeds spans, outcomes and ticks, one at a time, and answers each effect by exactly one later input.

    engine    inputs to effects            lanes debouncer ledger router    what it is made of
    reading   who reads what               room          how much is held, of paused lanes too
    edits     another routing takes over   examination   whether a position fits its log
    decisions why an event ran or did not  effects       what the runtime is asked, and answers
"""
