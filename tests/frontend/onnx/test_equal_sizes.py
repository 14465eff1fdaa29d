"""Sizes that an operator needs to be equal, and that are equal only for some sizes of the inputs."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, random, read, refusal, runtime, save
from tests.unoptimised import UNOPTIMISED, compile_unoptimised
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.device.code import checking_arguments
from tvmake.errors import InputError
from tvmake.ir.bounds import LOWER
from tvmake.ir.size_expressions import size_text
from tvmake.transform.graph import bound_signature, transform
from tvmake.transform.options import TransformRequest

from tvm import relax  # isort: skip

node = helper.make_node
DOWN = {"kernel_shape": [2, 2], "strides": [2, 2]}
WEIGHTS = {"w0": random(2, 2, 2, 2), "w1": random(4, 2, 2, 2, seed=1)}


def u_net(**outputs: str) -> onnx.ModelProto:
    """A U-Net with two levels of pooling and transposed convolutions with skip connections, or with one level up only."""
    nodes = [
        node("MaxPool", ["image"], ["half"], **DOWN),
        node("MaxPool", ["half"], ["quarter"], **DOWN),
        node("ConvTranspose", ["quarter", "w0"], ["up0"], **DOWN),
        node("Concat", ["up0", "half"], ["join0"], name="inner", axis=1),
        node("ConvTranspose", ["join0", "w1"], ["up1"], **DOWN),
        node("Concat", ["up1", "image"], ["join1"], name="outer", axis=1),
    ]
    count = 4 if outputs.get("output") == "join0" else 6
    return model(
        nodes[:count],
        {"image": (FLOAT, [1, 2, "height", "width"])},
        [outputs.get("output", "join1")],
        WEIGHTS if count > 4 else {"w0": WEIGHTS["w0"]},
    )


def machine(imported):
    """A virtual machine for a package's code, and the package's weights."""
    module, params = transform(imported.module, imported.params, TransformRequest())
    lowered = lower(module, UNOPTIMISED, [], PassOptions(), len(imported.signature.inputs), rules=False)
    machine = relax.VirtualMachine(compile_unoptimised(lowered.final, relax_pipeline="zero"), tvm.cpu())
    return lambda *inputs: machine["main"](*map(tvm.runtime.tensor, inputs), *params.values()).numpy()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    proto = u_net()
    return proto, read(save(tmp_path_factory.mktemp("u_net") / "u_net.onnx", proto))


def test_a_u_net_of_dynamic_size_is_right_for_all_valid_sizes(compiled):
    proto, imported = compiled
    assert imported.signature.inputs[0].shape == (1, 2, "height", "width")
    assert imported.signature.outputs[0].shape == (1, 4, "height", "width")
    module, _ = transform(imported.module, imported.params, TransformRequest())
    assert bound_signature(imported.signature, module) == imported.signature
    for height, width in ((4, 8), (12, 4), (20, 16)):
        image = random(1, 2, height, width)
        np.testing.assert_allclose(run_compiled(imported, [image])[0], runtime(proto, [image])[0], rtol=1e-5, atol=1e-5)


def test_its_sizes_are_multiples_and_no_cast_remains(compiled):
    main = compiled[1].module["main"]
    bindings = [binding for block in main.body.blocks[1:] for binding in block.bindings]
    assert not any(isinstance(binding, relax.MatchCast) for binding in bindings)
    heights = {size_text(binding.var.ty.shape[2]) for binding in bindings if binding.var.ty.ndim == 4}
    assert heights == {"height // 4", "height // 4 * 2", "height // 4 * 4"}


def test_a_size_that_does_not_fit_is_reported_in_one_line_and_the_next_run_is_right(compiled):
    proto, imported = compiled
    run = machine(imported)
    with (
        pytest.raises(InputError, match=r"height is 10, and the network takes multiples of 4: Concat 'inner'"),
        checking_arguments(),
    ):
        run(random(1, 2, 10, 8))
    with pytest.raises(InputError, match="width is 7, and the network takes multiples of 4"), checking_arguments():
        run(random(1, 2, 8, 7))
    image = random(1, 2, 8, 12)
    np.testing.assert_allclose(run(image), runtime(proto, [image])[0], rtol=1e-5, atol=1e-5)


def test_a_size_in_the_config_that_does_not_fit_is_refused(compiled):
    imported = compiled[1]
    with pytest.raises(InputError, match="height is 6, and the network takes multiples of 4"):
        transform(imported.module, imported.params, TransformRequest(dims={"height": 6}))
    module, _ = transform(imported.module, imported.params, TransformRequest(dims={"height": 8, "width": 8}))
    assert [int(size) for size in module["main"].ret_ty.shape] == [1, 4, 8, 8]


def test_all_valid_sizes_are_accepted_if_they_are_not_multiples_of_a_number(tmp_path):
    proto = u_net(output="join0")
    imported = read(save(tmp_path / "m.onnx", proto))
    run = machine(imported)
    for height, width in ((4, 8), (5, 9), (9, 4)):
        image = random(1, 2, height, width)
        np.testing.assert_allclose(run(image), runtime(proto, [image])[0], rtol=1e-5, atol=1e-5)
    assert dict(imported.module["main"].attrs[LOWER]) == {"height": 4, "width": 4}
    problem = r"Concat 'inner' needs equal sizes, and height // 2 is 3, height // 4 \* 2 is 2"
    with pytest.raises(InputError, match=problem), checking_arguments():
        run(random(1, 2, 6, 4))


def test_sizes_of_a_pattern_that_is_not_that_of_multiples_are_accepted(tmp_path):
    # Windows with padding: sizes of the form 4k and 4k + 3 fit, which starts like the multiples of 3.
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [
        node("MaxPool", ["image"], ["half"], **window),
        node("MaxPool", ["half"], ["quarter"], **window),
        node("ConvTranspose", ["quarter", "w0"], ["up"], **DOWN),
        node("Concat", ["up", "half"], ["joined"], name="join", axis=1),
    ]
    proto = model(nodes, {"image": (FLOAT, [1, 2, "height", "width"])}, ["joined"], {"w0": WEIGHTS["w0"]})
    run = machine(read(save(tmp_path / "m.onnx", proto)))
    for height, width in ((8, 7), (11, 16), (3, 4)):
        image = random(1, 2, height, width)
        np.testing.assert_allclose(run(image), runtime(proto, [image])[0], rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="Concat 'join' needs equal sizes"), checking_arguments():
        run(random(1, 2, 9, 8))


def test_an_image_enlarged_by_whole_factors_may_have_any_size(tmp_path):
    nodes = [
        node(
            "Resize",
            ["x", "", "scales"],
            ["y"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    ]
    proto = model(nodes, {"x": (FLOAT, [1, 2, "h", "w"])}, ["y"], {"scales": np.array([1, 1, 2, 3], np.float32)})
    imported = read(save(tmp_path / "m.onnx", proto))
    for size in ((1, 1), (3, 5), (7, 2)):
        x = random(1, 2, *size)
        np.testing.assert_array_equal(run_compiled(imported, [x])[0], runtime(proto, [x])[0])


PAIRS = {
    "Add": ([node("Add", ["x", "y"], ["z"])], ["n", 4], ["m", 4], ("n", 4)),
    "Mul": ([node("Mul", ["x", "y"], ["z"])], ["n", 4], ["k", "m", 4], ("k", "n", 4)),
    "a constant": ([node("Add", ["x", "c"], ["z"])], [3, "n"], [1], (1,)),
    "Concat": ([node("Concat", ["x", "y"], ["z"], axis=1)], ["n", 4], ["m", "k"], ("n", "k")),
    "MatMul": ([node("MatMul", ["x", "y"], ["z"])], ["n", "k"], ["m", 5], ("k", 5)),
    "Gemm": ([node("Gemm", ["x", "y"], ["z"], transB=1)], ["n", "k"], [5, "m"], (5, "k")),
    "Where": ([node("Greater", ["x", "y"], ["b"]), node("Where", ["b", "x", "y"], ["z"])], ["n"], ["m"], ("n",)),
    "a sum": ([node("Concat", ["x", "x"], ["t"], axis=0), node("Mul", ["t", "y"], ["z"])], ["n"], ["m"], ("n * 2",)),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_dimension_that_others_determine_is_replaced(tmp_path, name):
    nodes, first, second, expected = PAIRS[name]
    proto = model(
        nodes, {"x": (FLOAT, first), "y": (FLOAT, second)}, ["z"], {"c": random(7)} if name == "a constant" else {}
    )
    imported = read(save(tmp_path / "m.onnx", proto))
    x, y = imported.signature.inputs
    assert x.shape == ((3, 7) if name == "a constant" else tuple(first))
    assert y.shape == expected
    dims = {"n": 3, "k": 6, "m": 2}
    sizes = [[eval(size, {}, dims) if isinstance(size, str) else size for size in spec.shape] for spec in (x, y)]
    values = [random(*size, seed=seed) for seed, size in enumerate(sizes)]
    np.testing.assert_allclose(run_compiled(imported, values)[0], runtime(proto, values)[0], rtol=1e-5, atol=1e-5)


def test_a_reshape_reads_no_more_elements_than_there_are(tmp_path):
    nodes = [node("Reshape", ["x", "to"], ["y"], name="pairs")]
    proto = model(nodes, {"x": (FLOAT, ["n", 3])}, ["y"], {"to": np.array([-1, 2])})
    run = machine(read(save(tmp_path / "m.onnx", proto)))
    np.testing.assert_array_equal(run(random(4, 3)), random(4, 3).reshape(6, 2))
    with (
        pytest.raises(InputError, match="n is 3, and the network takes multiples of 2: Reshape 'pairs'"),
        checking_arguments(),
    ):
        run(random(3, 3))


def test_a_minimum_bounds_a_dimension(tmp_path):
    nodes = [
        node("Slice", ["x", "zero", "nine", "one"], ["first"]),
        node("Concat", ["first", "x"], ["y"], name="pairs", axis=0),
    ]
    constants = {"zero": np.array([0]), "nine": np.array([9]), "one": np.array([1])}
    imported = read(save(tmp_path / "m.onnx", model(nodes, {"x": (FLOAT, [2, "n"])}, ["y"], constants)))
    assert imported.signature.bounds == {"n": (0, 9)}
    assert machine(imported)(random(2, 9)).shape == (4, 9)


def test_sizes_that_are_equal_for_no_input_are_refused(tmp_path):
    nodes = [
        node("MaxPool", ["x"], ["half"], kernel_shape=[2], strides=[2]),
        node("ConvTranspose", ["half", "w"], ["up"], kernel_shape=[2], strides=[2]),
        node("Pad", ["x", "two"], ["padded"]),
        node("Add", ["padded", "up"], ["y"], name="never"),
    ]
    constants = {"w": random(2, 2, 2), "two": np.array([0, 0, 0, 0, 0, 2])}
    proto = model(nodes, {"x": (FLOAT, [1, 2, "n"])}, ["y"], constants)
    assert (
        "Add 'never' needs n + 2 and n // 2 * 2 to be equal, and no size of n makes them equal"
        in refusal(save(tmp_path / "m.onnx", proto)).problem
    )


def test_reflection_at_the_outermost_pixels_needs_two_pixels(tmp_path):
    settings = {"padding_mode": "reflection", "align_corners": 1}
    proto = model(
        [node("GridSample", ["x", "grid"], ["y"], **settings)],
        {"x": (FLOAT, [1, 2, "h", "w"]), "grid": (FLOAT, [1, 3, 3, 2])},
        ["y"],
    )
    imported = read(save(tmp_path / "m.onnx", proto))
    assert dict(imported.module["main"].attrs[LOWER]) == {"h": 2, "w": 2}
    run, inputs = machine(imported), [random(1, 2, 2, 5), random(1, 3, 3, 2, seed=1) * 2]
    np.testing.assert_allclose(run(*inputs), runtime(proto, inputs)[0], rtol=1e-5, atol=1e-5)


def test_a_dynamic_dimension_is_expanded_to_its_own_size(tmp_path):
    proto = model(
        [node("MaxPool", ["x"], ["half"], **DOWN), node("Expand", ["half", "shape"], ["y"])],
        {"x": (FLOAT, [1, 1, 4, "w"])},
        ["y"],
        {"shape": np.array([2, 3, 1, 6])},
    )
    run = machine(read(save(tmp_path / "m.onnx", proto)))
    x = random(1, 1, 4, 13)
    np.testing.assert_array_equal(run(x), runtime(proto, [x])[0])
    with pytest.raises(InputError, match="Expand"), checking_arguments():
        run(random(1, 1, 4, 10))


def test_operators_within_an_operators_import_have_equal_sizes_too(tmp_path):
    """An instance norm of an image that is sliced to five channels, which TVM cannot prove to be five."""
    nodes = [
        node("CenterCropPad", ["x", "size"], ["cut"], axes=[1]),
        node("InstanceNormalization", ["cut", "scale", "shift"], ["y"]),
    ]
    weights = {"scale": random(5), "shift": random(5, seed=1)}
    proto = model(nodes, {"x": (FLOAT, ["n", "c", 8])}, ["y"], {"size": np.array([5]), **weights})
    run = machine(read(save(tmp_path / "m.onnx", proto)))
    for channels in (3, 5, 8):
        x = random(2, channels, 8)
        np.testing.assert_allclose(run(x), runtime(proto, [x])[0], rtol=1e-4, atol=1e-5)
