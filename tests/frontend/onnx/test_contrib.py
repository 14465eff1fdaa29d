"""ONNX Runtime's own operators, and files that it optimised, compared with ONNX Runtime."""

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, runtime, save
from tests.frontend.onnx.test_contrib_further import MOVES
from tvmake.errors import InputError
from tvmake.frontend.onnx.importer import inspect
from tvmake.frontend.onnx.rewrites.contrib import quantized
from tvmake.frontend.onnx.rewrites.table import CONTRIB_REWRITES

INT32, UINT8 = onnx.TensorProto.INT32, onnx.TensorProto.UINT8
X = {"x": (FLOAT, [2, 5, 8])}
DYNAMIC = {"x": (FLOAT, ["batch", "length", 8])}
NORM = {"gamma": random(8), "beta": random(8, seed=1), "bias": random(8, seed=2)}
TABLES = {
    "words": random(20, 8), "places": random(10, 8, seed=1), "parts": random(2, 8, seed=2),
    "gamma": random(8, seed=3), "beta": random(8, seed=4),
}  # fmt: skip
PROJECTION = {"w": random(8, 24), "b": random(24, seed=1)}
CONV = {"w": random(6, 4, 3, 3), "b": random(6, seed=1)}
GEMM = {"w": random(6, 4), "b": random(6, seed=1)}
TURNS = {"cosines": random(10, 2), "sines": random(10, 2, seed=1)}
WIDE_TURNS = {"cosines": random(10, 8), "sines": random(10, 8, seed=1)}
MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], np.int32)
IDS = np.random.default_rng(0).integers(0, 2, (2, 5)).astype(np.int32)
POSITIONS = np.array([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]])
SPACES = (INT32, [2, 5])
STEPS = {"lengths": (INT32, [2])}
CACHE = {"pk": (FLOAT, [2, 2, 0, 8]), "pv": (FLOAT, [2, 2, 0, 8])}
NO_CACHE = {"pk": np.zeros((2, 2, 0, 8), np.float32), "pv": np.zeros((2, 2, 0, 8), np.float32)}


def case(operator, names, inputs, constants=None, outputs=("y",), feeds=None, domain="com.microsoft", **values):
    return operator, names.split(","), inputs, constants or {}, outputs, feeds or {}, domain, values


def product(names, a, b, **values):
    return case("FusedMatMul", names, {"a": (FLOAT, a), "b": (FLOAT, b)}, alpha=0.3, **values)


