"""A SIGTERM that comes while the scheduler holds its lock blocks the run for good."""

import os
import signal
import sys
import threading
import time

from snakemake.scheduling.job_scheduler import JobScheduler

LIMIT_S = 3


def still_needed() -> bool:
    scheduler = object.__new__(JobScheduler)
    scheduler._lock, scheduler._open_jobs, scheduler._user_kill = threading.Lock(), threading.Semaphore(0), None
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, scheduler.exit_gracefully)
        with scheduler._lock:
            os.kill(os.getpid(), signal.SIGTERM)
            [None for _ in range(1000)]
        os._exit(0)
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        if os.waitpid(child, os.WNOHANG)[0]:
            print("the handler returns")
            return False
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(f"the handler has not returned after {LIMIT_S} s")
    return True


if __name__ == "__main__":
    sys.exit(still_needed())
