"""Models that exist in this process, as files: a PyTorch module, an ONNX model."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvmake.errors import InputError
from tvmake.plan.single import WORK, name_of
from tvmake.storage.files import atomic_path

MODELS = WORK / "models"
"""The directory of exported models, by content."""


def onnx_file(model: Any, name: str) -> Path:
    """An ``onnx.ModelProto`` as a file.

    Raises:
        InputError: it exceeds ONNX's size limit of one file.
    """
    try:
        data = model.SerializeToString(deterministic=True)
    except ValueError as error:
        remedy = "write it with onnx.save(…, save_as_external_data=True), and load the file"
        raise InputError("the ONNX model", f"cannot be written: {error}", remedy) from None
    path = _model_file(name or model.graph.name, hashlib.sha256(data).hexdigest(), ".onnx")
    if not path.is_file():
        with atomic_path(path) as temporary:
            temporary.write_bytes(data)
    return path


def torch_file(module: Any, examples: Sequence[Any], name: str) -> Path:
    """A PyTorch module, or a ``torch.export.ExportedProgram``, as a ``.pt2`` file.

    Args:
        examples: the inputs to trace it with; none for a program.

    Raises:
        InputError: it has no examples, or PyTorch cannot export it.
    """
    import torch

    from tvmake.frontend.torch.exporting.export import exported_program
    from tvmake.frontend.torch.program import signature
    from tvmake.frontend.torch.refusals import refuse_unreadable_state

    called = name or type(module).__name__
    program = module
    if isinstance(module, torch.nn.Module):
        if not examples:
            remedy = "pass the arguments of forward(): tvmake.load(module, inputs=(torch.zeros(1, 3, 224, 224),))"
            raise InputError(called, "a PyTorch module needs example inputs", remedy)
        program = exported_program(called, module, examples)
    refuse_unreadable_state(called, program)
    signature(called, program)  # or a file would be written that PyTorch cannot read
    path = _model_file(called, _program_digest(program), ".pt2")
    if not path.is_file():
        with atomic_path(path) as temporary:
            # PyTorch goes by the name's end.
            exported = temporary.with_name(f"{temporary.name}.pt2")
            try:
                torch.export.save(program, exported)
            except NotImplementedError as error:  # of a type that it has no name for in files
                remedy = "return tensors, tuples and dicts, and export it again"
                raise InputError(called, f"PyTorch cannot write the program: {error}", remedy) from error
            exported.replace(temporary)
    return path


def _program_digest(program: Any) -> str:
    """A digest of a program's graph and tensors; the file itself differs from one time to the next."""
    from tvmake.frontend.torch.program import weights_digest

    digest = hashlib.sha256(str(program.graph_signature).encode())
    digest.update(str(program.graph_module.code).encode())
    digest.update(str(program.range_constraints).encode())
    digest.update(weights_digest(program).encode())
    return digest.hexdigest()


def _model_file(name: str, digest: str, suffix: str) -> Path:
    MODELS.mkdir(parents=True, exist_ok=True)
    return (MODELS / f"{name_of(name)}-{digest[:12]}{suffix}").resolve()
