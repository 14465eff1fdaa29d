"""Packages with several functions, joined from packages of one network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import tvmake
from tvmake.artifact import joining


def join(packages: Mapping[str, Path], destination: Path) -> Path:
    """Write a package with these packages' networks as functions."""
    joining.join(packages, destination, model=destination.stem)
    return destination


HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
"""Of a network in ONNX's text form."""

WIDTH, WORDS = 48, 200

PREFILL = f"""
{HEAD}
prefill (int64[1, t] tokens, float[1, past, {WIDTH}] cache) => (float[1, {WIDTH}] summary, float[1, total, {WIDTH}] next_cache)
<float[{WORDS}, {WIDTH}] table, int64[1] axis = {{1}}>
{{
  hidden = Gather(table, tokens)
  next_cache = Concat<axis = 1>(cache, hidden)
  summary = ReduceSum<keepdims = 0>(next_cache, axis)
}}
"""
"""Appends the rows of several tokens to a cache, and sums it."""

DECODE = f"""
{HEAD}
decode (int64[1, 1] token, float[1, past, {WIDTH}] cache, float[1, 1] steps)
    => (float[1, {WIDTH}] summary, float[1, 1] count, float[1, total, {WIDTH}] next_cache, float[1, 1] next_steps)
<float[{WORDS}, {WIDTH}] table, float[{WIDTH}, {WIDTH}] weight, int64[1] axis = {{1}}, float one = {{1.0}}>
{{
  row = Gather(table, token)
  hidden = MatMul(row, weight)
  next_cache = Concat<axis = 1>(cache, hidden)
  summary = ReduceSum<keepdims = 0>(next_cache, axis)
  next_steps = Add(steps, one)
  count = Identity(next_steps)
}}
"""
"""Appends one row to the same cache, from the same table and with a weight of its own, and counts its runs."""

STATES = {"prefill": {"cache": "next_cache"}, "decode": {"cache": "next_cache", "steps": "next_steps"}}


class Reference:
    """A session of the two networks."""

    def __init__(self, weights: Mapping[str, np.ndarray]):
        self.table, self.weight = weights["table"], weights["weight"]
        self.rows: list[np.ndarray] = []

    def prefill(self, tokens: np.ndarray) -> np.ndarray:
        self.rows += list(self.table[tokens[0]])
        return np.sum(self.rows, 0)[None]

    def decode(self, token: np.ndarray) -> np.ndarray:
        self.rows.append(self.table[token[0, 0]] @ self.weight)
        return np.sum(self.rows, 0)[None]


def tokens(seed: int, count: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, WORDS, (1, count))


def weights(rows: int = WORDS) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    table = random.standard_normal((rows, WIDTH), "float32")
    return {"table": table, "weight": random.standard_normal((WIDTH, WIDTH), "float32") / np.float32(WIDTH**0.5)}


def network(text: str, file: Path, values: Mapping[str, np.ndarray]) -> Path:
    """An ONNX file of a network whose initializers have these values."""
    model = onnx.parser.parse_model(text)
    declared = [value.name for value in model.graph.value_info if value.name in values]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(values[name], name) for name in declared)
    onnx.save(model, file)
    return file


def packages(
    directory: Path, values: Mapping[str, np.ndarray], target: str | None = None, **options: Any
) -> dict[str, Path]:
    """Packages of a prefill and a decode with equal weights."""
    texts = {"prefill": PREFILL, "decode": DECODE}
    rows = len(values["table"])
    return {
        name: tvmake.load(
            network(
                text.replace(f"[{WORDS}, {WIDTH}] table", f"[{rows}, {WIDTH}] table"),
                directory / f"{name}.onnx",
                values,
            ),
            state=STATES[name],
        )
        .compile(target, shows_progress=False, options=options or None)
        .file
        for name, text in texts.items()
    }
