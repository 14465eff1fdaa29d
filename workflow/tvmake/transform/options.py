"""Options of graph rewrites between import and build."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from tvmake.artifact.dims import Dims
from tvmake.options import Strict
from tvmake.quantize.precision import PrecisionConfig

PassPoint = Literal["start", "before_precision", "after_precision", "before_legalize", "after_fusion"]
"""The point at which a user pass runs. The first three are in transform, the last two in build (for each target):
``start`` right after import; ``before_precision`` after folding; ``after_precision`` on the finished module;
``before_legalize`` on Relax operators with the target known; ``after_fusion`` on fused tensor functions."""

TRANSFORM_POINTS: tuple[str, ...] = ("start", "before_precision", "after_precision")
FLOAT_POINTS: tuple[str, ...] = ("start", "before_precision")
"""Points before the precision is changed."""
BUILD_POINTS: tuple[str, ...] = ("before_legalize", "after_fusion")

Layout = Literal["keep", "NCHW", "NHWC"]
"""A data layout of convolutions and pooling; ``keep`` is the model's own."""

CANDIDATES: tuple[Layout, ...] = ("NCHW", "NHWC")
"""Candidates of ``auto``; of equally fast layouts the first is chosen."""

PythonName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")]


class UserPass(Strict):
    """A pass of your own: ``package.module:factory`` returns a ``tvm.transform.Pass`` or ``IRModule -> IRModule``."""

    use: PythonName
    """The factory, as ``package.module:function``. Modules are imported from the environment, then from the working
    directory."""
    at: PassPoint = "before_precision"
    """The point at which it runs: in transform at ``start`` (right after import), ``before_precision`` or ``after_precision``; in
    build, for each target, at ``before_legalize`` (Relax operators) or ``after_fusion`` (fused tensor functions)."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments for the factory."""


def _pass_from_text(value: Any) -> Any:
    return {"use": value} if isinstance(value, str) else value


class TransformOptions(Strict):
    """Folding, layout and user passes."""

    fold_batch_norm: bool = True
    """Fold batch normalisation into the weights of the convolution before it, or into one multiplication and one addition."""
    layout: Layout | Literal["auto"] = "keep"
    """Data layout of convolutions and pooling; inputs and outputs keep theirs. ``auto`` measures a few candidates of the
    most expensive kernels in each layout, for each tuned target, and takes the fastest; without tuning it means ``keep``.
    With ``keep`` a target may use its preferred layout: channels innermost on CPUs, blocks of four channels in textures."""
    passes: list[Annotated[UserPass, BeforeValidator(_pass_from_text)]] = Field(default_factory=list)
    """User passes, in order."""


class TransformRequest(Strict):
    """Target form of a network."""

    precision: PrecisionConfig = PrecisionConfig()
    transform: TransformOptions = TransformOptions()
    """Only the passes at this stage's points."""
    dims: Dims = Field(default_factory=dict)
    """Sizes of dynamic dimensions, or their bounds."""
