"""Read what the stages left for each variant."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tvmake.artifact import stage_json
from tvmake.artifact.files import digest_file
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import read_manifest
from tvmake.benchmark.result import Latency
from tvmake.config.requests.reporting import ReportRequest, VariantRow
from tvmake.device.interface import Fingerprint
from tvmake.errors import InputError
from tvmake.plan import layout
from tvmake.tune.best import BestSet
from tvmake.tune.layouts import LayoutChoice
from tvmake.validate.result import Numerics


@dataclass(frozen=True)
class VariantResults:
    """One variant's package and figures.

    ``package`` is the package's path inside the results directory. ``numerics`` and ``latency`` are None for a target
    without a device.
    """

    variant: VariantRow
    manifest: Manifest
    package: str
    package_sha256: str
    package_bytes: int
    numerics: Numerics | None = None
    latency: Latency | None = None
    best: BestSet | None = None
    """The records it was built with; None for a variant that is not tuned."""
    layout: LayoutChoice | None = None
    """Which data layout was chosen, and why; None for a variant that did not choose."""

    @property
    def fingerprints(self) -> list[Fingerprint]:
        """The devices that figures come from; one, unless something changed between validate and benchmark."""
        found: list[Fingerprint] = []
        for measured in (self.numerics, self.latency):
            if measured is not None and measured.fingerprint not in found:
                found.append(measured.fingerprint)
        return found


def read_results(request: ReportRequest) -> list[VariantResults]:
    """Read every variant's files, in the request's order.

    Raises:
        InputError: a file is missing or damaged, or figures belong to another package than the one beside them.
    """
    return [_read(request.results, variant) for variant in request.variants]


Measured = TypeVar("Measured", Numerics, Latency)


def _read(results: str, variant: VariantRow) -> VariantResults:
    wildcards = variant.model_dump(include={"model", "precision", "target"})

    def place(artifact: layout.Artifact) -> Path:
        path = Path(layout.path(artifact, results, **wildcards))
        if not path.is_file():
            raise InputError(str(path), "no such file", "`tvmake make` makes what is missing")
        return path

    def measured(artifact: layout.Artifact, kind: type[Measured]) -> Measured:
        path = place(artifact)
        value = stage_json.load(kind, path)
        if value.package_sha256 != digest:
            raise InputError(
                str(path), f"these figures are not of {package}", f"delete {path} and run `tvmake make` again"
            )
        return value

    package, manifest = place("package"), place("manifest")
    digest = digest_file(package)
    return VariantResults(
        variant=variant,
        manifest=read_manifest(manifest.read_bytes(), str(manifest)),
        package=package.relative_to(results).as_posix(),
        package_sha256=digest,
        package_bytes=package.stat().st_size,
        numerics=measured("numerics", Numerics) if variant.device else None,
        latency=measured("latency", Latency) if variant.device else None,
        best=stage_json.load(BestSet, place("best")) if variant.is_tuned else None,
        layout=stage_json.load(LayoutChoice, place("layout")) if variant.layout == "auto" else None,
    )