CASES = {
    "convolution, sum, ReLU": case(
        "FusedConv", "x,w,b,z", {"x": (FLOAT, [1, 4, 7, 7]), "z": (FLOAT, [1, 6, 5, 5])}, CONV, activation="Relu"
    ),
    "convolution, clip": case(
        "FusedConv", "x,w,b", {"x": (FLOAT, [1, 4, 7, 7])}, CONV, activation="Clip", activation_params=[-0.3, 0.4]
    ),
    "convolution, hard sigmoid": case(
        "FusedConv", "x,w,b", {"x": (FLOAT, [1, 4, 7, 7])}, CONV, activation="HardSigmoid", activation_params=[0.3, 0.4]
    ),
    "dense layer, leaky ReLU": case(
        "FusedGemm", "x,w,b", {"x": (FLOAT, [3, 4])}, GEMM, activation="LeakyRelu", activation_alpha=0.2, transB=1, alpha=0.5
    ),
    "product": product("a,b", [2, 3, 4, 5], [2, 3, 5, 6]),
    "product, second turned": product("a,b", [2, 3, 4, 5], [2, 3, 6, 5], transB=1),
    "product, batches turned": product("a,b", [4, 2, 3, 5], [5, 2, 3, 6], transBatchA=1, transBatchB=1),
    "product, all turned": product("a,b", [5, 2, 3, 4], [6, 2, 3, 5], transA=1, transB=1, transBatchA=1, transBatchB=1),
    "Gelu": case("Gelu", "x", DYNAMIC),
    "BiasGelu": case("BiasGelu", "x,bias", DYNAMIC, NORM),
    "FastGelu": case("FastGelu", "x,bias", DYNAMIC, NORM),
    "FastGelu without bias": case("FastGelu", "x", DYNAMIC),
    "QuickGelu": case("QuickGelu", "x", DYNAMIC),
    "SiLU": case("QuickGelu", "x", DYNAMIC, alpha=1.0),
    "LayerNormalization": case("LayerNormalization", "x,gamma,beta", DYNAMIC, NORM, domain=""),
    "SimplifiedLayerNormalization": case("SimplifiedLayerNormalization", "x,gamma", DYNAMIC, NORM, domain=""),
    "norm of a sum": case(
        "SkipLayerNormalization", "x,skip,gamma,beta,bias", {**DYNAMIC, "skip": DYNAMIC["x"]}, NORM, ("y", "", "", "z")
    ),
    "norm of a sum without bias": case("SkipLayerNormalization", "x,skip,gamma,beta", {**X, "skip": X["x"]}, NORM),
    "RMS norm of a sum": case(
        "SkipSimplifiedLayerNormalization", "x,skip,gamma,bias", {**X, "skip": X["x"]}, NORM, ("y", "", "", "z")
    ),
    "embeddings": case(
        "EmbedLayerNormalization", ",".join(["ids", "segments", *TABLES]), {"ids": SPACES, "segments": SPACES}, TABLES,
        ("y", "counts", "sum"), {"ids": IDS, "segments": IDS},
    ),
    "embeddings, mask": case(
        "EmbedLayerNormalization", "ids,,words,places,,gamma,beta,mask", {"ids": SPACES, "mask": SPACES}, TABLES,
        ("y", "counts"), {"ids": IDS, "mask": MASK},
    ),
    "attention": case("Attention", "x,w,b", X, PROJECTION, num_heads=2),
    "attention of any batch": case("Attention", "x,w,b", DYNAMIC, PROJECTION, num_heads=2),
    "attention, mask": case(
        "Attention", "x,w,b,m", {**X, "m": SPACES}, PROJECTION, feeds={"m": MASK}, num_heads=2
    ),
    "attention, everything masked": case(
        "Attention", "x,w,b,m", {**X, "m": SPACES}, PROJECTION, feeds={"m": MASK * 0}, num_heads=2
    ),
    "attention, mask for each query": case(
        "Attention", "x,w,b,m", {**X, "m": (INT32, [2, 5, 5])}, PROJECTION, feeds={"m": np.tril(np.tile(MASK[:, None], (1, 5, 1)))},
        num_heads=2,
    ),
    "attention, lengths": case(
        "Attention", "x,w,b,m", {**X, "m": (INT32, [2])}, PROJECTION, feeds={"m": np.array([3, 5], np.int32)}, num_heads=2
    ),
    "attention, past": case(
        "Attention", "x,w,b,,past", {**X, "past": (FLOAT, [2, 2, 2, 3, 4])}, PROJECTION, ("y", "present"), num_heads=2,
        unidirectional=1,
    ),
    "attention, bias of scores": case(
        "Attention", "x,w,b,,,s", {**X, "s": (FLOAT, [1, 2, 5, 5])}, PROJECTION, num_heads=2, scale=0.3
    ),
    "attention, narrow values": case(
        "Attention", "x,w,b", X, {"w": random(8, 20), "b": random(20)}, num_heads=2, qkv_hidden_sizes=[8, 8, 4]
    ),
    "heads, bias": case(
        "MultiHeadAttention", "x,k,v,b", {**X, "k": (FLOAT, [2, 6, 8]), "v": (FLOAT, [2, 6, 8])}, PROJECTION, num_heads=2
    ),
    "heads, mask": case(
        "MultiHeadAttention", "x,x,x,,m", {**X, "m": SPACES}, feeds={"m": MASK}, num_heads=2
    ),
    "heads, bias of scores": case(
        "MultiHeadAttention", "x,x,x,,,s", {**X, "s": (FLOAT, [1, 2, 5, 5])}, num_heads=2, unidirectional=1
    ),
    "heads, keys by heads": case(
        "MultiHeadAttention", "x,k,v", {**X, "k": (FLOAT, [2, 2, 6, 4]), "v": (FLOAT, [2, 2, 6, 4])}, num_heads=2
    ),
    "heads, past": case(
        "MultiHeadAttention", "x,x,x,,,,pk,pv", {**X, "pk": (FLOAT, [2, 2, 3, 4]), "pv": (FLOAT, [2, 2, 3, 4])},
        outputs=("y", "k", "v"), num_heads=2,
    ),
    "groups of queries, first step": case(
        "GroupQueryAttention", "q,k,v,pk,pv,lengths,total",
        {"q": (FLOAT, [2, 5, 32]), "k": (FLOAT, [2, 5, 16]), "v": (FLOAT, [2, 5, 16]), **CACHE, **STEPS}, {"total": np.array(5, np.int32)}, ("y", "nk", "nv"),
        {"lengths": np.array([4, 4], np.int32), **NO_CACHE}, num_heads=4, kv_num_heads=2,
    ),
    "groups of queries, packed, turned": case(
        "GroupQueryAttention", "q,,,pk,pv,lengths,total,cosines,sines",
        {"q": (FLOAT, [2, 1, 128]), "pk": (FLOAT, [2, 2, 6, 16]), "pv": (FLOAT, [2, 2, 6, 16]), **STEPS},
        {**WIDE_TURNS, "total": np.array(7, np.int32)}, ("y", "nk", "nv"), {"lengths": np.array([6, 6], np.int32)}, num_heads=4, kv_num_heads=2, do_rotary=1,
    ),
    "groups of queries, of several lengths, near ones": case(
        "GroupQueryAttention", "q,k,v,pk,pv,lengths,total",
        {"q": (FLOAT, [2, 1, 32]), "k": (FLOAT, [2, 1, 16]), "v": (FLOAT, [2, 1, 16]), "pk": (FLOAT, [2, 2, 6, 8]),
         "pv": (FLOAT, [2, 2, 6, 8]), **STEPS}, {"total": np.array(7, np.int32)}, ("y", "nk", "nv"),
        {"lengths": np.array([6, 3], np.int32)}, num_heads=4, kv_num_heads=2, local_window_size=3,
        softcap=2.0, scale=0.3,
    ),
    "groups of queries, bias, by pairs": case(
        "GroupQueryAttention", "q,k,v,pk,pv,lengths,total,cosines,sines,,bias of scores",
        {"q": (FLOAT, [1, 2, 64]), "k": (FLOAT, [1, 2, 32]), "v": (FLOAT, [1, 2, 32]), "pk": (FLOAT, [1, 2, 3, 16]),
         "pv": (FLOAT, [1, 2, 3, 16]), "lengths": (INT32, [1]), "bias of scores": (FLOAT, [1, 4, 2, 5])},
        {**WIDE_TURNS, "total": np.array(5, np.int32)}, ("y", "nk", "nv"), {"lengths": np.array([4], np.int32)}, num_heads=4, kv_num_heads=2,
        do_rotary=1, rotary_interleaved=1,
    ),
    "turns": case(
        "RotaryEmbedding", "x,p,cosines,sines", {"x": (FLOAT, [2, 2, 5, 4]), "p": (INT64, [2, 5])}, TURNS, feeds={"p": POSITIONS}
    ),
    "turns, by pairs, from a position on": case(
        "RotaryEmbedding", "x,p,cosines,sines", {**X, "p": (INT64, [1])}, TURNS, feeds={"p": np.array([2])}, interleaved=1
    ),
    "turns of a part": case(
        "RotaryEmbedding", "x,p,cosines,sines", {"x": (FLOAT, [2, 5, 12]), "p": (INT64, [2, 5])}, TURNS, feeds={"p": POSITIONS},
        rotary_embedding_dim=4, num_heads=2,
    ),
}  # fmt: skip


