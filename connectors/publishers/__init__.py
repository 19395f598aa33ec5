"""Those outside who are told of commits: each implements `ports.Publisher`.

A publisher owns a connection and nothing else. Which events go out, in which order, and how far they have is a position in PostgreSQL; a
lease lets one replica publish at a time. `publish` returns when everything it was given is acknowledged; if it raises, nobody knows what
arrived, and the caller gives the same events again (equal source and id: receivers drop repeats). First appearances are in order.

`kafka`: a topic, CloudEvents in binary mode (`cloudevents`), one transaction a call, so that the broker fences a replica that slept.
"""
