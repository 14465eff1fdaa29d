"""Build packages with a given checkout of tvmake, each in its own process; used by other scripts.

A build goes through the stages that ``tvmake make`` runs: import, transform and build. It is kept under a digest of what is built
and of the checkout's sources, so that only an edit of those builds it again.
"""

import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from comparing import ROOT, environment

LIMIT_S = 3600
MOST_LETTERS = 300
"""Of a failure's reason."""
BUILD_FILE = "build.json"
"""What was built, and the processor seconds that it took."""
FAILURE_FILE = "failure.txt"
"""Why a package was not built, in one line."""
NATIVE: Mapping[str, Any] = {"kind": "llvm", "mcpu": "native"}


class BuildFailure(Exception):
    """A process that built or exported a network failed; the message is its last line."""


@dataclass(frozen=True)
class Build:
    """A package to build."""

    source: str
    """A file or ``zoo:NAME``, or ``module:function`` with ``arguments``."""
    target: Mapping[str, Any] = field(default_factory=lambda: NATIVE)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Fixed shapes of inputs that the source leaves dynamic."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Further options of inputs, as a config has them."""
    dims: Mapping[str, Any] = field(default_factory=dict)
    """Bounds of dimensions that stay dynamic, as a config has them."""
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkout:
    """A checkout of tvmake that builds packages."""

    root: Path = ROOT
    libraries: Path | None = None
    """A directory with further Python packages."""

    def environment(self, **extra: str) -> dict[str, str]:
        """The environment in which Python imports this checkout's package."""
        paths = [self.root / "workflow", self.root / "benchmarks", *([self.libraries] if self.libraries else [])]
        return environment(
            PYTHONPATH=os.pathsep.join(str(path.resolve()) for path in paths), PYTHONHASHSEED="0", **extra
        )

    @property
    def digest(self) -> str:
        """A digest of the package's sources."""
        return _digest_files(self.root / "workflow" / "tvmake")

    def build(self, wanted: Build, kept: Path) -> Path:
        """The directory of a package, with mod.so, mod.json, mod.params and :data:`BUILD_FILE`.

        Raises:
            BuildFailure: it cannot be built.
        """
        (result,) = self.build_all([wanted], kept)
        if isinstance(result, BuildFailure):
            raise result
        return result

    def build_all(self, wanted: Sequence[Build], kept: Path) -> list[Path | BuildFailure]:
        """As :meth:`build`, of several packages in one process, which imports a source once for all of its targets."""
        results: list[Path | BuildFailure] = [kept / "packages" / self._key(build) for build in wanted]
        missing = [number for number, path in enumerate(results) if isinstance(path, Path) and not path.is_dir()]
        if missing:
            with tempfile.TemporaryDirectory(dir=_make(kept / "packages")) as temporary:
                directories = {number: _make(Path(temporary) / str(number)) for number in missing}
                job = [(asdict(wanted[number]), str(directory)) for number, directory in directories.items()]
                failure = BuildFailure("not reached")
                try:
                    run_python([str(self.root / "benchmarks" / "building.py"), json.dumps(job)], self.environment())
                except BuildFailure as error:
                    failure = error
                for number, directory in directories.items():
                    if (directory / BUILD_FILE).is_file():
                        _keep(directory, Path(str(results[number])))
                    else:
                        reason = directory / FAILURE_FILE
                        results[number] = BuildFailure(reason.read_text()) if reason.is_file() else failure
        return results

    def _key(self, wanted: Build) -> str:
        file = Path(wanted.source)
        source = _digest_files(file) if file.is_file() else wanted.source
        options = {name: value for name, value in asdict(wanted).items() if value}
        return _digest(json.dumps({**options, "source": source, "checkout": self.digest}, sort_keys=True))

    def seconds(self, package: Path) -> float:
        """The processor seconds, from import to code, that a package took."""
        return float(json.loads((package / BUILD_FILE).read_text())["processor_s"])


def export_file(name: str, checkout: Checkout, kept: Path) -> Path:
    """The ONNX file of a network of benchmarks/dynamic_networks.py.

    Raises:
        BuildFailure: it cannot be exported.
    """
    scripts = [Path(__file__).with_name(name) for name in ("dynamic_networks.py", "dynamic_modules.py")]
    destination = kept / "networks" / f"{name}-{_digest(' '.join(map(_digest_files, scripts)))}.onnx"
    if not destination.is_file():
        with tempfile.TemporaryDirectory(dir=_make(kept / "networks")) as temporary:
            exported = Path(temporary) / destination.name
            run_python([str(scripts[0]), name, str(exported)], checkout.environment())
            exported.rename(destination)
    return destination


