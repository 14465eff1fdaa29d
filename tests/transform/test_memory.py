"""Memory of a transformation that changes all weights."""

from pathlib import Path

import numpy as np
import pytest

from tests.artifact.weights.memory import growth_mb
from tvmake.artifact.weights.tensors import save_params

SIDE, LAYERS = 2048, 12
WEIGHT_MB = SIDE * SIDE * 4 // 2**20

SETUP = """
from pathlib import Path
import tvm
from tvm import relax
from tvmake.artifact.weights.tensors import load_params, save_params
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformOptions, TransformRequest

def network(side, layers):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([1, side], "float32"))
    weights = [relax.Var(f"w{{number}}", relax.TensorType([side, side], "float32")) for number in range(layers)]
    with builder.function("main", [x, *weights], attrs={{"num_input": 1}}):
        with builder.dataflow():
            value = x
            for weight in weights:
                value = builder.emit(relax.op.matmul(value, builder.emit(relax.op.permute_dims(weight))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()

def run(layers, params):
    request = TransformRequest(precision=PrecisionConfig(base={base!r}), transform=TransformOptions(layout="keep"))
    return transform(network({side}, layers), params, request)[1]

params = load_params(Path({file!r}))
run(1, {{"w0": params["w0"]}})  # imports, and the memory that one weight needs
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network's weights."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("weights") / "m.params"
    save_params({f"w{number}": random.standard_normal((SIDE, SIDE), np.float32) for number in range(LAYERS)}, path)
    return path


@pytest.mark.parametrize("base", ["float32", "float16", "int8_weights", "int4_weights"])
def test_memory_has_one_weight_at_a_time(file: Path, tmp_path: Path, base: str):
    setup = SETUP.format(base=base, file=str(file), side=SIDE)
    grown = growth_mb(setup, f"save_params(run({LAYERS}, params), Path({str(tmp_path / 'o.params')!r}))")
    assert grown < 3 * WEIGHT_MB  # of twelve
