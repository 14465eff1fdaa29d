"""The list of operators that an untrusted .pt2 file may call."""

import re

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from tvmake.frontend.torch.pt2.safety import operators

PLAIN = {
    "Tensor",
    "int",
    "float",
    "number",
    "bool",
    "str",
    "ScalarType",
    "Device",
    "Layout",
    "MemoryFormat",
    "Generator",
}
"""Types of plain values, unlike storages, streams, objects and names of files."""

TAKES_TEXT = re.compile(
    r"mode|reduce|approximate|norm|interpolation|driver|padding|ord|^p$|UPLO|indexing|equation|rounding|side|msg|dtype"
)
"""Names of text arguments that are options or messages."""


def spelled(name: str) -> torch._ops.OpOverload:
    _, _, space, operator, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, space), operator), overload)


LISTED = sorted(name for name in operators() if not name.startswith("torch.ops.torchvision"))


def test_listed_operators_exist_and_take_plain_values():
    wrong = []
    for name in LISTED:
        schema = spelled(name)._schema
        types = [str(one.real_type) for one in (*schema.arguments, *schema.returns)]
        words = {word for kind in types for word in re.findall(r"\w+", kind)} - {"Optional", "List"}
        if not words <= PLAIN:
            wrong.append((name, words - PLAIN))
        wrong += [
            (name, one.name)
            for one in schema.arguments
            if "str" in str(one.real_type) and not TAKES_TEXT.search(one.name)
        ]
    assert not wrong


def test_operators_that_tvm_converts_are_listed():
    names = {f"torch.ops.aten.{name}" for name in ExportedProgramImporter().create_convert_map() if "." in name}
    there = {name for name in names if hasattr(torch.ops.aten, name.split(".")[3])}
    unlisted = {
        name for name in there - operators() if hasattr(getattr(torch.ops.aten, name.split(".")[3]), name.split(".")[4])
    }
    assert not unlisted


@pytest.mark.parametrize(
    "name",
    ["save", "from_file", "set_", "record_stream", "_print", "_foobar", "warn", "resize_", "_test_string_default"],
)
def test_operators_that_do_more_than_compute_are_not_listed(name: str):
    assert not [one for one in operators() if one.startswith(f"torch.ops.aten.{name}.")]
