"""Functions that return Relax modules."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.frontend.compiled import run_compiled
from tvmake.errors import InputError
from tvmake.frontend.inspect import inspect_source
from tvmake.frontend.options import ImportOptions, InputSpec
from tvmake.frontend.relax.importer import read
from tvmake.validate.reference.run import open_reference

SOURCE = """
import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend import nn


def module(name="main", rows=2, out=False):
    builder = relax.BlockBuilder()
    rows = tvm.tirx.Var(rows, "int64") if isinstance(rows, str) else rows
    x = relax.Var("x", relax.TensorType((rows, 4), "float32"))
    w = relax.Var("w", relax.TensorType((4, 3), "float32"))
    with builder.function(name, [w, x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, w))
            found = builder.emit_output(relax.Tuple([y, relax.op.nn.relu(y)]) if out else y)
        builder.emit_func_output(found)
    return builder.finalize()


def weights():
    return {"w": np.arange(12, dtype="float32").reshape(4, 3) / 12}


def with_params(**settings):
    return module(**settings), weights()


def other_name():
    return with_params(name="score")


def from_nn():
    class Scorer(nn.Module):
        def __init__(self):
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            return nn.op.relu(self.head(x))

    scorer = Scorer()
    scorer.head.weight.data = np.random.standard_normal((3, 4)).astype("float32")
    scorer.head.bias.data = np.ones(3, "float32")
    return scorer.export_tvm(spec={"forward": {"x": nn.spec.Tensor((2, 4), "float32")}})


def wrong_shape():
    return module(), {"w": np.zeros((3, 4), "float32")}


def unknown_name():
    return module(), {"v": np.zeros((3, 4), "float32")}


def badly_formed():
    found = module()
    main = found["main"]
    found["main"] = relax.Function(main.params[:1], main.body, main.ret_ty)
    return found


def broken():
    raise ValueError("no weights here")


def number():
    return 3
"""

W = np.arange(12, dtype="float32").reshape(4, 3) / 12
X = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module in the working directory with a unique name, so that no other test has imported it."""
    module_name = f"relax_networks_{abs(hash(request.node.name))}"
    (tmp_path / f"{module_name}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere", *sys.path])
    return module_name


def options(source: str, **settings) -> ImportOptions:
    return ImportOptions(source=source, **{"format": "relax", "trusted": True, **settings})


def imported(source: str, **settings):
    return read(Path(source), options(source, **settings))


def test_a_module_is_imported_with_its_inputs_before_its_parameters(name: str):
    model = imported(f"{name}:with_params")
    assert [(spec.name, spec.shape) for spec in model.signature.inputs] == [("x", (2, 4))]
    assert [(spec.name, spec.shape) for spec in model.signature.outputs] == [("output", (2, 3))]
    assert list(model.params) == ["w"]
    np.testing.assert_allclose(run_compiled(model, [X])[0], X @ W, rtol=1e-5)


def test_arguments_go_to_the_function_and_outputs_of_a_tuple_are_numbered(name: str):
    model = imported(f"{name}:with_params", arguments={"out": True})
    assert [spec.name for spec in model.signature.outputs] == ["output_0", "output_1"]
    np.testing.assert_allclose(run_compiled(model, [X])[1], np.maximum(X @ W, 0), rtol=1e-5)


def test_without_parameters_every_argument_is_an_input(name: str):
    assert [spec.name for spec in imported(f"{name}:module").signature.inputs] == ["w", "x"]


def test_a_single_function_of_any_name_is_the_entry(name: str):
    model = imported(f"{name}:other_name")
    np.testing.assert_allclose(run_compiled(model, [X])[0], X @ W, rtol=1e-5)


def test_an_export_of_tvms_nn_keeps_its_parameters_and_draws_by_the_seed(name: str):
    model, again, other = (imported(f"{name}:from_nn", seed=seed) for seed in (0, 0, 1))
    weight, bias = model.params["head.weight"], model.params["head.bias"]
    np.testing.assert_allclose(run_compiled(model, [X])[0], np.maximum(X @ weight.T + bias, 0), rtol=1e-5, atol=1e-6)
    assert model.notes["weights"] == again.notes["weights"] != other.notes["weights"]


def test_a_dynamic_dimension_is_named_or_fixed_by_the_config(name: str):
    source, arguments = f"{name}:with_params", {"rows": "n"}
    assert imported(source, arguments=arguments).signature.inputs[0].shape == ("n", 4)
    named, fixed = (
        imported(source, arguments=arguments, inputs={"x": InputSpec(shape=shape)}) for shape in (["batch", 4], [5, 4])
    )
    assert named.signature.outputs[0].shape == ("batch", 3)
    assert (fixed.signature.inputs[0].shape, fixed.signature.outputs[0].shape) == ((5, 4), (5, 3))


def test_the_reference_is_tvms_own_build_of_the_module(name: str):
    given = options(f"{name}:with_params")
    model = read(Path(given.source), given)
    runtime = open_reference(given.source, given, model.signature)
    assert runtime.name.startswith("apache-tvm ") and runtime.weights == model.notes["weights"]
    np.testing.assert_allclose(runtime.run({"x": X})["output"], X @ W, rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("broken", r"the function fails: ValueError: no weights here \(relax_networks_\d+\.py:\d+\)"),
        ("badly_formed", "TVM finds its module badly formed: "),
        ("number", "the function returns int, not an IRModule"),
        ("nothing", "has no function 'nothing'"),
        ("wrong_shape", r"its parameter 'w' is float32 \(3, 4\), the argument is R.Tensor"),
        ("unknown_name", "its function 'main' has no argument 'v'"),
    ],
)
def test_a_function_that_returns_no_valid_module_is_refused_in_one_line(name: str, function: str, problem: str):
    with pytest.raises(InputError, match=problem):
        imported(f"{name}:{function}")


def test_the_function_runs_only_if_it_is_trusted(name: str):
    with pytest.raises(InputError, match="trusted: true"):
        imported(f"{name}:module", trusted=False)


def test_check_looks_for_the_file(name: str):
    assert inspect_source(options(f"{name}:module")).format == "relax"
    with pytest.raises(InputError, match=r"there is no Python module nowhere\.py"):
        inspect_source(options("nowhere:module"))
