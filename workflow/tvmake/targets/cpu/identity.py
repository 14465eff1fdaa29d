"""Identify this machine's CPU; code compiled for ``native`` depends on it."""

import hashlib
import platform
from functools import cache
from pathlib import Path


@cache
def cpu_identity() -> str:
    """CPU model and a digest of its feature flags. Machines with the same identity compile the same code."""
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return f"{platform.machine()} {platform.processor()}".strip()
    fields: dict[str, str] = {}
    for line in info.read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = fields.get("flags") or fields.get("Features") or ""
    model = fields.get("model name") or fields.get("CPU part") or platform.machine()
    return f"{model} {hashlib.sha256(' '.join(sorted(flags.split())).encode()).hexdigest()[:16]}"
