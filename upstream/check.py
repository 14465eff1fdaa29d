"""Run the scripts of this folder and list the defects that are gone: ``python upstream/check.py [NAME ...]``.

Each script runs in a fork of this process, which has TVM loaded but has run none of it: a crash or a change of TVM's
state concerns that script alone. With ``--json``, the result of each is one object: name, verdict (``needed``, ``gone``,
``failed``), output and seconds.
"""

import argparse
import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT_S = 300
"""Seconds after which a script counts as failed."""

HELPERS = ("building", "textures", "torch_functions", "onnx_functions")
LOADED_BEFORE = ("numpy", "tvm", "tvm.relax", "tvm.relax.frontend.onnx", "tvm.s_tir.dlight")


def scripts() -> dict[str, Path]:
    """The scripts by the names of their repairs."""
    return {path.stem.replace("_", "-"): path for path in sorted(HERE.glob("*/*.py")) if path.stem not in HELPERS}


def load(with_torch: bool) -> None:
    """Import what the scripts share, and have PyTorch build its tables of decompositions, which takes ten seconds."""
    if with_torch:
        with contextlib.suppress(ImportError):
            import torch

            torch.set_num_threads(1)  # a fork has none of its parent's threads
            torch.export.export(torch.nn.SELU(), (torch.ones(1),)).run_decompositions()
    for module in LOADED_BEFORE:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def check(name: str, script: Path) -> dict[str, Any]:
    """Run one script in a fork."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            _run(script, output.fileno())
        _, status = os.waitpid(child, 0)
        output.seek(0)
        text = output.read()
    code = os.waitstatus_to_exitcode(status)
    verdict = {0: "gone", 1: "needed"}.get(code, "failed")
    return {"name": name, "verdict": verdict, "output": text, "seconds": round(time.monotonic() - begin, 2)}


def _run(script: Path, output: int) -> None:
    """Run a script with its output in a file; does not return."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.alarm(LIMIT_S)
    code = 2
    try:
        sys.path.insert(0, str(script.parent))
        code = int(bool(runpy.run_path(str(script))["still_needed"]()))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> int:
    """Check all scripts, or those that are named; exit code 1 if a defect is gone or a script fails."""
    known = scripts()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.names) - known.keys():
        parser.error(f"no such script: {', '.join(sorted(unknown))}")
    names = options.names or list(known)
    load(with_torch=any("torch" in known[name].read_text() for name in names))
    verdicts = set()
    for name in names:
        result = check(name, known[name])
        verdicts.add(result["verdict"])
        if options.json:
            print(json.dumps(result), flush=True)
        elif result["verdict"] != "needed":
            print(f"{result['verdict']}: {name}\n{result['output']}", flush=True)
    return int(bool(verdicts - {"needed"}))


if __name__ == "__main__":
    sys.exit(main())
