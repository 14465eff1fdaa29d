"""The zoo's networks through the pipeline's own stages; what is slow and used by every case is kept between runs.

Networks have drawn weights and small images, so that an emulated processor computes one within a second: all layers,
kernels and weights are those of the networks at their usual size, only the planes are smaller.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from tvmake.config.requests.building import BuildRequest, ExportRequest
from tvmake.config.requests.referencing import ReferenceRequest
from tvmake.config.target import TargetConfig
from tvmake.frontend.options import ImportOptions
from tvmake.quantize.precision import PrecisionConfig
from tvmake.stages.model.import_model import import_model
from tvmake.stages.model.reference import reference
from tvmake.stages.model.transform import transform_model
from tvmake.stages.package.build import build
from tvmake.stages.package.export import export
from tvmake.storage.code_fingerprint import fingerprint
from tvmake.storage.files import atomic_directory, canonical_json, digest_bytes
from tvmake.transform.options import TransformRequest

SAMPLES = 2
"""The least that tells whether the outputs react to the inputs."""


@dataclass(frozen=True)
class Network:
    """A network of the zoo for images of ``size`` × ``size`` pixels."""

    name: str
    size: int

    @property
    def options(self) -> ImportOptions:
        return ImportOptions(source=f"zoo:{self.name}", arguments={"size": self.size})

    def imported(self) -> Path:
        """A directory with what the import and reference stages write."""

        def write(directory: Path) -> None:
            names = ("model.json", "model.params", "signature.json", "source.json")
            import_model(self.options, *(directory / name for name in names))
            asked = ReferenceRequest(model=self.options, samples=SAMPLES)
            reference(directory / "signature.json", directory / "source.json", asked, directory / "reference.npz")

        return _kept({"network": self.options.model_dump(), "samples": SAMPLES}, ("import_model", "reference"), write)

    def transformed(self, precision: str) -> Path:
        """A directory with what the transform stage writes."""
        imported = self.imported()
        request = TransformRequest(precision=PrecisionConfig(base=precision))

        def write(directory: Path) -> None:
            read = (imported / name for name in ("model.json", "model.params", "signature.json"))
            transform_model(
                *read, request, *(directory / name for name in ("module.json", "module.params", "bound.json"))
            )

        return _kept({"from": imported.name, "request": request.model_dump()}, ("transform",), write)

    def package(self, precision: str, target: TargetConfig, directory: Path) -> Path:
        """Build and export into a directory; returns package.tar, beside which its files lie."""
        transformed = self.transformed(precision)
        read = [transformed / name for name in ("module.json", "module.params", "bound.json")]
        request = BuildRequest(model=self.name, precision=precision, target_name=directory.name, target=target)
        written = [directory / name for name in ("mod.so", "mod.json", "packing.json")]
        build(*read, request, *written, directory / "sources")
        export(*written, read[1], ExportRequest(), directory / "package.tar")
        return directory / "package.tar"


def _kept(options: object, stages: tuple[str, ...], write: Callable[[Path], None]) -> Path:
    """A directory in the user's cache, named by everything that can change its bytes and written the first time."""
    code = fingerprint(*(f"tvmake.stages.model.{stage}" for stage in stages))
    key = digest_bytes(canonical_json({"options": json.loads(json.dumps(options)), "code": code}).encode())
    directory = user_cache_path("tvmake") / "tests" / key
    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(directory.with_suffix(".lock")):
        if not directory.is_dir():
            with atomic_directory(directory) as fresh:
                write(fresh)
    return directory
