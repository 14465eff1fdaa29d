import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.frontend.compiled import run_compiled
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch import factory
from tvmake.frontend.torch import importer as torch_export
from tvmake.frontend.torch import program as torch_program
from tvmake.frontend.torch import source as torch_source

SOURCE = """
import torch
from torch import nn

class Scorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.table = nn.Embedding(20, width)
        self.head = nn.Sequential(nn.Linear(width, 3), nn.Dropout(0.5))

    def forward(self, ids, bias, factor=2.0):
        return self.head(self.table(ids).mean(1)) * factor + bias

def scorer(width=4):
    return Scorer(width)

def scorer_with_examples(width=4):
    return Scorer(width), (torch.zeros(2, 5, dtype=torch.int64), torch.zeros(3))

def broken(width=4):
    widths = {}
    return Scorer(widths["wide"])

def number():
    return 3

def leaving():
    raise SystemExit("bye")

class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x

def branching():
    return Branching()

class Many(nn.Module):
    def forward(self, *parts):
        return torch.cat(parts)

def many():
    return Many()

def scorer_with_named_examples(width=4):
    _, (ids, bias) = scorer_with_examples()
    return Scorer(width), {"bias": bias, "ids": ids}

def scorer_with_other_names():
    return Scorer(4), {"words": torch.zeros(3)}

def without_weights():
    with torch.device("meta"):
        return Scorer(4), scorer_with_examples()[1]

class Further(nn.Module):
    def forward(self, x, *, scale=2.0, **further):
        return x * scale

def further():
    return Further()

def program():
    return torch.export.export(*scorer_with_examples())

def wandering():
    import os
    os.chdir("/")
    return scorer_with_examples()

def scripted():
    return torch.jit.script(nn.Linear(4, 4)), torch.zeros(4)

def traced():
    return torch.jit.trace(nn.Linear(4, 4), torch.zeros(4)), torch.zeros(4)

class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.jit.script(nn.Linear(4, 4))

    def forward(self, x):
        return self.layer(x) * 2

def scripted_part():
    return Holder(), torch.zeros(1, 4)

class Sign(nn.Module):
    def forward(self, x):
        if bool(x.max() > 0):
            return -x
        return x

def branching_part():
    holder = Holder()
    holder.layer = torch.jit.script(Sign())
    return holder, torch.zeros(1, 4)

def quantised():
    layer = torch.ao.nn.quantized.Linear(4, 4)
    return nn.Sequential(torch.ao.nn.quantized.Quantize(1.0, 0, torch.quint8), layer), torch.zeros(1, 4)
"""

SHAPES = {"ids": {"shape": [2, 5], "dtype": "int64"}, "bias": {"shape": [3]}}


@pytest.fixture
def module_name(tmp_path, monkeypatch, request):
    """A module in the working directory, with a unique name so that no other test has imported it."""
    name = f"networks_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere", *sys.path])
    return name


def export(module_name, function, **settings):
    options = ImportOptions(source=f"{module_name}:{function}", **{"trusted": True, **settings})
    return factory.export(options.source, options)


def test_a_module_in_the_working_directory_is_built_in_eval_mode_and_imported(module_name):
    options = ImportOptions(source=f"{module_name}:scorer", trusted=True, inputs=SHAPES, arguments={"width": 6})
    assert options.source_format() == "factory"
    program = torch_source.load_program(options.source, options)
    model = torch_export.read(program, options)
    assert [(spec.name, spec.shape, spec.range) for spec in model.signature.inputs] == [
        ("ids", (2, 5), (0, 19)),
        ("bias", (3,), None),
    ]
    assert model.params["p_table_weight"].shape == (20, 6)
    ids, bias = np.array([[1, 2, 3, 4, 19]] * 2), np.float32([1, 2, 3])
    torch_inputs = [torch.from_numpy(value) for value in (ids, bias)]
    np.testing.assert_allclose(
        run_compiled(model, [ids, bias])[0], torch_program.run(program, torch_inputs)[0].numpy(), rtol=1e-4, atol=1e-5
    )


def test_the_seed_determines_the_weights(module_name):
    first, again, other = (
        export(module_name, "scorer", inputs=SHAPES, seed=seed).state_dict["table.weight"] for seed in (1, 1, 2)
    )
    assert first.equal(again)
    assert not first.equal(other)


def test_example_inputs_provide_missing_shapes(module_name):
    program = export(module_name, "scorer_with_examples", inputs={"ids": {"shape": [7, 2]}})
    shapes = [spec.shape for spec in torch_program.signature("", program).inputs]
    assert shapes == [(7, 2), (3,)]


def test_a_named_dimension_is_dynamic(module_name):
    shapes = {"ids": {"shape": ["batch", "words"], "dtype": "int64"}, "bias": {"shape": [3]}}
    program = export(module_name, "scorer", inputs=shapes)
    signature = torch_export.read(program, ImportOptions(source="m:scorer", inputs=shapes)).signature
    assert signature.inputs[0].shape == ("batch", "words")
    assert signature.outputs[0].shape == ("batch", 3)


