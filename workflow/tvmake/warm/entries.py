"""What warm servers load beforehand, and what they may be asked to run."""

import importlib

PRELOADED = {
    "compiler": ("tvmake.cli.app", "tvmake.stages.transform", "tvmake.stages.build", "tvmake.validate.numerics"),
    # torch comes first: it and TVM share libraries, and TVM registers torch's dtypes when it finds it.
    "torch": ("torch", "tvmake.cli.app", "tvmake.frontend.torch_source", "tvmake.frontend.torch_export"),
    "tuner": ("tvmake.cli.app", "tvmake.warm.tuning", "tvmake.stages.pick_best"),
    "runtime": ("tvmake.device.worker", "tvmake.tune.measuring.template", "tvmake.tune.measuring.run_worker"),
}
"""Modules by kind of server. What only one step of a run needs is left to that step."""

ENVIRONMENT = {
    "compiler": {},
    # Both torch and TVM look for a GPU as they load; by default that leaves CUDA unusable in forks.
    "torch": {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
    "tuner": {},
    "runtime": {"TVM_USE_RUNTIME_LIB": "1"},
}
"""Variables that decide how those modules load."""

ENTRIES = {
    "step": "tvmake.cli:run",
    "worker": "tvmake.device.worker:main",
    "accelerator": "tvmake.device.accelerator:main",
    "kernel": "tvmake.tune.run_kernel:main",
    "template": "tvmake.tune.measuring.template:main",
}
"""Functions that take arguments and return an exit code."""


def run(entry: str, arguments: list[str]) -> int:
    """Run an entry in this process."""
    module, _, function = ENTRIES[entry].partition(":")
    return getattr(importlib.import_module(module), function)(arguments)
