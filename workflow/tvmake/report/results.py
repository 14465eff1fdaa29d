"""Read the stages' outputs for each variant."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tvmake.artifact import stage_json
from tvmake.artifact.calibration import Calibration
from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.operator_errors import OperatorErrors
from tvmake.artifact.package import read_manifest
from tvmake.artifact.source import SourceRecord
from tvmake.benchmark.precision_choice import PrecisionChoice
from tvmake.benchmark.result import Latency
from tvmake.config.requests.reporting import PackageEntry, ReportRequest, VariantRow
from tvmake.errors import InputError
from tvmake.records.best import BestSet
from tvmake.storage.files import digest_file
from tvmake.tune.layouts import LayoutChoice
from tvmake.validate.result import Numerics

PathOf = Callable[[str, VariantRow | PackageEntry], str]
"""The path of an artifact of a variant, or of a package with several functions, by the artifact's name."""


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
    calibration: Calibration | None = None
    """The source of its 8-bit ranges; None for a variant without them."""
    layout: LayoutChoice | None = None
    """Which data layout was chosen, and why; None for a variant that did not choose."""

    operators: OperatorErrors | None = None
    """The noise of each operator; None for a variant whose operators were not compared."""

    slow: tuple[str, ...] = ()
    """What is slow because of the form of the source, each with its remedy."""

    precision: PrecisionChoice | None = None
    """Which layers have which precision, and why; None for a variant that did not choose."""

    @property
    def fingerprints(self) -> list[Fingerprint]:
        """The devices that figures come from; one, unless something changed between validate and benchmark."""
        fingerprints: list[Fingerprint] = []
        for measured in (self.numerics, self.latency):
            if measured is not None and measured.fingerprint not in fingerprints:
                fingerprints.append(measured.fingerprint)
        return fingerprints


def read_results(request: ReportRequest, path_of: PathOf) -> list[VariantResults]:
    """Read every variant's files, in the request's order.

    Args:
        request: the results directory and the variants.
        path_of: returns the path of a variant's artifact.

    Raises:
        InputError: a file is missing or damaged, or figures belong to another package than the one beside them.
    """
    return [_read(request.results, variant, path_of) for variant in request.variants]


Measured = TypeVar("Measured", Numerics, Latency)


def _read(results: str, variant: VariantRow, path_of: PathOf) -> VariantResults:
    def path_to(artifact: str) -> Path:
        path = Path(path_of(artifact, variant))
        if not path.is_file():
            raise InputError(str(path), "no such file", "`tvmake make` builds missing files")
        return path

    def measured(artifact: str, kind: type[Measured]) -> Measured:
        path = path_to(artifact)
        value = stage_json.load(kind, path)
        if value.package_sha256 != digest:
            raise InputError(
                str(path), f"these figures do not belong to {package}", f"delete {path} and run `tvmake make` again"
            )
        return value

    package, manifest = path_to("package.tar"), path_to("mod.json")
    digest = digest_file(package)
    return VariantResults(
        variant=variant,
        manifest=read_manifest(manifest.read_bytes(), str(manifest)),
        package=package.relative_to(results).as_posix(),
        package_sha256=digest,
        package_bytes=package.stat().st_size,
        numerics=measured("numerics.json", Numerics) if variant.device else None,
        latency=measured("latency.json", Latency) if variant.device else None,
        slow=_slow_notes(Path(path_of("source.json", variant))),
        best=stage_json.load(BestSet, path_to("best.json")) if variant.is_tuned else None,
        calibration=stage_json.load(Calibration, path_to("calibration.json")) if variant.is_calibrated else None,
        precision=(
            stage_json.load(PrecisionChoice, path_to("precision.json")) if variant.is_precision_chosen else None
        ),
        operators=(
            stage_json.load(OperatorErrors, path_to("operator_errors.json")) if variant.compares_operators else None
        ),
        layout=stage_json.load(LayoutChoice, path_to("layout.json")) if variant.layout == "auto" else None,
    )


def _slow_notes(source: Path) -> tuple[str, ...]:
    """The notes of an import, which a copy of the packages alone lacks."""
    notes = stage_json.load(SourceRecord, source).notes.get("slow", ()) if source.is_file() else ()
    return tuple(notes) if not isinstance(notes, str | int) else ()
