"""What was measured of every candidate, kept for good: an append-only store that outlives results and failed jobs.

TVM-free: a record's trace is kept as MetaSchedule's JSON and not looked into.
"""
