"""Powers of negative numbers, and functions of float16, in CUDA kernels."""

import numpy as np
import pytest
import tvm

from tvmake.targets.cuda.math import LACKING, RULE, install, lower_power

from tvm import te  # isort: skip

BASES = np.array([-2.5, -1, -0.5, 0, 0.5, 3], np.float32)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 4.0, 5.0, -1.0, 0.0])
def test_powers_of_negative_numbers_are_numbers(exponent: float):
    data = te.placeholder(BASES.shape, "float32", name="data")
    value = te.compute(
        BASES.shape,
        lambda place: lower_power(tvm.tirx.pow(data[place], tvm.tirx.const(exponent, "float32"))),
        name="power",
    )
    built = tvm.tirx.build(tvm.IRModule({"main": te.create_prim_func([data, value])}), target="llvm")
    found = tvm.runtime.tensor(np.zeros_like(BASES))
    built["main"](tvm.runtime.tensor(BASES), found)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(found.numpy(), BASES ** np.float32(exponent), rtol=1e-6)


def test_cuda_kernels_call_no_power_in_single_precision():
    install()
    rule = tvm.ir.Op.get("tirx.pow").get_attr(RULE)
    base, exponent = tvm.tirx.Var("base", "float32"), tvm.tirx.Var("exponent", "float32")
    assert "powf" not in str(rule(tvm.tirx.pow(base, exponent)))
    assert "pow" not in str(rule(tvm.tirx.pow(base, tvm.tirx.const(2.0, "float32"))))
    double = tvm.tirx.Var("double", "float64")
    assert "powf" not in str(rule(tvm.tirx.pow(double, double)))


def test_nor_does_what_computes_powers_of_halves():
    """TVM's ``hpow`` is ``powf`` of the same values."""
    install()
    rule = tvm.ir.Op.get("tirx.pow").get_attr(RULE)
    base, exponent = tvm.tirx.Var("base", "float16"), tvm.tirx.Var("exponent", "float16")
    assert "float64" in str(rule(tvm.tirx.pow(base, exponent)))
    assert "pow" not in str(rule(tvm.tirx.pow(base, tvm.tirx.const(3.0, "float16"))))


@pytest.mark.parametrize("name", LACKING)
def test_a_function_that_cuda_lacks_for_halves_is_computed_in_single_precision(name: str):
    install()
    half = tvm.tirx.Var("half", "float16")
    arguments = [half, half] if name == "fmod" else [half]
    found = str(tvm.ir.Op.get(f"tirx.{name}").get_attr(RULE)(getattr(tvm.tirx, name)(*arguments)))
    assert "float32" in found
    assert f"h{name}" not in found
