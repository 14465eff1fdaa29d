"""Inputs that the config gives a value are parameters of the package, in every format whose inputs a file states."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.frontend.compiled import run_compiled
from tests.frontend.tflite.models import Builder, schema
from tests.requirements import need_module
from tvmake.errors import InputError
from tvmake.frontend.fixed_inputs import bind_values, fixed_inputs
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.run import open_reference

need_module("jax", "pip install 'tvmake[stablehlo]'")

from tests.frontend.stablehlo.programs import write  # noqa: E402
from tvmake.frontend.stablehlo.importer import read as read_stablehlo  # noqa: E402
from tvmake.frontend.tflite.importer import read as read_tflite  # noqa: E402
from tvmake.frontend.torch.importer import read as read_torch  # noqa: E402
from tvmake.frontend.torch.source import load_program  # noqa: E402

X = np.arange(6, dtype="float32").reshape(2, 3)

SCALE = [1.0, 0.5, 2.0]


class Scaled(torch.nn.Module):
    def forward(self, scale, x):
        return x * scale - 1


def pt2(path: Path) -> ImportOptions:
    file = path / "m.pt2"
    torch.export.save(torch.export.export(Scaled(), (torch.ones(3), torch.from_numpy(X))), file)
    return ImportOptions(source=str(file))


def stablehlo(path: Path) -> ImportOptions:
    return ImportOptions(source=str(write(path / "m.mlir", lambda scale, x: x * scale - 1, np.ones(3, "float32"), X)))


def tflite(path: Path) -> ImportOptions:
    graph = Builder()
    scale, x, one = graph.tensor("scale", [3]), graph.tensor("x", [2, 3]), graph.tensor("one", [], data=1.0)
    operator, kind = schema.BuiltinOperator, schema.BuiltinOptions
    scaled = graph.call(operator.MUL, [x, scale], graph.tensor("scaled", [2, 3]), schema.MulOptionsT(), kind.MulOptions)
    y = graph.call(operator.SUB, [scaled, one], graph.tensor("y", [2, 3]), schema.SubOptionsT(), kind.SubOptions)
    (path / "m.tflite").write_bytes(graph.finish([scale, x], [y]))
    return ImportOptions(source=str(path / "m.tflite"))


def imported(options: ImportOptions) -> ImportedModel:
    source = options.source
    if source.endswith(".pt2"):
        return bind_values(read_torch(load_program(source, options), options), fixed_inputs(options))
    read = read_tflite if source.endswith(".tflite") else read_stablehlo
    return bind_values(read(Path(source), options), fixed_inputs(options))


@pytest.mark.parametrize("make", [pt2, stablehlo, tflite])
def test_a_value_is_an_input_no_longer_and_the_reference_gets_it(make, tmp_path: Path):
    plain = make(tmp_path)
    name = imported(plain).signature.inputs[0].name
    options = ImportOptions(source=plain.source, inputs={name: {"value": SCALE}})
    model = imported(options)
    (spec,) = model.signature.inputs
    expected = X * np.float32(SCALE) - 1
    np.testing.assert_array_equal(run_compiled(model, [X])[0], expected)
    outputs = open_reference(options.source, options, model.signature).run({spec.name: X})
    np.testing.assert_array_equal(next(iter(outputs.values())), expected)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("scale", [1, 2], r"input 'scale' is float32\[3\], which cannot be \[1, 2\]"),
        ("scale", True, r"input 'scale' is float32\[3\], which cannot be True"),
        ("scales", 1, "the model has no input 'scales'; did you mean 'scale'?"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(name: str, value, problem: str, tmp_path: Path):
    options = ImportOptions(source=pt2(tmp_path).source, inputs={name: {"value": value}})
    with pytest.raises(InputError, match=problem):
        imported(options)


def test_a_source_that_has_to_run_to_know_its_inputs_takes_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "networks.py").write_text("def make(): ...")
    options = ImportOptions(source="networks:make", inputs={"x": {"value": 1}})
    with pytest.raises(InputError, match="the inputs of this source are known only when it runs"):
        fixed_inputs(options)
