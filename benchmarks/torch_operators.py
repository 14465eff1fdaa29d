"""Number of PyTorch's operators with correct results on torch's own samples: import, build, run on the CPU.

    python benchmarks/torch_operators.py [--results operators.jsonl] [--only add interpolate …] [--samples 12]

The samples are those that PyTorch tests its operators with (``torch.testing``'s ``op_db``; it needs the package expecttest).
Each sample is exported as a network of one operator, imported as tvmake imports it, built without schedules, run, and compared
with torch. Each operator is tried in a process of its own; what is in ``--results`` already is not tried again.

right, wrong (another value, shape or type), refused (with a reason), failed (it does not build or run), died.
Exits with 1 where one is wrong or died.
"""

import argparse
import json
import os
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.frontend.torch.running import outputs
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

LEFT_OUT = (
    "bernoulli", "bool", "byte", "cauchy", "cdouble", "cfloat", "chalf", "char", "cholesky", "complex", "double", "eig", "empty",
    "exponential", "fft", "float", "geometric", "geqrf", "half", "int", "istft", "jiterator", "linalg", "log_normal", "long", "lu",
    "masked", "multinomial", "native_", "new_", "nonzero", "normal", "qr", "rand", "short", "signal", "sparse", "special", "stft",
    "svd", "to_sparse", "torch.ops.aten._", "uniform", "unique", "_upsample",
)  # fmt: skip
"""Prefixes of operators that are random, have no fixed shape, do not occur in networks, or only change types."""

LIMIT_S = 300
ORDER = ("right", "refused", "wrong", "failed", "died")


class One(nn.Module):
    """An operator as a network; its tensors are the inputs, all else is fixed."""

    def __init__(self, function: Callable[..., Any], sample: Any):
        super().__init__()
        self.function = function
        self.leaves, self.structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.positions = [index for index, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        arguments = ", ".join(f"a{number}" for number in range(len(self.positions)))
        namespace: dict[str, Any] = {}
        # torch.export names inputs after the arguments of forward, which have to be written out.
        exec(f"def forward(self, {arguments}):\n    return self.call([{arguments}])", namespace)
        self.forward = namespace["forward"].__get__(self)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The sample's tensors."""
        return tuple(self.leaves[index].detach().clone() for index in self.positions)

    def call(self, values: list[Tensor]) -> Any:
        """What the operator gives for tensors."""
        leaves = list(self.leaves)
        for index, value in zip(self.positions, values, strict=True):
            leaves[index] = value
        first, args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        found = self.function(first, *args, **kwargs)
        return tuple(found) if isinstance(found, list | tuple) else found


def outcome(function: Callable[..., Any], sample: Any) -> str | None:
    """What became of a sample, with the reason; None where torch cannot export it, or it has no elements."""
    network = One(function, sample).eval()
    inputs = network.inputs
    if not inputs or any(not value.numel() for value in inputs):
        return None
    try:
        expected = [value for value in pytree.tree_leaves(network(*inputs)) if isinstance(value, Tensor)]
        program = torch.export.export(network, network.inputs)
    except Exception:  # noqa: BLE001  # whatever torch says
        return None
    try:
        imported = read(program, ImportOptions(source="operators:one", trusted=True))
    except InputError as error:
        return f"refused: {error.problem}"
    try:
        found = outputs(imported, *(value.numpy() for value in inputs))
    except Exception as error:  # noqa: BLE001  # whatever TVM says
        return f"failed: {type(error).__name__}: {str(error)[-200:]}"
    for got, tensor in zip(found, expected, strict=True):
        value = tensor.detach().numpy()
        if got.shape != value.shape or got.dtype != value.dtype:
            return f"wrong: {got.dtype} {got.shape}, not {value.dtype} {value.shape}"
        if not np.allclose(got, value, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"wrong: {sample.args} {sample.kwargs}"
    return "right"


def outcomes(operator: Any, samples: int) -> Iterator[str]:
    """Those of an operator's samples, from a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(LIMIT_S)
        with os.fdopen(writing, "w") as pipe:
            for sample in islice(operator.sample_inputs("cpu", torch.float32), samples):
                if found := outcome(operator.op, sample):
                    pipe.write(json.dumps(found) + "\n")
                    pipe.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        yield from (json.loads(line) for line in pipe)
    _, status = os.waitpid(child, 0)
    if status:
        yield f"died: {os.waitstatus_to_exitcode(status)}"


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("operators.jsonl"))
    parser.add_argument("--only", nargs="+", help="operators, by a part of their names")
    parser.add_argument("--samples", type=int, default=12, help="of each operator, at most")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db  # the table of samples has no other door

    lines = arguments.results.read_text().splitlines() if arguments.results.is_file() else []
    rows = {row["operator"]: row for row in map(json.loads, lines)}
    with arguments.results.open("a") as results:
        for operator in op_db:
            name = operator.full_name
            is_wanted = (
                any(part in name for part in arguments.only) if arguments.only else not name.startswith(LEFT_OUT)
            )
            if name in rows or not is_wanted or torch.float32 not in operator.dtypes:
                continue
            found = list(outcomes(operator, arguments.samples))
            rows[name] = {"operator": name, "counts": Counter(one.partition(":")[0] for one in found)}
            rows[name]["reasons"] = sorted({one for one in found if one != "right"})[:3]
            results.write(json.dumps(rows[name]) + "\n")
            results.flush()
            for reason in rows[name]["reasons"]:
                print(f"{name}: {reason}", file=sys.stderr)
    worst = Counter(max(row["counts"], key=ORDER.index) for row in rows.values() if row["counts"])
    print(json.dumps({"operators by their worst sample": worst, "torch": torch.__version__}))
    return 1 if worst["wrong"] or worst["died"] else 0


if __name__ == "__main__":
    sys.exit(main())
