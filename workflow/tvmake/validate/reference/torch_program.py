"""PyTorch programs through torch itself."""

from typing import Any

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.artifact.state_names import kept_in_place
from tvmake.errors import InputError, MachineError
from tvmake.frontend.options import ImportOptions
from tvmake.validate.runtime import Runtime, library_version


def open_model(source: str, options: ImportOptions, signature: Signature) -> Runtime:
    """The program in torch.

    Raises:
        InputError: the program's inputs or outputs differ from the signature.
        MachineError: torch is not installed.
    """
    try:
        import torch
        from torch.utils import _pytree as pytree
    except ImportError:
        raise MachineError(
            source, "running a PyTorch model needs torch", "install it with `pip install tvmake[torch]`"
        ) from None
    module, structure, weights = load_callable(source, options)
    stored = [(tensor, tensor.clone()) for tensor in stored_tensors(module)]
    in_place = kept_in_place(options.state, (spec.name for spec in signature.inputs))
    returned = [spec for spec in signature.outputs if spec.name not in in_place]
    if structure.num_leaves != len(signature.inputs):
        problem = f"takes {structure.num_leaves} tensors, not {len(signature.inputs)}"
        raise InputError(source, problem, "import it again")

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        flat = [to_torch(inputs[spec.name]) for spec in signature.inputs]
        args, kwargs = pytree.tree_unflatten(flat, structure)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.no_grad():
                outputs = module(*args, **kwargs)
        except RuntimeError as error:
            line = str(error).strip().splitlines()[0]
            raise InputError(source, f"torch cannot run it: {line}", "check the inputs' shapes and ranges") from None
        finally:
            torch.set_num_threads(threads)
        leaves = pytree.tree_leaves(outputs)
        if len(leaves) != len(returned):
            raise InputError(source, f"returns {len(leaves)} tensors, not {len(returned)}", "import it again")
        written = {
            spec.name: tensor for spec, tensor in zip(signature.inputs, flat, strict=True) if spec.name in in_place
        }
        results = {spec.name: leaf for spec, leaf in zip(returned, leaves, strict=True)} | written
        return {name: _to_numpy(tensor) for name, tensor in results.items()}

    def reset() -> None:
        for tensor, value in stored:
            with torch.no_grad():
                tensor.copy_(value)

    def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
        tensor = tensor.detach().clone(memory_format=torch.contiguous_format)  # it may be a state
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

    return Runtime(library_version("torch"), run, weights, reset)


def stored_tensors(module: Any) -> list[Any]:
    """The dense tensors of a module that its calls may write to: buffers, and constants of an exported program."""
    import torch

    constants = (value for part in module.modules() for value in vars(part).values() if isinstance(value, torch.Tensor))
    return [tensor for tensor in (*module.buffers(), *constants) if tensor.layout is torch.strided]


def to_torch(array: np.ndarray) -> Any:
    """A copy of an array as a tensor."""
    import torch

    if array.dtype.name == "bfloat16":  # numpy and torch do not share this type
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def load_callable(source: str, options: ImportOptions) -> tuple[Any, Any, str | None]:
    """The function to call, the structure of its arguments (a pytree of positional and keyword ones), and its weights' digest."""
    if options.source_format() == "zoo":
        from torch.utils import _pytree as pytree

        from tvmake.frontend.zoo import models as zoo

        # Run without export, which would take seconds.
        return zoo.network(source, options), pytree.tree_structure(((None,), {})), None
    from tvmake.frontend.torch.program import weights_digest
    from tvmake.frontend.torch.source import load_program

    program = load_program(source, options)
    return program.module(), program.call_spec.in_spec, weights_digest(program)
