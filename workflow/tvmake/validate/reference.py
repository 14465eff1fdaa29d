"""Run the source model itself, in the framework it came from, on given inputs.

The runtimes are asked for one thread and for kernels that do not depend on timing, so that the same machine gives the
same bits again. They are imported when needed: nobody needs LiteRT for an ONNX model.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.config.model import ImportOptions
from tvmake.errors import InputError

Tensors = dict[str, np.ndarray]


def run_reference(
    source: str, options: ImportOptions, signature: Signature, samples: Iterable[Tensors]
) -> Iterator[Tensors]:
    """Outputs of the source model, one for each sample, both keyed by names in the source.

    Args:
        source: what ``options.source`` says, as a path from here.
        signature: names, order, shapes and dtypes, as the import stage found them.
        samples: inputs of concrete shapes.

    Raises:
        InputError: the model cannot be run on these inputs, or has other outputs than the signature says.
        MachineError: the library that runs this format is not installed.
    """
    kind = options.source_format()
    if kind == "onnx":
        from tvmake.validate import reference_onnx

        run = reference_onnx.open_model(source, signature)
    elif kind == "tflite":
        from tvmake.validate import reference_tflite

        run = reference_tflite.open_model(source, signature)
    elif kind in ("pt2", "factory", "zoo"):
        from tvmake.validate import reference_torch

        run = reference_torch.open_model(source, options, signature)
    else:
        raise InputError(source, "cannot tell the model's format", "set `format` to onnx, pt2, tflite, factory or zoo")
    for sample in samples:
        outputs = run(sample)
        yield {spec.name: np.asarray(outputs[spec.name]) for spec in signature.outputs}


def runtime_name(options: ImportOptions) -> str:
    """Name and version of the library that runs this format, for the record: ``onnxruntime 1.22.0``."""
    from importlib.metadata import PackageNotFoundError, version

    package = {"onnx": "onnxruntime", "tflite": "ai-edge-litert"}.get(options.source_format() or "", "torch")
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package
