"""The CPU of this machine as a target.

LLVM identifies a processor by family and model, and assumes all features of that model. A virtual machine may hide some
features, so that it can move between hosts. Code that uses a hidden feature would end with SIGILL on another host.
"""

import platform
import re
from pathlib import Path
from typing import Any

import tvm

INFO = Path("/proc/cpuinfo")

VECTORS = re.compile(r"avx|amx|fma|f16c|bmi2|gfni|vaes|vpclmulqdq")
"""Name prefixes of the x86 vector features that compilers use automatically."""


def native_cpu() -> str:
    """LLVM's name of this machine's CPU (``cascadelake``)."""
    return str(tvm.target.codegen.llvm_get_system_cpu())


def native_attributes() -> dict[str, Any]:
    """Target attributes for this machine's code: ``mcpu``, and ``mattr`` if it lacks features of that model."""
    cpu = native_cpu()
    hidden = hidden_features(cpu, INFO.read_text()) if INFO.is_file() and platform.machine() == "x86_64" else []
    return {"mcpu": cpu, **({"mattr": [f"-{feature}" for feature in hidden]} if hidden else {})}


def hidden_features(cpu: str, info: str) -> list[str]:
    """Vector instructions that an x86 model has and this machine lacks.

    Args:
        info: contents of /proc/cpuinfo; without flags, nothing counts as hidden.
    """
    flags = re.search(r"^flags\s*:(.*)$", info, re.MULTILINE)
    if flags is None:
        return []
    present = {_plain(flag) for flag in flags[1].split()}
    model = tvm.target.codegen.llvm_get_cpu_features(tvm.target.Target({"kind": "llvm", "mcpu": cpu}))
    named = sorted(str(feature) for feature in model)
    return [name for name in named if VECTORS.match(name) and _plain(name) not in present]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]", "", name)
