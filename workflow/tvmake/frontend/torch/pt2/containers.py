"""Read containers of arguments and results that a library defines, as transformers' outputs and caches, as plain ones.

A file contains the names of their classes, which PyTorch rebuilds only if the library is loaded. Here they become
dicts by the names of their fields, or tuples, so that the library is not needed.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

_REGISTERED: set[str] = set()


def specs(description: Any) -> Iterator[str]:
    """The container trees in a file's ``model.json``, each as JSON."""
    if isinstance(description, dict):
        for key, value in description.items():
            if key in ("in_spec", "out_spec") and isinstance(value, str):
                yield value
            else:
                yield from specs(value)
    elif isinstance(description, list):
        for value in description:
            yield from specs(value)


def register_plain_containers(spec: str) -> None:
    """Make PyTorch read the unknown containers of a tree as plain ones."""
    _, tree = json.loads(spec)
    known = {node.serialized_type_name for node in pytree.SUPPORTED_SERIALIZED_TYPES.values()}
    for name in _types(tree) - known - _REGISTERED:
        container = type(name.rpartition(".")[2], (dict,), {})
        pytree.register_pytree_node(
            container,
            lambda value: (list(value.values()), list(value)),
            _to_plain,
            serialized_type_name=name,
            to_dumpable_context=json.dumps,
            from_dumpable_context=_fields,
        )
        _REGISTERED.add(name)


def convert_to_plain_containers(program: ExportedProgram) -> None:
    """Replace such containers in a loaded program's signatures by plain ones, in place."""
    for entry in program.module_call_graph:
        if entry.signature is not None:
            entry.signature.in_spec = _to_plain_spec(entry.signature.in_spec)
            entry.signature.out_spec = _to_plain_spec(entry.signature.out_spec)


def is_foreign(name: str) -> bool:
    """Whether PyTorch does not know a container's class, or it is registered as a plain one."""
    known = {node.serialized_type_name for node in pytree.SUPPORTED_SERIALIZED_TYPES.values()}
    return name in _REGISTERED or name not in known


def _types(tree: dict[str, Any]) -> set[str]:
    below = {name for child in tree["children_spec"] for name in _types(child)}
    return below if tree["type"] is None else {tree["type"], *below}


def _fields(context: Any) -> list[str] | None:
    """The names of a container's fields. A dataclass has two lists; the second lists the fields that are None."""
    names = json.loads(context) if isinstance(context, str) else context
    if isinstance(names, list) and names and isinstance(names[0], list):
        names = names[0]
    is_named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if is_named else None


def _to_plain(values: Sequence[Any], names: list[str] | None) -> Any:
    values = list(values)
    fits = names is not None and len(names) == len(values) == len(set(names))
    return dict(zip(names or (), values, strict=True)) if fits else tuple(values)


def _to_plain_spec(spec: pytree.TreeSpec) -> pytree.TreeSpec:
    return pytree.tree_structure(pytree.tree_unflatten(range(spec.num_leaves), spec))
