"""The output of the validate stage."""

from pydantic import BaseModel, ConfigDict

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.storage.documents import FailsFast
from tvmake.validate.numerics import NumericsReport


class Numerics(FailsFast, BaseModel):
    """numerics.json: the figures, the reference, and the package's device."""

    model_config = ConfigDict(extra="forbid")

    report: NumericsReport
    reference: str
    """The framework that computed the reference, with its version."""
    data: str
    """``dataset`` or ``random``."""
    is_source_quantized: bool = False
    """Whether the model itself rounds activations, to integers or to bfloat16, so that its default goals allow for differences of one step."""
    package_sha256: str
    fingerprint: Fingerprint
