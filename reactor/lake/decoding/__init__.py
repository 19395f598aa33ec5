"""Kafka payloads into typed columns, exactly: a value enters unchanged, or its record is set aside with a reason."""
