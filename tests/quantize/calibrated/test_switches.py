"""A network with a switch that rounds each layer to 8 bits."""

import numpy as np
import pytest
import tvm

from tvmake.artifact.calibration import TensorRange
from tvmake.codegen.on_this_machine import runner
from tvmake.frontend.relax_fixes import lift_constants
from tvmake.quantize.calibrated.insertion import insert
from tvmake.quantize.calibrated.sites import find_sites
from tvmake.quantize.calibrated.switches import with_switches
from tvmake.quantize.integers.conversion import to_integers
from tvmake.transform.fold_constants import evaluate_constants

from tvm import relax  # isort: skip

RANDOM = np.random.default_rng(0)
INDICES = np.array([[3, 60, 1, 0]], np.int64)


@pytest.fixture(scope="module")
def network() -> tvm.IRModule:
    """A table of rows, a convolution with a residual, and a matrix that is multiplied with twice."""
    builder = relax.BlockBuilder()
    op = relax.op
    indices = relax.Var("indices", relax.TensorType((1, 4), "int64"))
    table, kernel, matrix = (
        relax.const(RANDOM.standard_normal(shape).astype(np.float32)) for shape in ((64, 64), (4, 4, 3), (64, 64))
    )
    with builder.function("main", [indices]):
        with builder.dataflow():
            rows = builder.emit(op.take(table, indices, axis=0))
            sums = builder.emit(op.nn.conv1d(rows, kernel, padding=1))
            residual = builder.emit(op.add(sums, rows))
            once = builder.emit(op.tanh(builder.emit(op.matmul(residual, matrix))))
            result = builder.emit_output(op.matmul(once, matrix))
        builder.emit_func_output(result)
    return builder.get()


def test_each_switch_rounds_a_layer_and_all_switches_round_the_network(network: tvm.IRModule):
    sites = find_sites(network, ())
    ranges = [TensorRange(name="", low=-9, high=9, lowest=-9, highest=9) for _ in sites.tensors]
    shifts = [list(RANDOM.standard_normal(size)) for size in (4, 64, 64)]
    module, layers = with_switches(network, sites, ranges, shifts, 1)
    assert [(layer.operator, len(layer.names)) for layer in layers] == [("nn.conv1d", 1), ("matmul", 2), ("take", 1)]
    run = runner(*lift_constants(module), 1 + len(layers))

    def switched(*on: int) -> np.ndarray:
        switches = np.zeros((len(layers), 1), np.float32)
        switches[list(on)] = 1
        return run([INDICES, *switches])[0]

    (float_result,) = runner(*lift_constants(network), 1)([INDICES])
    integers = evaluate_constants(to_integers(insert(network, sites, ranges, shifts)))
    (result,) = runner(*lift_constants(integers), 1)([INDICES])
    np.testing.assert_allclose(switched(), float_result, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(switched(0, 1, 2), result, rtol=1e-4, atol=1e-3)
    assert np.abs(result - float_result).max() > 1
    errors = [np.abs(switched(number) - float_result).max() for number in range(3)]
    assert min(errors) > 0.01
