"""The modules of each source format: its importer, its reference runtime, and its latency baseline.

Modules are named here and imported on use: reading an ONNX file does not load torch, and a change in one format's
modules does not rerun models of other formats.
"""

import sys

from tvmake.errors import MachineError
from tvmake.frontend.options import ImportOptions

TORCH_FRONTEND = ("tvmake.frontend.torch.importer", "tvmake.frontend.torch.source")

DECODER_LOADER = "tvmake.frontend.torch.decoders.load"
"""Loads language models with transformers, which no other format of PyTorch needs."""

FRONTENDS: dict[str, tuple[str, ...]] = {
    "onnx": ("tvmake.frontend.onnx.importer",),
    "tflite": ("tvmake.frontend.tflite.importer",),
    "pt2": TORCH_FRONTEND,
    "keras": TORCH_FRONTEND,
    "torchscript": TORCH_FRONTEND,
    "factory": TORCH_FRONTEND,
    "zoo": TORCH_FRONTEND,
    "stablehlo": ("tvmake.frontend.stablehlo.importer",),
    "relax": ("tvmake.frontend.relax.importer",),
    "transformers": (*TORCH_FRONTEND, DECODER_LOADER),
}
"""The first module has ``read(source, options)``; for PyTorch, ``source`` is the program from the second's ``load_program``.
Further ones are loaded first, so that a missing library is reported."""

RUNTIMES: dict[str, str] = {
    "onnx": "tvmake.validate.reference.onnx_model",
    "tflite": "tvmake.validate.reference.tflite_model",
    "pt2": "tvmake.validate.reference.torch_program",
    "keras": "tvmake.validate.reference.torch_program",
    "torchscript": "tvmake.validate.reference.torch_program",
    "factory": "tvmake.validate.reference.torch_program",
    "zoo": "tvmake.validate.reference.torch_program",
    "stablehlo": "tvmake.validate.reference.jax_program",
    "relax": "tvmake.validate.reference.relax_module",
    "transformers": "tvmake.validate.reference.torch_program",
}
"""Every module has ``open_model(source, options, signature) -> Runtime``."""

BASELINES: dict[str, str] = {
    "onnx": "tvmake.benchmark.baseline.onnx_model",
    "tflite": "tvmake.benchmark.baseline.tflite_model",
    "pt2": "tvmake.benchmark.baseline.torch_model",
    "keras": "tvmake.benchmark.baseline.torch_model",
    "torchscript": "tvmake.benchmark.baseline.torch_model",
    "factory": "tvmake.benchmark.baseline.torch_model",
    "zoo": "tvmake.benchmark.baseline.torch_model",
    "stablehlo": "tvmake.benchmark.baseline.jax_model",
    "relax": "tvmake.benchmark.baseline.relax_model",
    "transformers": "tvmake.benchmark.baseline.torch_model",
}
"""Every module has ``prepare(source, options, signature, inputs, threads) -> Prepared``."""

_LIBRARIES = {"pt2": "torch", "torchscript": "torch", "tflite": "tflite", "stablehlo": "jax"}
"""The library that reads a format."""


def unloaded_library(source: str, kind: str, error: ImportError | OSError) -> MachineError:
    """The error for a format whose modules cannot be loaded: a library is missing, or one of its own dependencies is.

    Raises:
        ImportError: one of tvmake's own modules is missing.
    """
    name = getattr(error, "name", None) or ""
    if name.partition(".")[0] == "tvmake":
        raise error
    library = _LIBRARIES.get(kind) or name or "torch"
    if isinstance(error, ModuleNotFoundError):  # the missing module may be a dependency of the format's library
        return MachineError(source, f"reading it needs the library '{library}'", install(kind))
    line = " ".join(str(error).split())[:200]
    remedy = f"`{sys.executable} -c 'import {library}'` has to work; install it again: pip install --force-reinstall {library}"
    return MachineError(source, f"the library '{library}' is installed and cannot be loaded: {line}", remedy)


def install(kind: str) -> str:
    """The command that installs the library that reads a format."""
    return f"install it: pip install 'tvmake[{kind if kind in ('tflite', 'stablehlo', 'keras', 'transformers') else 'torch'}]'"


def inspection_modules(options: ImportOptions) -> tuple[str, ...]:
    """The module that reads a source's inputs if some of them have a value; none for ONNX models, whose import reads them."""
    has_values = any(entry.value is not None for entry in options.inputs.values())
    return ("tvmake.frontend.inspect",) if has_values and options.source_format() != "onnx" else ()


def modules_by_options(options: ImportOptions) -> tuple[str, ...]:
    """The modules that only some sources of a format need: that of :func:`inspection_modules`, and the loader of decoders."""
    loader = (DECODER_LOADER,) if options.source_format() == "transformers" else ()
    return (*inspection_modules(options), *loader)
