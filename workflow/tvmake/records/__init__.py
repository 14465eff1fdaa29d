"""The tuning records: an append-only store of all measured candidates, which outlives results and failed jobs.

Loads no TVM. A record's trace is stored as MetaSchedule's JSON and is not interpreted.
"""
