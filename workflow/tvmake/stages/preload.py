"""What the fork servers of a run load, and which of them a stage's command is forked from; both follow from the stages."""

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
    """What several steps need, and nothing that only one step needs."""
    named = (module for stage in stages().values() if stage.server == server for module in stage.preload)
    return ("tvmake.cli.app", *dict.fromkeys(named))


PRELOADS: Mapping[str, Preload] = {
    "compiler": Preload(_modules("compiler")),
    # Both torch and TVM look for a GPU as they load; by default that leaves CUDA unusable in forks.
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
"""By kind of server."""


@contextmanager
def warm_steps() -> Iterator[None]:
    """Let the steps started inside this block be forked from servers that have loaded what their stage needs."""
    with warm_servers(PRELOADS):
        if directory := os.environ.get(DIRECTORY):
            write_servers(Path(directory))
        yield


def write_servers(directory: Path) -> None:
    """Write the kind of server of each stage that has not the usual one, for the commands, which load no stage to tell."""
    formats = {name: "torch" if modules == TORCH_FRONTEND else "compiler" for name, modules in FRONTENDS.items()}
    special = {stage.name: stage.server for stage in stages().values() if stage.server != "compiler"}
    servers = {name: formats if server == "model" else server for name, server in special.items()}
    (directory / SERVERS_FILE).write_text(json.dumps(servers))