def run_python(command: Sequence[str], env: Mapping[str, str]) -> str:
    """What a Python program prints.

    Raises:
        BuildFailure: it fails, or takes longer than :data:`LIMIT_S`.
    """
    try:
        done = subprocess.run(
            [sys.executable, *command], env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        raise BuildFailure(f"more than {LIMIT_S} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with {done.returncode}, without a message"]
        raise BuildFailure(lines[-1][:MOST_LETTERS])
    return done.stdout


def build(job: Sequence[tuple[Mapping[str, Any], str]]) -> None:
    """Build packages in this process, each to its directory, with the checkout of tvmake that Python imports."""
    from tvmake.process.tvm_import import hide_torch_from_tvm

    builds = [(Build(**wanted), Path(directory)) for wanted, directory in job]
    if all(Path(wanted.source).is_file() for wanted, _ in builds):
        hide_torch_from_tvm()
    else:
        import torch  # noqa: F401  # before TVM
    import tvm  # noqa: F401  # loading it is not a part of a build

    with tempfile.TemporaryDirectory() as temporary:
        networks: dict[str, tuple[list[Path], float]] = {}
        for wanted, directory in builds:
            try:
                network = json.dumps({**asdict(wanted), "target": None})
                if network not in networks:
                    networks[network] = import_network(wanted, _make(Path(temporary) / str(len(networks))))
                module, seconds = networks[network]
                seconds += build_network(wanted, module, directory)
            except Exception as error:  # noqa: BLE001  # the process that waits for this one wants one line
                lines = str(error).strip().splitlines() or [""]
                checks = [line.strip() for line in lines if "Check failed" in line]  # TVM puts its stack around it
                (directory / FAILURE_FILE).write_text(f"{type(error).__name__}: {(checks or lines)[0][:MOST_LETTERS]}")
                continue
            described = {
                **asdict(wanted),
                "processor_s": round(seconds, 2),
                "built": time.strftime("%Y-%m-%d %H:%M:%S"),
            }
            (directory / BUILD_FILE).write_text(json.dumps(described))


def import_network(wanted: Build, directory: Path) -> tuple[list[Path], float]:
    """Import and transform a network; the files of its module, parameters and signature, and the processor seconds."""
    from tvmake.frontend.options import ImportOptions, InputSpec
    from tvmake.stages.model.import_model import import_model
    from tvmake.stages.model.transform import transform_model
    from tvmake.transform.options import TransformRequest

    inputs = {name: InputSpec(shape=list(shape)) for name, shape in wanted.shapes.items()}
    inputs |= {name: InputSpec(**options) for name, options in wanted.inputs.items()}
    options = ImportOptions(source=wanted.source, inputs=inputs, arguments=dict(wanted.arguments), trusted=True)
    imported = [directory / name for name in ("model.json", "model.params", "signature.json")]
    transformed = [directory / name for name in ("module.json", "module.params", "bound.json")]
    began = processor_seconds()
    import_model(options, *imported, directory / "source.json")
    transform_model(*imported, TransformRequest(dims=dict(wanted.dims)), *transformed)
    return transformed, processor_seconds() - began


def build_network(wanted: Build, module: Sequence[Path], directory: Path) -> float:
    """Build a package of a transformed network; the processor seconds that it took."""
    from tvmake.config.requests.building import BuildRequest
    from tvmake.config.target import TargetConfig
    from tvmake.stages.package import build as stage
    from tvmake.stages.package.weights import weights_writer

    request = BuildRequest(
        model="network", precision="float32", target_name="cpu", target=TargetConfig(**wanted.target)
    )
    began = processor_seconds()
    with tempfile.TemporaryDirectory() as sources:
        packing = Path(sources) / "packing.json"
        stage.build(*module, request, directory / "mod.so", directory / "mod.json", packing, Path(sources) / "sources")
        if (write := weights_writer(packing, module[1])) is None:
            shutil.copyfile(module[1], directory / "mod.params")
        else:
            with (directory / "mod.params").open("wb") as file:
                write(file)
    return processor_seconds() - began


def processor_seconds() -> float:
    """Processor seconds so far of this process and of the children that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@cache
def _digest_files(path: Path) -> str:
    """A digest of a file, or of the Python files and data below a directory; empty if there is neither."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    names = [(str(file.relative_to(path)), file) for file in files if file.suffix != ".pyc"]
    return _digest("".join(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n" for name, file in names))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _make(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _keep(made: Path, destination: Path) -> None:
    """Move a result to where it is kept, unless another process was faster."""
    try:
        made.rename(destination)
    except OSError:
        shutil.rmtree(made)


if __name__ == "__main__":
    build(json.loads(sys.argv[1]))
