"""What a replica answers over HTTP: health and metrics, on a port of their own that no Ingress leads to.

*Authority.* None: `reactor.runtime.health` decides from what was seen, and here it is looked and answered. *Bounds.* PostgreSQL is asked at most once
a second, however many probes come, and for two seconds at most. *Failure.* The server belongs to the process's event loop: one that hangs
does not answer, which is what `/livez` is for. It starts first and stops last, so a start that waits and a drain can be watched.
"""
