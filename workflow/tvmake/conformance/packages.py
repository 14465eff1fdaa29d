"""Packages of the self-test's networks: imported, converted to a precision and compiled like any model's."""

from pathlib import Path
from typing import cast

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import MANIFEST, REQUIRED, pack, read_manifest
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.conformance.networks import Network
from tvmake.frontend.options import ImportOptions
from tvmake.quantize.precision import BasePrecision, PrecisionConfig
from tvmake.stages.model.import_model import import_model
from tvmake.stages.model.transform import transform_model
from tvmake.stages.package.build import build
from tvmake.transform.options import TransformRequest


def make_package(
    network: Network, precision: str, target: TargetConfig, target_name: str, directory: Path
) -> tuple[Path, Manifest]:
    """Write a network's package into an empty directory.

    Raises:
        InputError: TVM cannot generate code of this precision for the target.
        MachineError: there is no linker for it.
    """
    model = directory / "selftest.onnx"
    model.write_bytes(network.model)
    imported, detached, described, source = (
        directory / f"imported.{name}" for name in ("json", "params", "io", "source")
    )
    import_model(ImportOptions(source=str(model)), imported, detached, described, source)
    module, params, signature = (directory / f"module.{name}" for name in ("json", "params", "signature"))
    transformed = TransformRequest(precision=PrecisionConfig(base=cast(BasePrecision, precision)))
    transform_model(imported, detached, described, transformed, module, params, signature)
    request = BuildRequest(model="selftest", precision=precision, target_name=target_name, target=target)
    built = {name: directory / name for name in REQUIRED}
    lib, weights = (built[name] for name in ("mod.so", "mod.params"))
    build(module, params, signature, request, lib, built[MANIFEST], weights, directory / "sources")
    package = directory / "package.tar"
    pack(built, package)
    return package, read_manifest(built[MANIFEST].read_bytes(), str(package))