def test_a_factory_runs_only_when_trusted(module_name, tmp_path):
    (tmp_path / f"{module_name}.py").write_text("open('it_ran', 'w')")
    with pytest.raises(InputError) as caught:
        export(module_name, "scorer", trusted=False)
    assert "trusted: true" in caught.value.remedy
    assert not (tmp_path / "it_ran").exists()


def test_optional_keyword_arguments_are_not_inputs(module_name):
    program = export(module_name, "further", inputs={"x": {"shape": ["batch", 3]}})
    found = torch_program.signature("net", program)
    assert [(spec.name, spec.shape[1]) for spec in found.inputs] == [("x", 3)] and isinstance(
        found.inputs[0].shape[0], str
    )


def test_example_inputs_may_be_given_by_name(module_name):
    shapes = [
        [spec.shape for spec in torch_program.signature("net", export(module_name, function)).inputs]
        for function in ("scorer_with_named_examples", "scorer_with_examples")
    ]
    assert shapes[0] == shapes[1] == [(2, 5), (3,)]


@pytest.mark.parametrize(
    ("function", "settings", "problem"),
    [
        ("scorer", {}, "no shape for the input 'ids'"),
        ("scorer", {"inputs": {"ids": {"shape": [2, 5], "dtype": "int64"}}}, "no shape for the input 'bias'"),
        ("scorer", {"inputs": SHAPES | {"words": {"shape": [1]}}}, "forward.. has no argument 'words'"),
        ("scorer", {"inputs": SHAPES | {"bias": {"shape": [3], "dtype": "float"}}}, "no dtype 'float'"),
        ("scorer_with_examples", {"inputs": {"bias": {"dtype": "float64"}}}, "is float32 in the factory's example"),
        ("scorer", {"arguments": {"depth": 3}}, "the factory fails: TypeError: .*'depth'"),
        ("number", {}, "returns int, not a module"),
        ("scorer_with_other_names", {}, "its example inputs are called words; forward.. begins with ids"),
        ("without_weights", {}, "has no weights, only their shapes"),
        ("program", {}, "returns ExportedProgram, not a module"),
        ("many", {"inputs": SHAPES}, r"takes \*args"),
        ("scorers", {}, "has no function 'scorers'"),
        ("leaving", {}, r"fails: SystemExit: bye \(.*py:28\)"),
    ],
)
def test_mistakes_are_reported_in_one_line(module_name, function, settings, problem):
    with pytest.raises(InputError, match=problem) as caught:
        export(module_name, function, **settings)
    assert "\n" not in caught.value.problem
    assert caught.value.remedy


def test_a_change_of_the_directory_is_undone(module_name):
    before = Path.cwd()
    export(module_name, "wandering")
    assert Path.cwd() == before


def test_an_error_in_the_factory_names_its_line(module_name):
    line = SOURCE.splitlines().index('    return Scorer(widths["wide"])') + 1
    with pytest.raises(InputError) as caught:
        export(module_name, "broken")
    assert caught.value.problem == f"the factory fails: KeyError: 'wide' ({module_name}.py:{line})"


def test_the_error_for_an_untraceable_module_names_its_line(module_name, tmp_path):
    line = SOURCE.splitlines().index("        if x.sum() > 0:") + 1
    with pytest.raises(InputError, match=f"branches on the values of its tensors .*{module_name}.py:{line}"):
        export(module_name, "branching", inputs={"x": {"shape": [3]}})


@pytest.mark.parametrize("function", ["scripted", "traced"])
def test_a_torchscript_module_is_refused(module_name, function):
    with pytest.raises(InputError, match="it is a TorchScript module"):
        export(module_name, function)


def test_an_untraceable_torchscript_submodule_is_named(module_name):
    with pytest.raises(InputError, match=r"(?s)cannot trace it.*its module 'layer' is TorchScript"):
        export(module_name, "branching_part")


def test_layers_quantised_for_pytorchs_own_kernels_are_named(module_name):
    with pytest.raises(
        InputError, match=r"quantised layers that torch.export cannot trace: .*Linear \(1×\).*Quantize \(1×\)"
    ):
        export(module_name, "quantised")


def test_modules_that_cannot_be_imported_are_distinguished(module_name, tmp_path):
    with pytest.raises(InputError, match="no module named 'absent_module'"):
        export("absent_module", "net")
    (tmp_path / f"{module_name}.py").write_text("import absent_library\n")
    with pytest.raises(
        InputError, match=rf"ModuleNotFoundError: No module named 'absent_library' \(.*{module_name}\.py:1\)"
    ):
        export(module_name, "net")
    (tmp_path / f"{module_name}_2.py").write_text("def net(:\n")
    with pytest.raises(InputError, match=rf"SyntaxError: .*{module_name}_2\.py:1\)"):
        export(f"{module_name}_2", "net")
