"""Reactor: Kafka and landed files become versioned DuckLake tables, exactly once, and every new version is the next event."""

__version__ = "0.1.0"
