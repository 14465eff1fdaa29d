"""Import: a trained model becomes Relax, with its parameters apart and its signature written down."""

import importlib
from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.files import digest_file
from tvmake.artifact.source import SourceRecord
from tvmake.config.model import ImportOptions
from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel
from tvmake.plan.formats import FRONTENDS
from tvmake.plan.model_files import model_files


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
    frontend, *loader = (importlib.import_module(name) for name in FRONTENDS[kind])
    if not loader:
        return frontend.read(Path(options.source), options)
    return frontend.read(loader[0].load_program(options.source, options), options)
