"""A PyTorch module as a program, or the reason why it cannot be one."""

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
from tvmake.frontend.torch.exporting.determinism import check_repeatable, same_attributes
from tvmake.frontend.torch.exporting.faithful import check_faithful
from tvmake.frontend.torch.exporting.known_values import KnownValues
from tvmake.process.user_code import error_location, user_code_error

QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.ao.nn.sparse.quantized")
"""Where PyTorch keeps layers whose weights are packed for its own kernels."""

LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")
"""They log, one of them with a traceback, what torch.export then raises."""

DETECTORS = "torchvision.models.detection"


def exported_program(where: str, module: nn.Module, examples: Sequence[Any], dynamic: Any = None) -> ExportedProgram:
    """A module, exported in eval mode by ``torch.export``; its parts have their own modes again afterwards.

    Named tuples and dataclasses that it returns are dicts in the program, and None is left out.

    Args:
        where: what errors name.
        examples: what ``forward`` is called with.
        dynamic: extents that stay open, in torch.export's form.

    Raises:
        InputError: the module is a TorchScript module or has layers that are quantised for PyTorch's own kernels, cannot be called with
            these examples, or torch.export cannot trace it, or makes another network of it.
    """
    refuse_untraceable(where, module)
    with _eval_mode(module), _quiet(), checks.left_out(module):
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            check_repeatable(where, module, examples)
        try:
            with same_attributes(module):
                program = _program(module, tuple(examples), dynamic)
        except GuardOnDataDependentSymNode as error:
            problem = f"forward() takes another way for other values of its tensors{error_location(error)}"
            remedy = "compute both and choose with torch.where; a number of steps or an extent has to be fixed"
            if checks.is_assertion(error):
                remedy = "it is an assertion about values, which a compiled network cannot make: leave it out"
            if error.cond.is_Symbol or "extract specialized integer" in str(error):
                problem = f"forward() takes a number out of a tensor, by float(…) or int(…), or for a place or an extent{error_location(error)}"
                remedy = (
                    "compute with the tensor itself; write at a place by x.index_copy(axis, place.reshape(1), values),"
                    " and read by x[place]; an extent has to be fixed"
                )
            if any(type(part).__module__.startswith(DETECTORS) for part in module.modules()):
                remedy = "how many boxes a detector finds depends on the picture: export `backbone` with `head` or `rpn.head`, and choose boxes after that"
            raise InputError(where, problem, remedy) from error
        except Exception as error:
            raise _reason(where, module, examples, error) from error
        with redirect_stdout(io.StringIO()):
            check_faithful(where, module, program, examples)
        return program


def _program(module: nn.Module, examples: tuple[Any, ...], dynamic: Any) -> ExportedProgram:
    """The program; code that asks for values gets those that depend on no input, where torch.export has none to give."""
    try:
        program = _plain_program(module, examples, dynamic)
    except (GuardOnDataDependentSymNode, DataDependentOutputException):
        # What the module writes has been shown once.
        with KnownValues(module), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return _plain_program(module, examples, dynamic)
    except Exception:
        if dynamic is None and (found := _with_derivatives(module, examples)) is not None:
            return found
        raise
    if dynamic is None and derivatives.are_kept(program):
        return _with_derivatives(module, examples) or program
    return program


def _with_derivatives(module: nn.Module, examples: tuple[Any, ...]) -> ExportedProgram | None:
    """The program with derivatives written out; None where that is none either."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            with output_structure.plainly(module), derivatives.written_out(module, examples):
                program = _plain_program(module, examples, None)
        except Exception:  # noqa: BLE001 -- the error of the module as it is says more
            return None
    return None if derivatives.are_kept(program) else program


def _plain_program(module: nn.Module, examples: tuple[Any, ...], dynamic: Any) -> ExportedProgram:
    try:
        program = torch.export.export(module, examples, dynamic_shapes=dynamic)
    except RuntimeError as error:
        if "not a known type" not in str(error):
            raise
    else:
        if output_structure.is_plain(program):
            return program
    with output_structure.plainly(module):
        return torch.export.export(module, examples, dynamic_shapes=dynamic)


def _reason(where: str, module: nn.Module, examples: Sequence[Any], error: Exception) -> InputError:
    try:
        with torch.no_grad():
            module(*examples)
    except Exception as failure:  # noqa: BLE001 -- the module is the user's own
        remedy = "give what forward() takes, in the shapes and types that it expects"
        return user_code_error(where, "it cannot be called with its example inputs", failure, remedy=remedy)
    remedy = "see the PyTorch guide to torch.export for the cause"
    if _packs_sequences(error):
        remedy = "how long a packed sequence is depends on the data: give the recurrent layer the padded sequence, or one sequence without padding"
    scripted = [name for name, part in module.named_modules() if isinstance(part, torch.jit.ScriptModule)]
    if scripted:
        remedy = f"its module '{scripted[0]}' is TorchScript, which torch.export follows seldom: put the one it was made from in its place"
    return user_code_error(where, "torch.export cannot trace it", error, remedy=remedy)


def _packs_sequences(error: Exception) -> bool:
    """Whether an error comes from packing sequences, or from a layer that was given packed ones."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(
        frame.f_code.co_name == pack_padded_sequence.__name__
        or any(isinstance(value, PackedSequence) for value in frame.f_locals.values())
        for frame in frames
    )


def refuse_untraceable(where: str, module: nn.Module) -> None:
    """Refuse modules of which it is known that torch.export does not take them.

    Raises:
        InputError: the module is a TorchScript module, or has layers that are quantised for PyTorch's own kernels, or lazy ones
            without weights.
    """
    if isinstance(module, torch.jit.ScriptModule):
        remedy = "take the module that was scripted or traced, or export that with torch.export"
        raise InputError(where, "it is a TorchScript module, which torch.export does not take", remedy)
    weights = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    if empty := [name for name, weight in weights.items() if is_lazy(weight)]:
        remedy = "call the module once with an example, and load its weights, before it is handed over"
        raise InputError(where, f"its lazy layers have no weights yet: {empty[0]}", remedy)
    kinds = Counter(type(part).__name__ for part in module.modules() if type(part).__module__.startswith(QUANTISED))
    if kinds:
        listing = ", ".join(f"{kind} ({count}×)" for kind, count in sorted(kinds.items()))
        raise InputError(
            where,
            f"its layers are quantised as torch.export cannot trace them: {listing}",
            "take the network in float32 and ask for the precision int8, or import a quantised ONNX or TFLite file",
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
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stderr(_WithoutGraphs(sys.stderr)):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class _WithoutGraphs(io.TextIOBase):
    """A stream that drops the graphs which torch.export prints as far as it got, thousands of lines for a large network."""

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
