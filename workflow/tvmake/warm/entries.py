"""What warm servers load beforehand, and what they may be asked to run."""

import importlib

PRELOADED = {
    "compiler": ("tvmake.cli.app", "tvmake.stages.transform", "tvmake.stages.build", "tvmake.validate.numerics"),
    # torch comes first: it and TVM share libraries, and TVM registers torch's dtypes when it finds it.
    "torch": ("torch", "tvmake.cli.app", "tvmake.frontend.torch_source", "tvmake.frontend.torch_export"),
    "tuner": ("tvmake.cli.app", "tvmake.stages.tune", "tvmake.stages.pick_best"),
    "runtime": ("tvmake.device.worker",),
}
"""Modules by kind of server. What only one step of a run needs is left to that step."""

ENVIRONMENT = {"compiler": {}, "torch": {}, "tuner": {}, "runtime": {"TVM_USE_RUNTIME_LIB": "1"}}
"""Variables that decide how those modules load."""

ENTRIES = {"step": "tvmake.cli:run", "worker": "tvmake.device.worker:main", "kernel": "tvmake.tune.run_kernel:main"}
"""Functions that take arguments and return an exit code."""


def run(entry: str, arguments: list[str]) -> int:
    """Run an entry in this process."""
    module, _, function = ENTRIES[entry].partition(":")
    return getattr(importlib.import_module(module), function)(arguments)
