"""PyTorch programs in torch, called without export."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.benchmark.baseline.prepared import Prepared
from tvmake.errors import MachineError
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.torch_program import load_callable, stored_tensors, to_torch
from tvmake.validate.runtime import library_version


def prepare(
    source: str, options: ImportOptions, signature: Signature, inputs: dict[str, np.ndarray], threads: int
) -> Prepared:
    """The program with its arguments as tensors.

    Raises:
        InputError: the program cannot be loaded.
        MachineError: torch is not installed.
    """
    try:
        import torch
        from torch.utils import _pytree as pytree
    except ImportError:
        raise MachineError(source, "torch is not installed", "`pip install tvmake[torch]`") from None
    module, structure, _ = load_callable(source, options)
    torch.set_num_threads(threads)
    args, kwargs = pytree.tree_unflatten([to_torch(inputs[spec.name]) for spec in signature.inputs], structure)

    def run() -> object:
        with torch.inference_mode():
            for counter, value in counters:
                counter.copy_(value)
            return module(*args, **kwargs)

    # A counter would run past the end of its cache.
    stored = [(tensor, tensor.clone()) for tensor in stored_tensors(module) if not tensor.is_floating_point()]
    counters: list[tuple[Any, Any]] = []
    if stored:
        run()
        counters = [(tensor, value) for tensor, value in stored if not torch.equal(tensor, value)]

    def step(given: Mapping[str, Any]) -> dict[str, Any]:
        values = [to_torch(given[spec.name]) for spec in signature.inputs]
        args, kwargs = pytree.tree_unflatten(values, structure)
        with torch.inference_mode():
            outputs = pytree.tree_leaves(module(*args, **kwargs))
        return {spec.name: value for spec, value in zip(signature.outputs, outputs, strict=True)}

    return Prepared(library_version("torch"), run, None if stored else step)
