"""Which modules read each source format, which run it as the reference, and which as the baseline of latency.

Named rather than imported: reading an ONNX file loads no torch, and a change in one format's modules reruns no other
format's models.
"""

import sys

from tvmake.errors import MachineError

TORCH_FRONTEND = ("tvmake.frontend.torch.importer", "tvmake.frontend.torch.source")

FRONTENDS: dict[str, tuple[str, ...]] = {
    "onnx": ("tvmake.frontend.onnx.importer",),
    "tflite": ("tvmake.frontend.tflite.importer",),
    "pt2": TORCH_FRONTEND,
    "keras": TORCH_FRONTEND,
    "factory": TORCH_FRONTEND,
    "zoo": TORCH_FRONTEND,
    "stablehlo": ("tvmake.frontend.stablehlo.importer",),
    "relax": ("tvmake.frontend.relax.importer",),
}
"""The first has ``read(source, options)``; for PyTorch it takes the program that the second's ``load_program`` gives."""

RUNTIMES: dict[str, str] = {
    "onnx": "tvmake.validate.reference.onnx_model",
    "tflite": "tvmake.validate.reference.tflite_model",
    "pt2": "tvmake.validate.reference.torch_program",
    "keras": "tvmake.validate.reference.torch_program",
    "factory": "tvmake.validate.reference.torch_program",
    "zoo": "tvmake.validate.reference.torch_program",
    "stablehlo": "tvmake.validate.reference.jax_program",
    "relax": "tvmake.validate.reference.relax_module",
}
"""Each has ``open_model(source, options, signature) -> Runtime``."""

BASELINES: dict[str, str] = {
    "onnx": "tvmake.benchmark.baseline.onnx_model",
    "tflite": "tvmake.benchmark.baseline.tflite_model",
    "pt2": "tvmake.benchmark.baseline.torch_model",
    "keras": "tvmake.benchmark.baseline.torch_model",
    "factory": "tvmake.benchmark.baseline.torch_model",
    "zoo": "tvmake.benchmark.baseline.torch_model",
    "stablehlo": "tvmake.benchmark.baseline.jax_model",
    "relax": "tvmake.benchmark.baseline.relax_model",
}
"""Each has ``prepare(source, options, signature, inputs, threads) -> Prepared``."""

_LIBRARIES = {"pt2": "torch", "tflite": "tflite", "stablehlo": "jax"}
"""What reads a format."""


def unloaded_library(source: str, kind: str, error: ImportError | OSError) -> MachineError:
    """What to say where a format's modules cannot be loaded: a library is missing, or is there without what it needs itself.

    Raises:
        ImportError: it is one of tvmake's own modules.
    """
    name = getattr(error, "name", None) or ""
    if name.partition(".")[0] == "tvmake":
        raise error
    library = _LIBRARIES.get(kind) or name or "torch"
    if isinstance(error, ModuleNotFoundError):  # what is missing first may only come along with the format's library
        return MachineError(source, f"reading it needs the library '{library}'", install(kind))
    line = " ".join(str(error).split())[:200]
    remedy = f"`{sys.executable} -c 'import {library}'` has to work; install it again: pip install --force-reinstall {library}"
    return MachineError(source, f"the library '{library}' is installed and cannot be loaded: {line}", remedy)


def install(kind: str) -> str:
    """The command that installs what reads a format."""
    return f"install it: pip install 'tvmake[{kind if kind in ('tflite', 'stablehlo', 'keras') else 'torch'}]'"
