import contextlib
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim, export, save

from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch import importer as torch_export
from tvmake.frontend.torch import program as torch_program
from tvmake.frontend.torch.pt2 import archive as pt2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, ids):
        return {"logits": self.head(self.table(ids)).sum(1) * self.scale + torch.tensor([0.5, 0.5, 0.5])}


class Rand(nn.Module):
    def forward(self, x):
        return x + torch.rand(4)


class Nonzero(nn.Module):
    def forward(self, x):
        return torch.nonzero(x)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    torch.manual_seed(0)
    ids = torch.zeros(2, 6, dtype=torch.int64)
    batch = Dim("batch", max=100)
    save(export(Net().eval(), (ids,), dynamic_shapes={"ids": {0: batch, 1: 2 * Dim("half", max=50)}}), path)
    return path


def load(path, **settings):
    return pt2.load(path, ImportOptions(source=str(path), **settings))


def test_a_saved_program_is_loaded_unchanged(saved):
    ids = torch.tensor([[1, 2, 3, 9]])
    restricted, trusted = load(saved), load(saved, trusted=True)
    assert torch.equal(torch_program.run(restricted, [ids])[0], torch_program.run(trusted, [ids])[0])


def test_inspect_returns_names_shapes_dtypes_and_ranges(saved):
    signature = pt2.inspect(saved)
    (ids,) = signature.inputs
    assert (ids.name, ids.dtype, ids.range) == ("ids", "int64", (0, 9))
    assert [isinstance(extent, str) for extent in ids.shape] == [True, True]
    assert [(spec.name, spec.shape[1], spec.dtype) for spec in signature.outputs] == [("logits", 3, "float32")]


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        (nn.Sequential(nn.Dropout()).train(), "exported in training mode: dropout"),
        (nn.LSTM(4, 4, num_layers=2, dropout=0.5).train(), "exported in training mode"),
        (nn.Linear(4, 4).half(), "computes in half precision"),
        (Rand(), "draws random numbers: aten.rand"),
        (Nonzero(), "the shape that aten.nonzero.default returns depends on the data"),
    ],
    ids=["training", "recurrent training", "half", "rand", "nonzero"],
)
def test_inspect_refuses_programs_that_cannot_be_imported(tmp_path, network, problem):
    x = torch.ones(2, 4, dtype=next((weight.dtype for weight in network.parameters()), torch.float32))
    save(export(network, (x,)), tmp_path / "net.pt2")
    with pytest.raises(InputError, match=problem):
        pt2.inspect(tmp_path / "net.pt2")


@pytest.mark.parametrize("layer", [nn.GRU(4, 4), nn.LSTM(4, 4), nn.RNN(4, 4), nn.RNN(4, 4, nonlinearity="relu")])
def test_inspect_accepts_recurrent_layers(tmp_path, layer):
    """PyTorch tags them as random, because of the dropout between layers in training."""
    save(export(layer, (torch.ones(2, 3, 4),)), tmp_path / "net.pt2")
    assert len(pt2.inspect(tmp_path / "net.pt2").outputs) > 1


def test_derived_dimensions_are_loaded(saved):
    model = torch_export.read(load(saved), ImportOptions(source=str(saved), inputs={"ids": {"shape": [3, 8]}}))
    assert model.signature.inputs[0].shape == (3, 8)


def test_none_among_the_outputs_is_dropped(tmp_path):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2)

        def forward(self, x):
            found, weights = self.attention(x, x, x, need_weights=False)
            return {"weights": weights, "found": (found, [weights, {"sum": found.sum()}])}

    module, x = Attention().eval(), torch.randn(3, 1, 4)
    save(export(module, (x,)), tmp_path / "net.pt2")
    program = load(tmp_path / "net.pt2")
    assert len(torch_program.signature("net", program).outputs) == 2
    expected = module(x)["found"]
    for found in (torch_program.run(program, [x]), torch_program.run(load_saved_again(program, tmp_path), [x])):
        torch.testing.assert_close(found, [expected[0], expected[1][1]["sum"]])


LIBRARY = """
import sys
from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils import _pytree as pytree


class Output(OrderedDict):
    pass


@dataclass
class State:
    hidden: torch.Tensor
    cell: torch.Tensor
    steps: object = None


class Net(nn.Module):
    def forward(self, x, state):
        return Output(found=x + state.hidden, state=State(hidden=x * state.cell, cell=state.cell + 1))


pytree.register_pytree_node(
    Output,
    lambda output: (list(output.values()), list(output)),
    lambda values, names: Output(zip(names, values)),
    serialized_type_name="library.outputs.Output",
)
torch.export.register_dataclass(State, serialized_type_name="library.State")
inputs = (torch.ones(2), State(torch.ones(2), torch.ones(2)))
program = torch.export.export(Net().eval(), inputs)
if "without_examples" in sys.argv:
    program.example_inputs = None
torch.export.save(program, sys.argv[1])
"""


