"""Well-known image networks, for demonstrations, benchmarks and tests."""
