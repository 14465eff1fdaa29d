"""`tvmake.open(…)`: how inputs are passed, independent outputs, and closing."""

import gc
import weakref

import numpy as np
import onnx
import pytest
import torch

import tvmake
from tvmake.errors import InputError

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tvmake.Package:
    """A network with a dynamic dimension, an input that is an output too, and outputs of several types."""
    file = tmp_path_factory.mktemp("package") / "network.onnx"
    network = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        network (float[n, 3] x, bool[3] mask) => (float[n, 3] y, bool[3] mask_out, int64[n, 3] whole, float16[n, 3] half)
        { y = Add(x, x)  mask_out = Identity(mask)  whole = Cast<to = 7>(x)  half = Cast<to = 10>(x) }
        """
    )
    onnx.save(network, file)
    return tvmake.load(str(file)).compile(shows_progress=False)


def test_the_outputs_of_a_run_stay_what_they_are_whatever_runs_afterwards(package: tvmake.Package):
    mask = np.array([True, False, True])
    runs = []
    for seed, rows in enumerate([2, 2, 5, 2]):
        x = np.random.default_rng(seed).uniform(-9, 9, (rows, 3)).astype("float32")
        runs.append((x.copy(), mask.copy(), package.run({"x": x, "mask": mask})))
        x[:], mask[:] = 0, ~mask
    for x, mask, outputs in runs:
        y, mask_out, whole, half = outputs.values()
        assert np.array_equal(y, x + x)
        assert np.array_equal(mask_out, mask)
        assert np.array_equal(whole, x.astype("int64"))
        assert np.array_equal(half, x.astype("float16"))


def test_outputs_are_the_callers_to_change(package: tvmake.Package):
    x, mask = np.ones((2, 3), "float32"), np.array([True, False, True])
    first = package.run({"x": x, "mask": mask})
    first["mask_out"][:] = False
    first["y"] += 1
    again = package.run({"x": x, "mask": mask})
    assert np.array_equal(again["mask_out"], mask)
    assert np.array_equal(again["y"], x + x)


def test_arrays_of_any_layout_are_read_as_they_look(package: tvmake.Package):
    values = np.arange(24, dtype="float32").reshape(3, 8)
    mask = np.array([True, True, False])
    for x in (values.T, values.T[::2], values.T[::-1], np.asfortranarray(values.T)):
        for _ in range(2):
            assert np.array_equal(package.run({"x": x, "mask": mask})["y"], 2 * x)


X, MASK = np.ones((2, 3), "float32"), np.array([True, False, True])


def test_inputs_are_passed_in_a_mapping_in_order_or_by_keyword(package: tvmake.Package):
    for outputs in (
        package.run({"x": X, "mask": MASK}),
        package.run(X, MASK),
        package.run(x=X, mask=MASK),
        package(X, MASK),
        package(x=X, mask=MASK),
        package(mask=MASK, fill="ones"),
    ):
        assert np.array_equal(outputs["y"], 2 * X[: len(outputs["y"])])


@pytest.mark.parametrize(
    "inputs, named", [((X, MASK), {"x": X}), (({"x": X},), {"mask": MASK}), (({"x": X}, MASK), {})]
)
def test_inputs_that_are_passed_in_two_ways_are_refused(package: tvmake.Package, inputs: tuple, named: dict):
    with pytest.raises(InputError, match="inputs: are passed in two ways"):
        package.run(*inputs, **named)


def test_a_tensor_that_requires_gradients_is_detached(package: tvmake.Package):
    x = torch.ones(2, 3, requires_grad=True)
    assert np.array_equal(package(x, MASK)["y"], 2 * X)


def test_a_package_is_closed_at_the_end_of_a_with_block(package: tvmake.Package):
    with tvmake.open(package.file) as opened:
        opened(X, MASK)
        loaded = weakref.ref(opened._loaded)
    gc.collect()
    assert loaded() is None
    for call in (lambda: opened(X, MASK), opened.benchmark):
        with pytest.raises(InputError, match=r"(?s)is closed.*open it again: tvmake\.open"):
            call()
