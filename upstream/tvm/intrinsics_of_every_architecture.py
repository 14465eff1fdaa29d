"""MetaSchedule imports the tensor intrinsics of every architecture, which takes 20 s and more."""

import ast
import importlib.util
import sys
from pathlib import Path

import tvm

PACKAGE = "tvm.s_tir.tensor_intrin"


def still_needed() -> bool:
    user = Path(importlib.util.find_spec("tvm.s_tir.meta_schedule.tune_context").origin).read_text()
    package = Path(tvm.__file__).parent / "s_tir" / "tensor_intrin" / "__init__.py"
    imported = {
        name.name
        for node in ast.walk(ast.parse(package.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for name in node.names
    }
    print(f"tune_context imports {PACKAGE}, which imports {sorted(imported)}")
    return f"import {PACKAGE}" in user and {"cuda", "rocm", "arm_cpu", "x86"} <= imported


if __name__ == "__main__":
    sys.exit(still_needed())
