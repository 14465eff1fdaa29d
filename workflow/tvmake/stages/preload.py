"""Modules that a run's fork servers load, and the server of each stage's command, from the stages' descriptions."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tvmake.frontend.formats import FRONTENDS, TORCH_FRONTEND
from tvmake.process.forkserver.client import DIRECTORY
from tvmake.process.forkserver.pool import warm_servers
from tvmake.process.forkserver.preload import Preload
from tvmake.stages import SERVERS_FILE
from tvmake.stages.registry import stages


def _modules(server: str) -> tuple[str, ...]:
    """Modules that several steps need, and none that only one step needs."""
    modules = (module for stage in stages().values() if stage.server == server for module in stage.preload)
    return ("tvmake.cli.app", *dict.fromkeys(modules))


PRELOADS: Mapping[str, Preload] = {
    "compiler": Preload(_modules("compiler")),
    # Both torch and TVM look for a GPU when they load; by default that makes CUDA unusable in forks.
    "torch": Preload(("torch", "tvmake.cli.app", *TORCH_FRONTEND), {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}),
    "tuner": Preload(_modules("tuner")),
    "runtime": Preload(
        (
            "tvmake.device.local.worker",
            "tvmake.tune.measure.workers.forkserver",
            "tvmake.tune.measure.workers.run_worker",
        ),
        {"TVM_USE_RUNTIME_LIB": "1"},
    ),
}
"""Preloaded modules by kind of server."""


@contextmanager
def warm_steps() -> Iterator[None]:
    """Fork the steps started inside this block from servers that have loaded their stage's modules."""
    with warm_servers(PRELOADS):
        if directory := os.environ.get(DIRECTORY):
            write_servers(Path(directory))
        yield


def write_servers(directory: Path) -> None:
    """Write the server of each stage that does not use the default one. Commands read this without loading any stage."""
    formats = {name: "torch" if modules == TORCH_FRONTEND else "compiler" for name, modules in FRONTENDS.items()}
    special = {stage.name: stage.server for stage in stages().values() if stage.server != "compiler"}
    servers = {name: formats if server == "model" else server for name, server in special.items()}
    (directory / SERVERS_FILE).write_text(json.dumps(servers))