def of_library(tmp_path, *arguments):
    (tmp_path / "library.py").write_text(LIBRARY)
    subprocess.run([sys.executable, tmp_path / "library.py", tmp_path / "net.pt2", *arguments], check=True)
    return tmp_path / "net.pt2"


@pytest.mark.parametrize("trusted", [False, True])
def test_containers_of_a_library_are_read_without_it(trusted, tmp_path):
    path = of_library(tmp_path, "without_examples")
    for program in (load(path, trusted=trusted), load(path, trusted=trusted)):
        names = [spec.name for spec in torch_program.signature("net", program).outputs]
        assert names == ["found", "state_hidden", "state_cell"]
        inputs = [torch.randn(2) for _ in range(3)]
        expected = [inputs[0] + inputs[1], inputs[0] * inputs[2], inputs[2] + 1]
        torch.testing.assert_close(torch_program.run(program, inputs), expected)


@pytest.mark.parametrize("trusted", [False, True])
def test_example_inputs_of_a_library_are_refused_with_a_remedy(trusted, tmp_path):
    with pytest.raises(InputError, match=r"example inputs in objects of '__main__\.State'") as refused:
        load(of_library(tmp_path), trusted=trusted)
    assert "program.example_inputs = None" in refused.value.remedy


def load_saved_again(program, tmp_path):
    save(program, tmp_path / "again.pt2")
    return load(tmp_path / "again.pt2")


