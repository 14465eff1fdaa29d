"""The CPU of this machine as a target.

LLVM tells a processor by its family and model, and takes it to have what that model is sold with. A virtual machine may hide some
of it, as hosts do that move machines between processors: code that uses it would end with SIGILL on the next one.
"""

import platform
import re
from pathlib import Path
from typing import Any

import tvm

INFO = Path("/proc/cpuinfo")

VECTORS = re.compile(r"avx|amx|fma|f16c|bmi2|gfni|vaes|vpclmulqdq")
"""How those features of x86 begin that code uses without a word from its author."""


def native_cpu() -> str:
    """This machine's CPU, in LLVM's words (``cascadelake``)."""
    return str(tvm.target.codegen.llvm_get_system_cpu())


def native_attributes() -> dict[str, Any]:
    """A target's attributes for code of this machine: ``mcpu``, and ``mattr`` where it lacks something of that model."""
    cpu = native_cpu()
    hidden = hidden_features(cpu, INFO.read_text()) if INFO.is_file() and platform.machine() == "x86_64" else []
    return {"mcpu": cpu, **({"mattr": [f"-{feature}" for feature in hidden]} if hidden else {})}


def hidden_features(cpu: str, info: str) -> list[str]:
    """Vector instructions that a model of x86 has and this machine does not.

    Args:
        cpu: the model, in LLVM's words.
        info: what Linux tells of its processors; without flags nothing is taken to be hidden.
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
