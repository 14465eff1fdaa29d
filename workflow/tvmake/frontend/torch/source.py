"""Load or export the program of a PyTorch source, without TVM."""

import importlib
from pathlib import Path

from torch.export import ExportedProgram

from tvmake.errors import InputError
from tvmake.frontend.formats import DECODER_LOADER
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch import factory, keras_model, torchscript
from tvmake.frontend.torch.pt2 import archive as pt2
from tvmake.frontend.zoo import models as zoo


def load_program(source: str, options: ImportOptions) -> ExportedProgram:
    """The exported program of a .pt2, TorchScript or Keras file, a factory or a zoo name.

    Raises:
        InputError: the source cannot be read, or is of another format.
    """
    match options.source_format():
        case "pt2":
            return pt2.load(Path(source), options)
        case "keras":
            return keras_model.export(source, options)
        case "torchscript":
            return torchscript.export(source, options)
        case "factory":
            return factory.export(source, options)
        case "zoo":
            return zoo.export(source, options)
        case "transformers":
            # Not an import statement, which would make its library part of every format's code.
            program: ExportedProgram = importlib.import_module(DECODER_LOADER).export(source, options)
            return program
        case source_format:
            problem = f"is not a PyTorch or Keras source ({source_format or 'unknown format'})"
            raise InputError(
                source,
                problem,
                "give a .pt2, .pt or .keras file, a language model's directory, package.module:function or zoo:<name>",
            )
