"""The containers that a program's arguments and results come in, where a library defines them: transformers' outputs and caches, dataclasses.

A file names their class. PyTorch rebuilds them only where that library is loaded; here they become plain dicts by the names
that the file gives their fields, or tuples, so that the library is neither needed nor run.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

_READ_PLAINLY: set[str] = set()


def specs(description: Any) -> Iterator[str]:
    """The trees of containers in a file's ``model.json``, each as JSON."""
    if isinstance(description, dict):
        for key, value in description.items():
            if key in ("in_spec", "out_spec") and isinstance(value, str):
                yield value
            else:
                yield from specs(value)
    elif isinstance(description, list):
        for value in description:
            yield from specs(value)


def read_plainly(spec: str) -> None:
    """Have PyTorch read the containers in a tree that no loaded library has told it of as plain ones."""
    _, tree = json.loads(spec)
    known = {node.serialized_type_name for node in pytree.SUPPORTED_SERIALIZED_TYPES.values()}
    for name in _types(tree) - known - _READ_PLAINLY:
        stand_in = type(name.rpartition(".")[2], (dict,), {})
        pytree.register_pytree_node(
            stand_in,
            lambda value: (list(value.values()), list(value)),
            _plain,
            serialized_type_name=name,
            to_dumpable_context=json.dumps,
            from_dumpable_context=_fields,
        )
        _READ_PLAINLY.add(name)


def make_plain(program: ExportedProgram) -> None:
    """Let a program that was read take and return what stands for such containers.

    Args:
        program: is changed.
    """
    for entry in program.module_call_graph:
        if entry.signature is not None:
            entry.signature.in_spec = _plain_spec(entry.signature.in_spec)
            entry.signature.out_spec = _plain_spec(entry.signature.out_spec)


def is_foreign(name: str) -> bool:
    """Whether a container's class is one that PyTorch knows nothing of, or is read plainly already."""
    known = {node.serialized_type_name for node in pytree.SUPPORTED_SERIALIZED_TYPES.values()}
    return name in _READ_PLAINLY or name not in known


def _types(tree: dict[str, Any]) -> set[str]:
    below = {name for child in tree["children_spec"] for name in _types(child)}
    return below if tree["type"] is None else {tree["type"], *below}


def _fields(context: Any) -> list[str] | None:
    """The names of a container's fields: a list, or, for a dataclass, the first of two: the second are those that are None."""
    names = json.loads(context) if isinstance(context, str) else context
    if isinstance(names, list) and names and isinstance(names[0], list):
        names = names[0]
    is_named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if is_named else None


def _plain(values: Sequence[Any], names: list[str] | None) -> Any:
    values = list(values)
    fits = names is not None and len(names) == len(values) == len(set(names))
    return dict(zip(names or (), values, strict=True)) if fits else tuple(values)


def _plain_spec(spec: pytree.TreeSpec) -> pytree.TreeSpec:
    return pytree.tree_structure(pytree.tree_unflatten(range(spec.num_leaves), spec))
