"""Modules and parameters on disk that are none."""

from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.targets.cpu.schedules.nets import NATIVE
from tests.tune.graphs import graph
from tvmake.artifact.empty_tensors import bind_empty
from tvmake.artifact.module_files import load_module, save_module
from tvmake.artifact.weights.tensors import load_params
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.errors import InputError

DAMAGED = [
    "",
    "{}",
    "[1]",
    "null",
    "[" * 5000,
    '{"root_index": 0, "nodes": ["a"]}',
    '{"root_index": 7, "nodes": [{}], "metadata": 1}',
]


@pytest.mark.parametrize("text", DAMAGED)
def test_what_is_not_a_module_is_refused(tmp_path: Path, text: str):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(InputError, match=r"not a module"):
        load_module(tmp_path / "m.json")


def with_empty_weights() -> "tvm.IRModule":
    return graph(lambda x, w: tvm.relax.op.concat([x, w], 1), ((3, 2), "float32"), ((3, 0), "float32"))


def test_weights_without_elements_are_kept(tmp_path: Path):
    module, params = bind_empty(with_empty_weights(), {"x1": tvm.runtime.tensor(np.zeros((3, 0), "float32"))})
    assert not params
    save_module(module, tmp_path / "m.json")
    machine = tvm.relax.VirtualMachine(tvm.compile(load_module(tmp_path / "m.json"), "llvm"), tvm.cpu())
    x = np.arange(6, dtype="float32").reshape(3, 2)
    np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(x)).numpy(), x)


def test_a_package_of_them_is_read_again(tmp_path: Path):
    module, _ = bind_empty(with_empty_weights(), {"x1": tvm.runtime.tensor(np.zeros((3, 0), "float32"))})
    made = lower(module, NATIVE, [], PassOptions(), 1)
    generate(made.final, NATIVE, BuildOptions(), "targets.t").export_library(str(tmp_path / "mod.so"))
    machine = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "mod.so")), tvm.cpu())
    x = np.arange(6, dtype="float32").reshape(3, 2)
    np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(x)).numpy(), x)


def test_files_that_are_gone_are_named_with_what_makes_them_again(tmp_path: Path):
    for read in (load_module, load_params):
        with pytest.raises(InputError, match="no such") as caught:
            read(tmp_path / "gone")
        assert "`tvmake make` rebuilds it" in (caught.value.remedy or "")
