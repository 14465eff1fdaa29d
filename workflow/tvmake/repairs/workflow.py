"""Defects of Snakemake. The change that was proposed for each is in ``engine/patches``."""

from tvmake.repairs.repair import Repair

WORKFLOW = (
    Repair(
        name="sigterm-lock",
        project="snakemake",
        layer="workflow",
        defect="``JobScheduler.exit_gracefully`` takes the scheduler's lock, which is not reentrant. If the interrupted "
        "thread holds the lock, the handler waits for itself.",
        effect="A SIGTERM that comes while jobs are chosen or finished blocks the run for good.",
        releases=">=9.27,<10",
    ),
    Repair(
        name="log-queue",
        project="snakemake",
        layer="workflow",
        defect="Log records go through ``queue.Queue``, whose ``put`` takes a lock in Python. An exception that a signal "
        "raises there leaves the lock taken.",
        effect="A Ctrl-C while a record is queued blocks the run for good.",
        releases=">=9.27,<10",
    ),
)
