"""An unpacked package from a build, without an export."""

from pathlib import Path

from tvmake.config.requests.building import BuildRequest
from tvmake.stages.package.build import build
from tvmake.stages.package.weights import weights_writer
from tvmake.storage.files import copy_file


def build_unpacked(
    module: Path, params: Path, signature: Path, request: BuildRequest, directory: Path, best: Path | None = None
) -> Path:
    """Build into a directory, and write the mod.params that the export would put into the package."""
    directory.mkdir(exist_ok=True)
    outputs = [directory / name for name in ("mod.so", "mod.json", "packing.json", "sources")]
    build(module, params, signature, request, *outputs, best)
    write = weights_writer(directory / "packing.json", params)
    if write is None:
        copy_file(params, directory / "mod.params")
    else:
        with (directory / "mod.params").open("wb") as file:
            write(file)
    return directory