def case_model(name, opset):
    operator, names, inputs, constants, outputs, feeds, domain, values = CASES[name]
    contrib_node = helper.make_node(operator, names, list(outputs), domain=domain, **values)
    used = {key: value for key, value in constants.items() if key in names}
    proto = model([contrib_node], inputs, [output for output in outputs if output], used, opset, ["com.microsoft"])
    for value in proto.graph.output:
        value.type.tensor_type.elem_type = INT32 if value.name == "counts" else FLOAT
    shapes = {key: [extent if isinstance(extent, int) else 3 for extent in shape] for key, (_, shape) in inputs.items()}
    return proto, [feeds[key] if key in feeds else random(*shape, seed=9) for key, shape in shapes.items()]


OPSETS = (13, 20)
DEPENDENT_ON_THE_OPSET = {
    "BiasGelu", "FastGelu", "FastGelu without bias", "Gelu", "LayerNormalization", "embeddings", "embeddings, mask",
    "norm of a sum", "norm of a sum without bias",
}  # fmt: skip
"""Operators that are replaced by operators that opset 13 lacks."""


@pytest.mark.parametrize(
    ("name", "opset"),
    [*((name, 20) for name in sorted(CASES)), *((name, 13) for name in sorted(DEPENDENT_ON_THE_OPSET))],
)
def test_an_operator_of_onnx_runtime_agrees_with_it(tmp_path, name, opset):
    proto, feeds = case_model(name, opset)
    outputs = run_compiled(read(save(tmp_path / "m.onnx", proto)), feeds)
    for output, expected in zip(outputs, runtime(proto, feeds), strict=True):
        assert output.shape == expected.shape
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(CASES.keys() - DEPENDENT_ON_THE_OPSET))
def test_an_older_opset_gives_the_same_network(tmp_path, name):
    older, newer = (read(save(tmp_path / "m.onnx", case_model(name, opset)[0])) for opset in OPSETS)
    tvm.ir.assert_structural_equal(older.module, newer.module)
    assert older.params.keys() == newer.params.keys()
    for parameter in older.params:
        np.testing.assert_array_equal(older.params[parameter].numpy(), newer.params[parameter].numpy())