def test_bad_files_are_refused_in_one_line(tmp_path, saved):
    whole = saved.read_bytes()
    damaged = bytearray(whole)
    damaged[whole.index(b'"config"') + 5] ^= 1
    files = {
        "empty.pt2": (b"", "is empty"),
        "garbage.pt2": (bytes(range(256)) * 8, "is not a .pt2 archive"),
        "truncated.pt2": (whole[: len(whole) // 2], "is truncated"),
        "damaged.pt2": (bytes(damaged), "is damaged"),
    }
    for name, (content, problem) in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        for settings in ({}, {"trusted": True}):
            with pytest.raises(InputError, match=problem):
                load(path, **settings)
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "absent.pt2")
    with pytest.raises(InputError, match="is a directory"):
        load(tmp_path)


def test_other_archives_are_named(tmp_path):
    script, weights, plain = tmp_path / "script.pt2", tmp_path / "weights.pt2", tmp_path / "plain.pt2"
    module = nn.Linear(2, 2).eval()
    torch.jit.save(torch.jit.trace(module, torch.zeros(1, 2)), script)
    torch.save(module.state_dict(), weights)
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("notes/readme.txt", "hello")
    for path, problem in (
        (script, "TorchScript"),
        (weights, "torch.save, with weights and without the network"),
        (plain, "not a .pt2 of PyTorch"),
    ):
        with pytest.raises(InputError, match=problem):
            load(path)


# Files that run code when PyTorch loads them, or when the loaded program is run.


class Touch:
    """Creates a file when unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (os.mkdir, (str(self.marker),))


def rewritten(source: Path, target: Path, change) -> Path:
    """Copy an archive after ``change(members)``, with its members in a dict by their names below the root."""
    with zipfile.ZipFile(source) as archive:
        root = archive.namelist()[0].partition("/")[0]
        members = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{root}/{name}", content)
    return target


def pickled(value) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def edit(members, name, old, new):
    text = members[name].decode()
    assert old in text
    members[name] = text.replace(old, new).encode()


def call(marker):
    return f"__import__('os').mkdir('{marker}')"


def in_sample_inputs(members, marker):
    members["data/sample_inputs/model.pt"] = pickled(((Touch(marker),), {}))


def in_a_weight(members, marker):
    name = "data/weights/model_weights_config.json"
    config = json.loads(members[name])
    entry = next(iter(config["config"].values()))
    entry["use_pickle"] = True
    members[name] = json.dumps(config).encode()
    members[f"data/weights/{entry['path_name']}"] = pickled(Touch(marker))


def in_an_opaque_constant(members, marker):
    name = "data/constants/model_constants_config.json"
    config = json.loads(members[name])
    config["config"]["extra"] = {
        "path_name": "opaque_obj_0",
        "is_param": False,
        "use_pickle": True,
        "tensor_meta": None,
    }
    members[name] = json.dumps(config).encode()
    members["data/constants/opaque_obj_0"] = pickle.dumps(Touch(marker))


def in_a_shape_expression(members, marker):
    program = json.loads(members["models/model.json"])
    sizes = program["graph_module"]["graph"]["tensor_values"]["ids"]["sizes"]
    expression = sizes[0]["as_expr"]["expr_str"]
    sizes[0]["as_expr"]["expr_str"] = f"({call(marker)}, {expression})[1]"
    members["models/model.json"] = json.dumps(program).encode()


def in_a_shape_expression_below_a_name(members, marker):
    """The name is a field in other parts of the file."""
    in_a_shape_expression(members, marker)
    program = json.loads(members["models/model.json"])
    graph = program["graph_module"]["graph"]
    graph["tensor_values"]["metadata"] = graph["tensor_values"]["ids"]
    members["models/model.json"] = json.dumps(program).encode()


def in_a_guard(members, marker):
    program = json.loads(members["models/model.json"])
    program["guards_code"] = [f"{call(marker)} is None"]
    members["models/model.json"] = json.dumps(program).encode()


def in_an_argument_name(members, marker):
    edit(members, "models/model.json", '"name": "ids"', f'"name": "ids = {call(marker)}"')
    edit(members, "models/model.json", '"ids": {"dtype"', f'"ids = {call(marker)}": {{"dtype"')


ATTACKS = (
    in_sample_inputs,
    in_a_weight,
    in_an_opaque_constant,
    in_a_shape_expression,
    in_a_shape_expression_below_a_name,
    in_a_guard,
    in_an_argument_name,
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_code_in_a_file_does_not_run(attack, saved, tmp_path):
    marker = tmp_path / "it_ran"
    crafted = rewritten(saved, tmp_path / "crafted.pt2", lambda members: attack(members, marker))
    with contextlib.suppress(Exception):
        torch.export.load(crafted).module()(torch.zeros(2, 6, dtype=torch.int64))
    assert marker.exists(), "the crafted file is harmless: this test would prove nothing"
    marker.rmdir()
    with pytest.raises(InputError) as caught:
        load(crafted)
    assert not marker.exists()
    assert "\n" not in caught.value.problem


@pytest.mark.parametrize(
    "operator",
    [
        "torch.os.mkdir",
        "torch.ops.load_library",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.__init__.__globals__",
        "torch.ops.mine.op.default",
        "_operator.call",
        "math.__loader__.load_module",
        "#custom:op",
    ],
)
def test_unknown_operators_need_trust(operator, saved, tmp_path):
    def change(members):
        program = json.loads(members["models/model.json"])
        program["graph_module"]["graph"]["nodes"][0]["target"] = operator
        members["models/model.json"] = json.dumps(program).encode()

    with pytest.raises(InputError, match="it calls '") as caught:
        load(rewritten(saved, tmp_path / "crafted.pt2", change))
    assert operator in caught.value.problem


def test_compiled_code_in_the_archive_needs_trust(saved, tmp_path):
    crafted = rewritten(
        saved, tmp_path / "aot.pt2", lambda members: members.update({"data/aotinductor/model/kernel.so": b"\x7fELF"})
    )
    with pytest.raises(InputError, match="could run code") as caught:
        load(crafted)
    assert "trusted: true" in caught.value.remedy


def test_the_old_pickled_format_needs_trust(tmp_path):
    path = tmp_path / "old.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", "8.14")
        archive.writestr("serialized_state_dict.pt", pickled(Touch(tmp_path / "it_ran")))
    with pytest.raises(InputError, match=r"not a \.pt2 of PyTorch 2\.8 or later") as caught:
        load(path)
    assert "export the model again with PyTorch 2." in caught.value.remedy
    assert not (tmp_path / "it_ran").exists()


@pytest.mark.parametrize("settings", [{}, {"trusted": True}])
def test_the_error_names_the_version_that_wrote_the_file(settings, saved, tmp_path):
    def change(members, schema=(99, 0), version="3.1.0+cu999"):
        program = json.loads(members["models/model.json"])
        program["schema_version"] = dict(zip(("major", "minor"), schema, strict=True))
        program["torch_version"] = version
        members["models/model.json"] = json.dumps(program).encode()

    with pytest.raises(
        InputError, match=r"PyTorch 3\.1\.0\+cu999 wrote it, and the one installed, 2\..* cannot load it"
    ) as caught:
        load(rewritten(saved, tmp_path / "later.pt2", change), **settings)
    assert "export the model again with PyTorch 2." in caught.value.remedy
    with pytest.raises(InputError, match=r"2\.pt2: PyTorch .* cannot load it"):
        same = torch.__version__
        load(rewritten(saved, tmp_path / "2.pt2", lambda members: change(members, version=same)), **settings)


def test_loading_restores_the_environment(saved, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    load(saved)
    assert os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "1"
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_a_quantised_program_is_loaded_in_a_new_process(tmp_path):
    """PT2E's operators are registered by a module that nothing else imports."""
    import torch.ao.quantization.fx._decomposed

    class Rounded(nn.Module):
        def forward(self, x):
            return torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)

    path = tmp_path / "net.pt2"
    save(export(Rounded(), (torch.ones(3),)), path)
    code = f"""
from pathlib import Path
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.pt2.archive import load
print(len(load(Path({str(path)!r}), ImportOptions(source="net.pt2")).graph.nodes))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "3\n"
