"""Options of the import: a model's source and its inputs."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tvmake.artifact.dims import LARGEST_SIZE
from tvmake.frontend.checkpoint_files import is_checkpoint
from tvmake.frontend.zoo_names import ZOO, unknown_network
from tvmake.options import Positive, Strict

SourceFormat = Literal[
    "onnx", "pt2", "tflite", "keras", "torchscript", "factory", "relax", "zoo", "stablehlo", "transformers"
]


def _refuse_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"expected a whole number or a text (got {value})")
    return value


Dim = (
    Annotated[int, Field(ge=0, le=LARGEST_SIZE), BeforeValidator(_refuse_boolean)]
    | Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
)


FORMATS: Mapping[str, SourceFormat] = {
    ".onnx": "onnx", ".pt2": "pt2", ".tflite": "tflite", ".keras": "keras", ".h5": "keras",
    ".pt": "torchscript", ".jit": "torchscript", ".torchscript": "torchscript",
    ".mlir": "stablehlo", ".mlirbc": "stablehlo", ".stablehlo": "stablehlo",
}  # fmt: skip
"""Formats of model files, by suffix."""

EXPORT = "export it in PyTorch: torch.export.save(torch.export.export(module.eval(), inputs), 'model.pt2')"

CLASSICAL = (
    "hummingbird-ml makes networks of scikit-learn's, XGBoost's and LightGBM's models"
    " (docs/guides/import-other.md#trees-and-other-classical-models)"
)

OTHER_FORMATS: Mapping[str, str] = {
    ".pth": f"a checkpoint holds weights only; {EXPORT}",
    ".ckpt": f"a checkpoint holds weights only; {EXPORT}",
    ".safetensors": f"it holds weights only; build the module with them, and {EXPORT}",
    ".gguf": "it holds weights in llama.cpp's layout; give the model that they were made from, as .pt2 or .onnx",
    **dict.fromkeys(
        (".pkl", ".pickle", ".joblib"),
        f"pickles are not read; {CLASSICAL}; {EXPORT}",
    ),
    ".pb": "convert it to ONNX with tf2onnx, or to TFLite",
}
"""Remedies for formats that tvmake does not read, by suffix."""


class InputSpec(Strict):
    """One input; anything left out is read from the model."""

    shape: list[Dim] | None = None
    """Extents; an int for a fixed one, a name for a dynamic one. Must fit the model."""
    dtype: str | None = None
    """Element type in TVM's spelling (float32, int64 …). Must be the model's own."""
    range: tuple[float, float] | None = None
    """Inclusive bounds of sensible values, used when random inputs are drawn."""
    value: bool | int | float | list[Any] | None = None
    """The value that the input always has: it becomes a constant, and the package does not take it. One number fills the input's shape,
    of ONNX models also a dynamic one that follows from other inputs."""

    @field_validator("value")
    @classmethod
    def _fits(cls, value: Any) -> Any:
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise ValueError(f"{value} has more than 64 bits; write a number that the input's type has")
        return value

    @field_validator("range")
    @classmethod
    def _ordered(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] <= value[1]:
            problem = f"the lower bound {value[0]:g} is above the upper bound {value[1]:g}"
            raise ValueError(f"{problem}; write the lower one first: [{value[1]:g}, {value[0]:g}]")
        return value


class ImportOptions(Strict):
    """What a model is imported from."""

    source: str
    """A path (.onnx, .pt2, .pt, .tflite, .keras, .h5, .mlir, .mlirbc), a directory of a language model (config.json and *.safetensors),
    ``package.module:function`` returning an nn.Module (or, with ``format: relax``, a Relax module), or ``zoo:<name>``."""
    format: SourceFormat | None = None
    """The source's format; by default the one that the source's name implies."""
    trusted: bool = False
    """Allow loading this source to execute its code (factories; Keras and TorchScript files; .pt2 files that hold more than tensors)."""
    inputs: dict[str, InputSpec] = Field(default_factory=dict)
    """Per input, by the name in the source."""
    state: dict[str, str] = Field(default_factory=dict)
    """Inputs whose next value is an output, with that output: ``{state: stateN}``, or with ``%d`` for a number
    ``{past.%d.key: present.%d.key}``. The package keeps them from run to run."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments for a factory or a zoo network."""
    seed: int = 0
    """Seed for weights that a factory or zoo network draws."""
    opset: Positive | None = None
    """Convert an ONNX model to this opset before import."""
    files: list[str] = Field(default_factory=list)
    """Further files the source reads (ONNX external data that does not lie beside it as <source>.data)."""

    @field_validator("source")
    @classmethod
    def _is_in_zoo(cls, value: str) -> str:
        if mistake := unknown_network(value):
            raise ValueError("; ".join(mistake))
        return value

    @model_validator(mode="after")
    def _format_fits(self) -> "ImportOptions":
        implied = self.implied_format()
        spelled = {"factory": "package.module:function", "relax": "package.module:function", "zoo": "zoo:NAME"}
        wanted = spelled.get(self.format or "", "files")
        is_other = implied != ("factory" if self.format == "relax" else self.format)
        if self.format and is_other and (implied == "zoo" or self.format in spelled):
            raise ValueError(
                f"'format: {self.format}' is for {wanted}, and the source is '{self.source}'; leave `format` out"
            )
        return self

    def source_format(self) -> SourceFormat | None:
        """The declared format, or the one the source's spelling implies; None when it implies none."""
        return self.format or self.implied_format()

    def implied_format(self) -> SourceFormat | None:
        """The format that the source's spelling implies; None when it implies none."""
        if self.source.startswith(ZOO):
            return "zoo"
        for suffix, suffix_format in FORMATS.items():
            if self.source.lower().endswith(suffix):
                return suffix_format
        module, _, function = self.source.partition(":")
        if function.isidentifier() and all(part.isidentifier() for part in module.split(".")):
            return "factory"
        return "transformers" if is_checkpoint(self.source) else None
