"""Decides: pure, synchronous, sans-IO. Inputs carry `now`; the answers are effects for the runtime to carry out.

One `Engine` holds, per consumer, a *lane* (its single run slot), a *debouncer* (open slices and when they are due) and, per source
partition, a *ledger* (what is believed of the position, what was read and waits). The router maps a span to the asset partitions of each
consumer. The runtime feeds spans, outcomes and ticks, one at a time, and answers each effect by exactly one later input.
"""
