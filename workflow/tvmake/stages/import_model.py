"""Import: a trained model becomes Relax, with its parameters apart and its signature written down."""

import importlib
from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.files import digest_file
from tvmake.artifact.source import SourceRecord
from tvmake.config.model import ImportOptions
from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel
from tvmake.plan.model_files import model_files

FRONTENDS = {
    "onnx": "tvmake.frontend.onnx",
    "tflite": "tvmake.frontend.tflite",
    "pt2": "tvmake.frontend.torch_export",
    "factory": "tvmake.frontend.torch_export",
    "zoo": "tvmake.frontend.torch_export",
}
"""Loaded by name, so that importing an ONNX file neither imports torch nor reruns when the torch frontend changes."""

TORCH_SOURCE = "tvmake.frontend.torch_source"


def import_model(options: ImportOptions, module: Path, params: Path, signature: Path, source: Path) -> None:
    """Read a model and write ``module`` (Relax JSON), ``params``, ``signature`` and ``source`` (a SourceRecord).

    Raises:
        InputError: the model cannot be imported as it is; says why and what to do.
        MachineError: a library for its format is missing.
    """
    kind = options.source_format()
    if kind is None:
        raise InputError(options.source, "cannot tell this model's format", "set models.<name>.format")
    imported = _read(kind, options)
    # TVM is loaded by now, in the order the frontend needs.
    from tvmake.artifact.module_files import save_module, save_params

    files = {file: digest_file(Path(file)) for file in model_files(options) if Path(file).is_file()}
    save_params(imported.params, params)
    save_module(imported.module, module)
    stage_json.save(SourceRecord(source=options.source, format=kind, files=files, notes=imported.notes), source)
    stage_json.save(imported.signature, signature)


def _read(kind: str, options: ImportOptions) -> ImportedModel:
    frontend = importlib.import_module(FRONTENDS[kind])
    if kind in ("onnx", "tflite"):
        return frontend.read(Path(options.source), options)
    torch_source = importlib.import_module(TORCH_SOURCE)
    return frontend.read(torch_source.load_program(options.source, options), options)
