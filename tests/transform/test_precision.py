"""Precisions change the dtypes that operators compute in, and nothing else; exceptions are obeyed and forgotten."""

import numpy as np
import pytest
import tvm
from pydantic import ValidationError

from tests.frontend.onnx import models as onnx_models
from tests.transform.layouts.test_clips import conv_then_clip
from tests.transform.nets import IMAGE, Transformed, calls, classifier_onnx, input_dtypes, run, transformed
from tvmake.errors import InputError
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.mixed_precision import POLICY
from tvmake.transform.precision import to_precision


def at(base: str, **exceptions: list[str]) -> Transformed:
    """The classifier at a precision."""
    return transformed(precision=PrecisionConfig(base=base, **exceptions))


def dtypes(made: Transformed, operator: str) -> set[tuple[str, ...]]:
    """(argument dtypes …, result dtype) of every call of an operator."""
    found = calls(made[0], operator)
    assert found, f"no {operator} left"
    return {(*input_dtypes(call), str(call.ty.dtype)) for call in found}


def error_db(made: Transformed) -> float:
    """Signal-to-noise ratio of the output against ONNX Runtime, in dB."""
    exact = onnx_models.runtime(classifier_onnx(), [IMAGE])[0].astype("float64")
    return 10 * np.log10((exact**2).sum() / ((run(made, IMAGE) - exact) ** 2).sum())


def policies() -> dict[str, int | None]:
    """TVM's policy of every operator."""
    names = map(str, tvm.ir.Op.list_op_names())
    return {name: tvm.ir.Op.get(name).get_attr(POLICY) for name in names}


def text(made: Transformed) -> str:
    return tvm.ir.save_json(made[0])


def test_float32_changes_no_dtype_and_inserts_no_cast():
    made = at("float32")
    assert calls(made[0], "astype") == []
    assert {str(call.ty.dtype) for call in calls(made[0])} == {"float32"}
    assert {str(value.dtype) for value in made[1].values()} == {"float32"}
    assert error_db(made) > 100


def test_float16_multiplies_and_accumulates_in_half():
    made = at("float16")
    half = ("float16", "float16", "float16")
    assert dtypes(made, "nn.conv2d") == dtypes(made, "matmul") == {half}
    assert {str(call.attrs.out_dtype) for call in calls(made[0], "nn.conv2d")} == {"float16"}
    assert 40 < error_db(made) < 90


def test_float16_acc32_multiplies_in_half_and_accumulates_in_single():
    made = at("float16_acc32")
    assert dtypes(made, "nn.conv2d") == dtypes(made, "matmul") == {("float16", "float16", "float32")}
    assert {str(call.attrs.out_dtype) for call in calls(made[0], "nn.conv2d")} == {"float32"}
    assert 40 < error_db(made) < 90


@pytest.mark.parametrize("base", ["float16", "float16_acc32"])
def test_a_network_with_relu6_is_computed_in_half(base: str):
    made = to_precision(conv_then_clip(), PrecisionConfig(base=base))
    (limit,) = calls(made, "clip")
    assert input_dtypes(limit) == ["float16"]
    assert not calls(made, "minimum") and not calls(made, "maximum")


@pytest.mark.parametrize("base", ["float16", "float16_acc32"])
def test_inputs_and_outputs_stay_float32_and_weights_become_half(base: str):
    module, params = at(base)
    assert str(module["main"].params[0].ty.dtype) == str(module["main"].ret_ty.dtype) == "float32"
    assert {str(value.dtype) for value in params.values()} == {"float16"}


@pytest.mark.parametrize("base", ["float16", "float16_acc32"])
def test_element_wise_operators_follow_and_softmax_stays_single_by_default(base: str):
    made = at(base)
    assert dtypes(made, "nn.relu") == dtypes(made, "nn.max_pool2d") == {("float16", "float16")}
    assert dtypes(made, "nn.softmax") == dtypes(made, "mean") == {("float32", "float32")}


def test_never_keeps_an_operator_in_float32():
    made = at("float16", never=["nn.conv2d"])
    assert dtypes(made, "nn.conv2d") == {("float32", "float32", "float32")}
    assert dtypes(made, "matmul") == {("float16", "float16", "float16")}
    assert dtypes(at("float16", never=["nn.relu"]), "nn.relu") == {("float32", "float32")}


def test_follow_lets_an_operator_take_half_where_its_input_is_half():
    made = at("float16", follow=["nn.softmax", "mean"])
    assert dtypes(made, "nn.softmax") == dtypes(made, "mean") == {("float16", "float16")}
    assert str(made[0]["main"].ret_ty.dtype) == "float32"


def test_follow_releases_an_operator_that_is_half_by_default():
    # Nothing before the convolutions is half, so following leaves them single.
    made = at("float16", follow=["nn.conv2d"])
    assert dtypes(made, "nn.conv2d") == {("float32", "float32", "float32")}


def test_always_states_the_default_of_convolutions_and_matmul():
    assert text(at("float16", always=["nn.conv2d", "matmul"])) == text(at("float16"))


def test_operators_may_be_named_with_or_without_relax():
    assert text(at("float16", never=["relax.nn.relu"])) == text(at("float16", never=["nn.relu"]))


@pytest.mark.parametrize("key", ["always", "never", "follow"])
def test_an_unknown_operator_is_refused_with_the_nearest(key: str):
    with pytest.raises(InputError, match="Relax has no such operator") as caught:
        at("float16", **{key: ["nn.con2d"]})
    assert "nn.con2d" in caught.value.where
    assert caught.value.remedy == "did you mean 'nn.conv2d'?"


def test_an_operator_like_none_is_refused_with_an_explanation():
    with pytest.raises(InputError) as caught:
        at("float16", never=["zzzzzzzz"])
    assert "named as in Relax" in caught.value.remedy


@pytest.mark.parametrize("name", ["nn.relu", "nn.softmax", "mean"])
def test_always_is_refused_for_what_tvm_cannot_force_into_half(name: str):
    with pytest.raises(InputError, match="cannot compute this operator in float16 always") as caught:
        at("float16", always=[name])
    assert "nn.conv2d" in caught.value.remedy and "matmul" in caught.value.remedy
    assert "nn.relu" not in caught.value.remedy


@pytest.mark.parametrize("key", ["always", "never", "follow"])
def test_exceptions_of_float32_are_refused(key: str):
    with pytest.raises(ValidationError, match="base float32 has no always, never and follow"):
        at("float32", **{key: ["nn.conv2d"]})


def test_exceptions_do_not_leak_into_the_next_transform():
    before, plain = policies(), text(at("float16"))
    careful = at("float16", never=["nn.conv2d", "relax.nn.conv2d", "nn.relu"], follow=["nn.softmax"])
    assert text(careful) != plain
    assert policies() == before
    assert text(at("float16")) == plain


def test_exceptions_do_not_leak_out_of_a_transform_that_fails():
    before = policies()
    with pytest.raises(InputError):
        at("float16", never=["nn.conv2d", "no.such_operator"])
    assert policies() == before
