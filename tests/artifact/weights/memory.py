"""Peak memory of code that runs in a process of its own."""

import subprocess
import sys

MB = 1 << 20

MEASURE = """
import ctypes
ctypes.CDLL(None).mallopt(-3, 1 << 17)

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
{setup}
before = peak()
{work}
print("grown by", peak() - before)
"""


def growth_mb(setup: str, work: str) -> float:
    """How much the peak memory of a process grows during ``work``, in MiB, after ``setup``."""
    script = MEASURE.format(setup=setup, work=work)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout.rsplit("grown by", 1)[1]) / 1024
