"""The tables of graph rewrites, from operators to rules. This module does not import TVM."""

from collections.abc import Mapping

from tvmake.frontend.lowering.tables import merge_tables
from tvmake.frontend.onnx.graph import Rule
from tvmake.frontend.onnx.rewrites import (
    control_flow,
    data_slices,
    declared_shapes,
    function_bodies,
    operators,
    quantized,
    resize,
    rnn,
    sampling,
    signal,
)
from tvmake.frontend.onnx.rewrites.contrib import attention, classical, grouped_attention, rotary
from tvmake.frontend.onnx.rewrites.contrib import operators as contrib_operators
from tvmake.frontend.onnx.rewrites.contrib import quantized as contrib_quantized

REWRITES: Mapping[str, Rule] = merge_tables(
    control_flow.RULES,
    data_slices.RULES,
    declared_shapes.RULES,
    function_bodies.RULES,
    operators.RULES,
    quantized.RULES,
    resize.RULES,
    rnn.RULES,
    sampling.RULES,
    signal.RULES,
)
"""Rules by the operator's name in ONNX's domains."""

CONTRIB_REWRITES: Mapping[str, Rule] = merge_tables(
    attention.RULES,
    contrib_operators.RULES,
    contrib_quantized.RULES,
    grouped_attention.RULES,
    rotary.RULES,
)
"""Rules by the operator's name in ONNX Runtime's domain, ``com.microsoft``."""

CLASSICAL_REWRITES: Mapping[str, Rule] = classical.RULES
"""Rules by the operator's name in the domain of classical models, ``ai.onnx.ml``."""
