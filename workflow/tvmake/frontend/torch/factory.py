"""``package.module:function``: a user's Python function that builds a PyTorch module."""

import inspect
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch import keras_model
from tvmake.frontend.torch.exporting.example_inputs import example_inputs
from tvmake.frontend.torch.exporting.export import exported_program, refuse_untraceable
from tvmake.frontend.trust import check_trusted
from tvmake.process.limits import named
from tvmake.process.user_code import guard_call, load_function


def export(source: str, options: ImportOptions) -> ExportedProgram:
    """Call the factory with ``options.arguments`` as keywords, and export the module it returns in eval mode.

    The factory returns an ``nn.Module``, a pair of the module and its example inputs (a tuple, or a dict by the names
    of ``forward``'s arguments), or a Keras model. Inputs without an example take their shape and dtype (float32 by
    default) from ``options.inputs``; a name instead of a size makes a dimension dynamic. Python, numpy and PyTorch are
    seeded with ``options.seed``: the reference calls the factory again and needs the same weights. Installed modules
    take precedence over the working directory.

    Raises:
        InputError: the source is not trusted; the factory cannot be found, fails, or returns another type; inputs are
            missing; PyTorch cannot export the module.
    """
    check_trusted(options)
    keras_model.select_torch_backend()
    function = load_function(source, source)
    random.seed(options.seed)  # Keras draws from Python's generator
    np.random.seed(options.seed % 2**32)
    torch.manual_seed(options.seed)
    remedy = "call it in Python with the same `arguments`"
    with guard_call(source, "the factory fails", function, remedy):
        returned = function(**options.arguments)
    module, examples = _module_and_examples(source, returned)
    if keras_model.is_model(module) and not examples:
        return keras_model.export_model(source, module, options)
    refuse_untraceable(source, module)  # the signature of its forward() cannot be read either
    inputs, dynamic = example_inputs(source, module, examples, options)
    with named(source):
        return exported_program(source, module, inputs, dynamic)


def _module_and_examples(source: str, returned: Any) -> tuple[nn.Module, tuple[Tensor, ...]]:
    module, examples = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, ())
    if isinstance(examples, Tensor):
        examples = (examples,)
    if isinstance(module, nn.Module):
        if any(value.is_meta for value in (*module.parameters(), *module.buffers())):
            remedy = "build it without torch.device('meta'), or load its weights with load_state_dict(…, assign=True)"
            raise InputError(source, "the factory's module has no weights, only their shapes (on 'meta')", remedy)
        if isinstance(examples, dict):
            examples = _order_examples(source, module, examples)
        if isinstance(examples, tuple | list) and all(isinstance(example, Tensor) for example in examples):
            return module, tuple(examples)
        raise InputError(source, "its example inputs are not all tensors", "return (module, (tensor, …))")
    remedy = "return an nn.Module, or an nn.Module and a tuple of example inputs"
    if type(module).__name__ == "IRModule":
        remedy = "set `format: relax` for a function that returns a Relax module"
    elif isinstance(module, ExportedProgram):
        remedy = "return the module itself, or save the program with torch.export.save and give the .pt2 file"
    elif type(module).__module__.partition(".")[0] == "keras":
        remedy = "set KERAS_BACKEND=torch before Keras is imported, so that its models are PyTorch modules"
    raise InputError(source, f"the factory returns {type(module).__name__}, not a module", remedy)


def _order_examples(source: str, module: nn.Module, examples: dict[str, Any]) -> tuple[Any, ...]:
    """Order examples that are given by the names of forward()'s arguments."""
    names = list(inspect.signature(module.forward).parameters)[: len(examples)]
    if set(examples) != set(names):
        problem = (
            f"its example inputs are called {', '.join(map(str, examples))}; forward() begins with {', '.join(names)}"
        )
        raise InputError(source, problem, "put these arguments first in forward(), and give an example of each")
    return tuple(examples[name] for name in names)
