"""What a search for the first wrong operator starts from."""

from dataclasses import dataclass
from pathlib import Path

from tvmake.config.requests.building import BuildRequest
from tvmake.config.requests.running import ValidateRequest
from tvmake.frontend.options import ImportOptions
from tvmake.quantize.precision import LayerPrecision
from tvmake.transform.options import TransformRequest


@dataclass(frozen=True)
class Variant:
    """The files of a variant, and the options that made them."""

    name: str
    imported: Path
    imported_params: Path
    signature: Path
    reference: Path
    module: Path
    params: Path
    package: Path
    source: ImportOptions
    transforming: TransformRequest
    building: BuildRequest
    validating: ValidateRequest
    calibration: Path | None = None
    best: Path | None = None
    assignment: tuple[LayerPrecision, ...] = ()
    """The precision of each layer, where that was chosen."""
    base: str = ""
    """The base of its precision, by which goals go."""
