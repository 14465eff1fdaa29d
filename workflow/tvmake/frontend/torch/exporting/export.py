"""Export a PyTorch module as a program, or explain why it cannot be exported."""

import io
import logging
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.parameter import is_lazy
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from tvmake.errors import InputError
from tvmake.frontend.torch.exporting import checks, derivatives, output_structure
from tvmake.frontend.torch.exporting.determinism import check_repeatable, restore_attributes
from tvmake.frontend.torch.exporting.faithful import check_faithful, restore_tensors
from tvmake.frontend.torch.exporting.known_values import KnownValues
from tvmake.process.user_code import error_location, user_code_error

QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.ao.nn.sparse.quantized")
"""Packages of PyTorch's layers with weights that are packed for its own kernels."""

LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")
"""They log errors that torch.export then raises, one of them with a traceback."""

DETECTORS = "torchvision.models.detection"


def exported_program(where: str, module: nn.Module, examples: Sequence[Any], dynamic: Any = None) -> ExportedProgram:
    """Export a module in eval mode with ``torch.export``, and restore the modes of its submodules.

    Named tuples and dataclasses among its outputs become dicts; None is dropped.

    Args:
        where: the source, for errors.
        examples: arguments of ``forward``.
        dynamic: dynamic dimensions, in torch.export's form.

    Raises:
        InputError: the module is a TorchScript module, has layers that are quantised for PyTorch's own kernels, or
            fails on these examples; torch.export cannot trace it, or exports a network with other outputs.
    """
    refuse_untraceable(where, module)
    with _eval_mode(module), _silence_torch(), checks.skip_value_checks(module):
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            check_repeatable(where, module, examples)
        try:
            with restore_tensors(module), restore_attributes(module):
                program = _export(module, tuple(examples), dynamic)
        except GuardOnDataDependentSymNode as error:
            problem = f"forward() branches on the values of its tensors{error_location(error)}"
            remedy = "compute both branches and select with torch.where; numbers of iterations and sizes must be fixed"
            if checks.is_assertion(error):
                remedy = "a compiled network cannot check an assertion about values: remove it"
            if error.cond.is_Symbol or "extract specialized integer" in str(error):
                problem = f"forward() converts a tensor to a number, by float(…) or int(…), or as an index or a size{error_location(error)}"
                remedy = (
                    "compute with the tensor itself; write at an index by x.index_copy(axis, index.reshape(1), values),"
                    " and read by x[index]; sizes must be fixed"
                )
            if any(type(part).__module__.startswith(DETECTORS) for part in module.modules()):
                remedy = "the number of boxes that a detector finds depends on the image: export `backbone` with `head` or `rpn.head`, and select boxes after the network"
            raise InputError(where, problem, remedy) from error
        except Exception as error:
            raise _export_error(where, module, examples, error) from error
        with redirect_stdout(io.StringIO()):
            check_faithful(where, module, program, examples)
        return program


def _export(module: nn.Module, examples: tuple[Any, ...], dynamic: Any) -> ExportedProgram:
    """Export a module. If torch.export fails on code that reads values, supply the values that depend on no input."""
    try:
        program = _export_plain(module, examples, dynamic)
    except (GuardOnDataDependentSymNode, DataDependentOutputException):
        # The module's own output has been printed once.
        with KnownValues(module), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return _export_plain(module, examples, dynamic)
    except Exception:
        if dynamic is None and (expanded := _export_with_derivatives(module, examples)) is not None:
            return expanded
        raise
    if dynamic is None and derivatives.has_functorch_tensors(program):
        return _export_with_derivatives(module, examples) or program
    return program


def _export_with_derivatives(module: nn.Module, examples: tuple[Any, ...]) -> ExportedProgram | None:
    """Export a module with its derivatives as ordinary operators; None if that fails too."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            with output_structure.return_plain_outputs(module), derivatives.expand_derivatives(module, examples):
                program = _export_plain(module, examples, None)
        except Exception:  # noqa: BLE001 -- the error of the unchanged module is more precise
            return None
    return None if derivatives.has_functorch_tensors(program) else program


def _export_plain(module: nn.Module, examples: tuple[Any, ...], dynamic: Any) -> ExportedProgram:
    try:
        program = torch.export.export(module, examples, dynamic_shapes=dynamic)
    except RuntimeError as error:
        if "not a known type" not in str(error):
            raise
    else:
        if output_structure.has_plain_outputs(program):
            return program
    with output_structure.return_plain_outputs(module):
        return torch.export.export(module, examples, dynamic_shapes=dynamic)


def _export_error(where: str, module: nn.Module, examples: Sequence[Any], error: Exception) -> InputError:
    try:
        with torch.no_grad():
            module(*examples)
    except Exception as failure:  # noqa: BLE001 -- the module is the user's own
        remedy = "pass the arguments that forward() takes, in the shapes and dtypes that it expects"
        return user_code_error(where, "it cannot be called with its example inputs", failure, remedy=remedy)
    remedy = "see the PyTorch guide to torch.export for the cause"
    if _packs_sequences(error):
        remedy = "the length of a packed sequence depends on the data: pass the padded sequence to the recurrent layer, or one sequence without padding"
    scripted = [name for name, part in module.named_modules() if isinstance(part, torch.jit.ScriptModule)]
    if scripted:
        remedy = f"its module '{scripted[0]}' is TorchScript, which torch.export can rarely trace: replace it by its original module"
    return user_code_error(where, "torch.export cannot trace it", error, remedy=remedy)


def _packs_sequences(error: Exception) -> bool:
    """Whether an error comes from packing sequences, or from a layer with a packed input."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(
        frame.f_code.co_name == pack_padded_sequence.__name__
        or any(isinstance(value, PackedSequence) for value in frame.f_locals.values())
        for frame in frames
    )


def refuse_untraceable(where: str, module: nn.Module) -> None:
    """Refuse modules that torch.export cannot trace.

    Raises:
        InputError: the module is a TorchScript module, has layers that are quantised for PyTorch's own kernels, or
            lazy layers without weights.
    """
    if isinstance(module, torch.jit.ScriptModule):
        remedy = "use the original module, before scripting or tracing, or export that with torch.export"
        raise InputError(where, "it is a TorchScript module, which torch.export does not support", remedy)
    weights = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    if empty := [name for name, weight in weights.items() if is_lazy(weight)]:
        remedy = "call the module once with an example and load its weights before the export"
        raise InputError(where, f"its lazy layers have no weights yet: {empty[0]}", remedy)
    kinds = Counter(type(part).__name__ for part in module.modules() if type(part).__module__.startswith(QUANTISED))
    if kinds:
        listing = ", ".join(f"{kind} ({count}×)" for kind, count in sorted(kinds.items()))
        raise InputError(
            where,
            f"it has quantised layers that torch.export cannot trace: {listing}",
            "use the float32 network with `precisions: [int8]`, or import a quantised ONNX or TFLite file",
        )


@contextmanager
def _eval_mode(module: nn.Module) -> Iterator[None]:
    modes = {part: part.training for part in module.modules()}
    try:
        module.eval()
        yield
    finally:
        for part, was_training in modes.items():
            part.training = was_training


@contextmanager
def _silence_torch() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stderr(_GraphFilter(sys.stderr)):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class _GraphFilter(io.TextIOBase):
    """A stream that drops the partial graphs that torch.export prints on failure, thousands of lines for a large network."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.has_dropped = False

    def write(self, text: str, /) -> int:
        was_dropped, self.has_dropped = self.has_dropped, text.lstrip().startswith("def forward(")
        if not self.has_dropped and not (was_dropped and text == "\n"):
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        self.stream.flush()
