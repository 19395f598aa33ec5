"""PostgreSQL, Kafka and the lake's folder go away in turn, under load, and come back (OP-11): `make outages`.

Each is away until health says so as conventions 6 have it, and for `seconds` at least. Then everything that was sent must be there once, and
no run may have failed. Without Java the small broker stands for Kafka: it keeps nothing, so it is frozen instead of killed.
"""