def test_every_replaced_floating_point_operator_is_tested():
    elsewhere = {"FusedMatMulActivation", "TransposeMatMul", "QAttention", *MOVES}
    assert CONTRIB_REWRITES.keys() - quantized.RULES.keys() - elsewhere == {operator for operator, *_ in CASES.values()}


WEIGHTS = {
    "4 bits": (4, 16, None),
    "4 bits, zero points": (4, 16, np.uint8),
    "4 bits, zero points of any kind": (4, 32, np.float32),
    "8 bits": (8, 16, None),
    "8 bits, zero points": (8, 32, np.uint8),
}


@pytest.mark.parametrize(("bits", "size", "zeros"), WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("is_biased", [False, True])
def test_blocked_weights_of_few_bits_agree_with_onnx_runtime(tmp_path, bits, size, zeros, is_biased):
    rows, columns = 40, 6  # the last block is not full
    blocks, draw = -(-rows // size), np.random.default_rng(0)
    constants = {
        "w": draw.integers(0, 256, (columns, blocks, size * bits // 8), np.uint8),
        "scales": np.abs(random(columns * blocks)) / 10,
    }
    if zeros is np.uint8:
        constants["zeros"] = draw.integers(0, 256, columns * -(-blocks * bits // 8), np.uint8)
    elif zeros is not None:
        constants["zeros"] = np.abs(random(columns * blocks, seed=3)) * 8
    if is_biased:
        constants["bias"] = random(columns, seed=4)
    names = ["x", *(name if name in constants else "" for name in ("w", "scales", "zeros", "", "bias"))]
    values = {"K": rows, "N": columns, "bits": bits, "block_size": size}
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **values)
    proto = model([node], {"x": (FLOAT, ["batch", 3, rows])}, ["y"], constants, domains=["com.microsoft"])
    x = random(2, 3, rows)
    outputs = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])
    np.testing.assert_allclose(outputs[0], runtime(proto, [x])[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("is_regular", [False, True], ids=["blocks of any size", "whole blocks"])
def test_rows_of_weights_may_belong_to_blocks_in_any_order(tmp_path, has_zeros, is_regular):
    rows, columns, size = 64, 6, 16
    blocks, draw = rows // size, np.random.default_rng(0)
    constants = {
        "w": draw.integers(0, 256, (columns, blocks, size // 2), np.uint8),
        "scales": np.abs(random(columns * blocks)) / 10,
        "order": (draw.permutation(rows) // size if is_regular else draw.integers(0, blocks, rows)).astype(np.int32),
    }
    if has_zeros:
        constants["zeros"] = draw.integers(0, 16, columns * blocks).astype(np.float32)
    names = ["x", *(name if name in constants else "" for name in ("w", "scales", "zeros", "order"))]
    node = helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=rows, N=columns, bits=4, block_size=size
    )
    proto = model([node], {"x": (FLOAT, ["batch", 3, rows])}, ["y"], constants, domains=["com.microsoft"])
    x = random(2, 3, rows)
    result = read(save(tmp_path / "m.onnx", proto))
    np.testing.assert_allclose(run_compiled(result, [x])[0], runtime(proto, [x])[0], rtol=1e-3, atol=1e-3)


TABLE_TYPES = {
    "4 bits": (ml_dtypes.int4, {}),
    "4 bits without signs": (ml_dtypes.uint4, {}),
    "4 bits in bytes": (np.uint8, {"bits": 4}),
    "8 bits": (np.uint8, {"bits": 8}),
}


@pytest.mark.parametrize(("kind", "values"), TABLE_TYPES.values(), ids=TABLE_TYPES)
@pytest.mark.parametrize("has_zeros", [False, True])
def test_a_blocked_table_of_few_bits_agrees_with_onnx_runtime(tmp_path, kind, values, has_zeros):
    draw, rows, columns, size = np.random.default_rng(0), 7, 64, 16
    bits = values.get("bits", 4)

    def integers(extent: int) -> np.ndarray:
        if kind is np.uint8:
            return draw.integers(0, 256, (rows, extent * bits // 8)).astype(np.uint8)
        return draw.integers(-8 if kind is ml_dtypes.int4 else 0, 8, (rows, extent)).astype(kind)

    constants = {"table": integers(columns), "scales": np.abs(random(rows, columns // size))}
    constants |= {"zeros": integers(columns // size)} if has_zeros else {}
    names = ["table", "indices", "scales", *(["zeros"] if has_zeros else [])]
    values = {**values, "block_size": size, "gather_axis": 0, "quantize_axis": 1}
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", **values)
    proto = model([node], {"indices": (INT64, [2, 3])}, ["y"], constants, opset=21, domains=["com.microsoft"])
    indices = draw.integers(0, rows, (2, 3))
    (result,) = run_compiled(read(save(tmp_path / "m.onnx", proto)), [indices])
    np.testing.assert_allclose(result, runtime(proto, [indices])[0], rtol=1e-5, atol=1e-5)


def test_consecutive_operators_are_replaced(tmp_path):
    nodes = [
        helper.make_node("BiasGelu", ["x", "bias"], ["a"], domain="com.microsoft"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("SkipLayerNormalization", ["b", "x", "gamma", "beta"], ["c"], domain="com.microsoft"),
        helper.make_node("FusedMatMul", ["c", "c"], ["y"], domain="com.microsoft", transB=1),
    ]
    proto = model(nodes, X, ["y"], NORM, domains=["com.microsoft"])
    x = random(2, 5, 8)
    outputs = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])
    np.testing.assert_allclose(outputs[0], runtime(proto, [x])[0], rtol=1e-4, atol=1e-4)


def test_consecutive_attentions_with_lengths_and_a_dynamic_batch(tmp_path):
    nodes = [
        helper.make_node("Attention", ["x", "w", "b", "lengths"], ["a"], domain="com.microsoft", num_heads=2),
        helper.make_node("SkipLayerNormalization", ["a", "x", "gamma", "beta"], ["c"], domain="com.microsoft"),
        helper.make_node("Attention", ["c", "w", "b", "lengths"], ["y"], domain="com.microsoft", num_heads=2),
    ]
    inputs = {"x": (FLOAT, ["batch", 5, 8]), "lengths": (INT32, ["batch"])}
    proto = model(nodes, inputs, ["y"], {**PROJECTION, **NORM}, domains=["com.microsoft"])
    feeds = [random(2, 5, 8), np.array([3, 5], np.int32)]
    outputs = run_compiled(read(save(tmp_path / "m.onnx", proto)), feeds)
    np.testing.assert_allclose(outputs[0], runtime(proto, feeds)[0], rtol=1e-4, atol=1e-5)


def optimised(proto, path, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return path


def network():
    weights = {
        "w": random(8, 4, 3, 3),
        "v": random(8, 8, 1, 1, seed=1),
        "g": random(3),
        "b": random(3, seed=1),
        "two": np.float32(2),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["c"]),
        helper.make_node("Conv", ["c", "v"], ["d"]),
        helper.make_node("Add", ["d", "c"], ["e"]),
        helper.make_node("Relu", ["e"], ["r"]),
        helper.make_node("ReduceMean", ["r"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["r", "mean"], ["deviation"]),
        helper.make_node("Pow", ["deviation", "two"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["variance"], axes=[-1]),
        helper.make_node("Add", ["variance", "epsilon"], ["sum"]),
        helper.make_node("Sqrt", ["sum"], ["root"]),
        helper.make_node("Div", ["deviation", "root"], ["normal"]),
        helper.make_node("Mul", ["normal", "g"], ["scaled"]),
        helper.make_node("Add", ["scaled", "b"], ["y"]),
    ]
    constants = {**weights, "epsilon": np.float32(1e-5)}
    return model(nodes, {"x": (FLOAT, [1, 4, 5, 5])}, ["y"], constants, opset=13)


def test_a_file_optimised_by_onnx_runtime_agrees_with_the_original_model(tmp_path):
    proto, x = network(), random(1, 4, 5, 5)
    path = optimised(proto, tmp_path / "m.onnx", onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
    stored = onnx.load(path)
    result = {(node.domain, node.op_type) for node in stored.graph.node}
    assert {("com.microsoft", "FusedConv"), ("", "LayerNormalization")} <= result
    assert [value.name for value in inspect(path).outputs] == ["y"]
    np.testing.assert_allclose(run_compiled(read(path), [x])[0], runtime(proto, [x])[0], rtol=1e-4, atol=1e-4)
    onnx.save_model(stored, path, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    np.testing.assert_allclose(run_compiled(read(path), [x])[0], runtime(proto, [x])[0], rtol=1e-4, atol=1e-4)


def test_a_file_with_blocked_weights_is_refused_with_a_suitable_level(tmp_path):
    path = optimised(network(), tmp_path / "m.onnx", onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    if all(node.domain != "com.microsoft.nchwc" for node in onnx.load(path).graph.node):
        pytest.skip("ONNX Runtime has no blocked layout for this processor")
    with pytest.raises(InputError, match=r"com\.microsoft\.nchwc::Conv") as refused:
        inspect(path)
    assert "ORT_ENABLE_EXTENDED" in refused.value.remedy


def test_an_operator_in_an_unsupported_form_is_refused(tmp_path):
    ends = {"x": (FLOAT, [2, 5, 8]), "m": (INT32, [4])}
    contrib_node = helper.make_node("Attention", ["x", "w", "b", "m"], ["y"], domain="com.microsoft", num_heads=2)
    proto = model([contrib_node], ends, ["y"], PROJECTION, domains=["com.microsoft"])
    with pytest.raises(InputError, match=r"not in this form .*Attention") as refused:
        read(save(tmp_path / "m.onnx", proto))
    assert "before ONNX Runtime" in refused.value.remedy


@pytest.mark.parametrize("operator", ["QLinearConv", "NhwcMaxPool"])
def test_quantised_operators_with_channels_last(tmp_path, operator):
    draw = np.random.default_rng(0)
    # Weights have 7 bits: with 8, ONNX Runtime's sums saturate on processors with AVX2 alone.
    constants = {
        "xs": np.float32(0.02), "xz": np.uint8(120), "w": draw.integers(-64, 64, (4, 3, 3, 3)).astype(np.int8),
        "ws": np.float32(0.004), "wz": np.int8(0), "ys": np.float32(0.05), "yz": np.uint8(128),
    }  # fmt: skip
    if operator == "QLinearConv":
        quantised = helper.make_node(operator, ["x", *constants], ["y"], domain="com.microsoft", channels_last=1)
    else:
        constants = {}
        quantised = helper.make_node(operator, ["x"], ["y"], domain="com.microsoft", kernel_shape=[2, 2])
    proto = model([quantised], {"x": (UINT8, [1, 8, 8, 3])}, ["y"], constants, domains=["com.microsoft"])
    proto.graph.output[0].type.tensor_type.elem_type = UINT8
    x = draw.integers(0, 256, (1, 8, 8, 3)).astype(np.uint8)
    result, expected = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])[0], runtime(proto, [x])[0]
    # A value at a rounding tie may differ by one step.
    assert result.shape == expected.shape and np.abs(result.astype(int) - expected).max() <= 1
