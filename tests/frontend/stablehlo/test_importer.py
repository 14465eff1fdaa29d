"""StableHLO files: their forms, names and refusals."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.frontend.compiled import run_compiled
from tests.requirements import need_module
from tvmake.artifact.signature import TensorSpec
from tvmake.errors import InputError, MachineError
from tvmake.frontend.inspect import configured, inspect_source
from tvmake.frontend.options import ImportOptions, InputSpec
from tvmake.stages.model.import_model import import_model
from tvmake.validate.reference.run import open_reference, reference_outputs

need_module("jax", "pip install 'tvmake[stablehlo]'")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from tests.frontend.stablehlo.programs import drawn, export, write  # noqa: E402
from tvmake.frontend.stablehlo.importer import read  # noqa: E402
from tvmake.frontend.stablehlo.source import inspect  # noqa: E402


def network(x):
    return {"logits": jax.nn.relu(x @ drawn(4, 64, seed=1)) @ drawn(64, 3, seed=2), "mean": x.mean(1)}


X = drawn(2, 4)


def options(path: Path, **settings) -> ImportOptions:
    return ImportOptions(source=str(path), **settings)


def refusal(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as refused:
        read(path, options(path))
    return str(refused.value)


@pytest.mark.parametrize("name", ["m.mlir", "m.mlirbc", "m.stablehlo"])
def test_text_and_portable_artifacts_are_the_same_model(tmp_path: Path, name: str):
    path = write(tmp_path / name, network, X)
    model = read(path, options(path))
    assert [spec.name for spec in model.signature.inputs] == ["x"]
    assert [spec.name for spec in model.signature.outputs] == ["logits", "mean"]
    assert sorted(value.numpy().shape for value in model.params.values()) == [(4, 64), (64, 3)]
    for found, expected in zip(run_compiled(model, [X]), network(X).values(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_text_without_locations_has_numbered_inputs(tmp_path: Path):
    text = jax.jit(lambda a, b: (a + b, a)).lower(X, X).as_text()
    (tmp_path / "m.mlir").write_text(text)
    signature = inspect(tmp_path / "m.mlir")
    assert [spec.name for spec in signature.inputs] == ["arg0", "arg1"]
    assert [spec.name for spec in signature.outputs] == ["output_0", "output_1"]
    assert signature.inputs[0] == TensorSpec(name="arg0", relax_name="arg0", shape=(2, 4), dtype="float32")


def test_a_program_runs_in_jax_as_its_reference(tmp_path: Path):
    path = write(tmp_path / "m.mlir", network, X)
    [found] = reference_outputs(open_reference(str(path), options(path), inspect(path)), inspect(path), [{"x": X}])
    for name, expected in network(X).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5)


def test_64_bits_stay_64_bits(tmp_path: Path):
    value = np.random.default_rng(0).standard_normal((2, 3))
    with jax.enable_x64(True):
        path = write(tmp_path / "m.mlir", lambda x: x / 3 + jnp.linspace(0, 1, 3), value)
    expected = value / 3 + np.linspace(0, 1, 3)
    model = read(path, options(path))
    [reference] = reference_outputs(
        open_reference(str(path), options(path), model.signature), model.signature, [{"x": value}]
    )
    for found in (run_compiled(model, [value])[0], reference["output"]):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_an_input_that_looks_up_rows_has_their_range(tmp_path: Path):
    def lookup(ids, x):
        return jnp.take(jnp.asarray(drawn(10, 4)), ids, axis=0) + x

    path = write(tmp_path / "m.mlir", lookup, np.zeros((2, 3), "int32"), drawn(4))
    assert [spec.range for spec in read(path, options(path)).signature.inputs] == [(0, 9), None]


def test_a_config_that_contradicts_the_program_is_refused_by_check(tmp_path: Path):
    path = write(tmp_path / "m.mlir", network, X)
    declared = inspect_source(options(path))
    assert [spec.shape for spec in declared.inputs] == [(2, 4)]
    with pytest.raises(InputError, match="the model has no input 'y'"):
        configured(declared, options(path, inputs={"y": InputSpec()}))
    with pytest.raises(InputError, match="axis 0 of input 'x' is fixed to 2"):
        configured(declared, options(path, inputs={"x": InputSpec(shape=[1, 4])}))


def test_every_operator_that_is_not_converted_is_listed(tmp_path: Path):
    def exotic(x):
        return jnp.linalg.qr(x)[0], jnp.linalg.svd(x)[1]

    path = write(tmp_path / "m.mlir", exotic, X)
    with pytest.raises(InputError, match="operators are not converted: ") as refused:
        read(path, options(path))
    assert "custom_call @lapack_sgesdd_ffi (1×, of jax' svd)" in str(refused.value)
    assert "custom_call @lapack_sgeqrf_ffi (1×, of jax' geqrf)" in str(refused.value)


def test_half_precision_inside_a_program_is_refused(tmp_path: Path):
    path = write(tmp_path / "m.mlir", lambda x: (x.astype("bfloat16") * 2).astype("float32"), X)
    with pytest.raises(InputError, match=r"(?s)computes in half precision \(bfloat16: .*float16\]"):
        read(path, options(path))


def test_a_sort_by_computed_keys_is_refused(tmp_path: Path):
    path = write(tmp_path / "m.mlir", lambda x: lax.sort((x, -x), num_keys=1), X)
    text = path.read_text().replace("stablehlo.compare LT, %", "stablehlo.compare NE, %")
    path.write_text(text)
    with pytest.raises(InputError, match=r"stablehlo\.sort in a form that is not converted: by anything but"):
        read(path, options(path))


def test_a_form_of_an_operator_that_is_not_converted_is_named(tmp_path: Path):
    def odd(x):
        return lax.reduce(x, np.float32(1), lambda a, b: a * b + a, (1,))

    path = write(tmp_path / "m.mlir", odd, X)
    with pytest.raises(
        InputError, match=r"stablehlo\.reduce in a form that is not converted: that combines float32 by"
    ):
        read(path, options(path))


def test_inputs_of_half_precision_are_refused(tmp_path: Path):
    path = tmp_path / "m.mlir"
    halves = export(lambda x: x * 2, X.astype("float16")).mlir_module()
    assert "'x' is float16" in refusal(path, halves) and "precisions: [float16]" in refusal(path, halves)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is empty"),
        ("def main(): pass", "is not a StableHLO module"),
        (b"\x00\xff\xfe garbage", "is neither MLIR text nor bytecode"),
        (b"ML\xefR\rStableHLO_v1.15.0\x00\x01", "is not a StableHLO module"),
        ("module { }", "has no function 'main'"),
        ("module { func.func @main(%a: tensor<2xf32>) { return } }", "returns nothing"),
        ("module { func.func @main(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> { return %a : tensor<2xcomplex<f32>> } }", "the type complex<f32>, which is not read"),
        (b"PK\x03\x04 and so on", "is a damaged zip archive"),
    ],
    ids=["empty", "Python", "binary", "truncated", "no main", "no result", "complex", "zip"],
)  # fmt: skip
def test_a_file_that_is_not_a_model_is_refused_in_one_line(tmp_path: Path, content: str | bytes, problem: str):
    assert problem in refusal(tmp_path / "m.mlir", content)


def test_without_jax_the_import_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith(("jax.", "tvmake.frontend.stablehlo"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jax", None)
    (tmp_path / "m.mlir").write_text("module { }")
    with pytest.raises(MachineError, match=r"needs the library 'jax'\n.*tvmake\[stablehlo\]"):
        import_model(options(tmp_path / "m.mlir"), *(tmp_path / name for name in "abcd"))
