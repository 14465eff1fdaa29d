"""Number of ONNX's test cases that are imported, built and run with correct values.

Runs the ONNX project's own backend test cases (package ``onnx.backend.test``): import, build for the CPU, run, compare
with the expected output that ships with the case. The groups are ``light`` (real architectures with constant weights),
``simple``, ``pytorch-operator``, ``pytorch-converted`` and ``node`` (one operator per case; the ``_expanded`` twins, in
which ONNX has replaced an operator by its function body, are left out).

    python benchmarks/onnx_coverage.py --importer tvm                    # TVM's importer alone
    python benchmarks/onnx_coverage.py --importer tvmake --json out.json # with tvmake's preparation
    python benchmarks/onnx_coverage.py --importer tvmake --filter 'lstm|gru' --verbose

Cases run in a worker process that is replaced when a case kills it or exceeds ``--timeout``. ``--fix-small-inputs``
turns every input but the first that has at most 64 elements into an initializer: the operator cases pass axes, shapes
and scales as run-time inputs, where real models have constants. Its counts are not comparable with the plain ones.
"""

import argparse
import collections
import json
import multiprocessing
import multiprocessing.connection
import os
import platform
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

GROUPS = ("light", "simple", "pytorch-operator", "pytorch-converted", "node")
OUTCOMES = ("pass", "refused", "import", "build", "run", "mismatch")
SMALL_INPUT = 64  # elements
MIN_RTOL, MIN_ATOL = 1e-3, 1e-5
HALF_RTOL = {"bfloat16": 2**-6, "float16": 2**-9}  # two units in the last place
DataSet = tuple[list[Any], list[Any]]


@dataclass(frozen=True)
class Case:
    """One backend test: a model (in memory or on disk) and where its inputs and expected outputs come from."""

    group: str
    name: str
    rtol: float
    atol: float
    model: onnx.ModelProto | None = None
    data_sets: Sequence[DataSet] | None = None
    path: Path | None = None

    def load(self) -> tuple[onnx.ModelProto, list[DataSet]]:
        """The model and its data sets, as (inputs, expected outputs) pairs of arrays or lists of arrays."""
        if self.model is not None:
            return self.model, [([as_array(x) for x in i], [as_array(x) for x in o]) for i, o in self.data_sets or ()]
        model = onnx.load(self.path)
        return model, [light_data(model, self.path)] if self.group == "light" else list(stored_data(model, self.path))


@dataclass(frozen=True)
class Result:
    """What became of a case. ``outcome`` is "pass" or the stage that failed; "refused" is an import that tvmake
    declined with an InputError; ``how`` tells an exception from a crash or a hang."""

    group: str
    name: str
    operators: list[str]
    outcome: str
    how: str
    message: str
    seconds: float


def as_array(value: Any) -> Any:
    """Cases hold arrays, TensorProtos (dtypes numpy lacks) or lists."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def light_data(model: onnx.ModelProto, path: Path) -> DataSet:
    """Inputs as ONNX's own runner makes them (0..1 ramps); expected outputs lie beside the model."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for value in model.graph.input:
        if value.name not in constants:
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            size = int(np.prod(shape))
            inputs.append((np.arange(size).reshape(shape) / size).astype(np.float32))
    outputs = [
        numpy_helper.to_array(onnx.load_tensor(path.with_name(f"{path.stem}_output_{index}.pb")))
        for index in range(len(model.graph.output))
    ]
    return inputs, outputs


def stored_data(model: onnx.ModelProto, path: Path) -> Iterator[DataSet]:
    """Inputs and expected outputs stored as protobuf files beside the model."""
    for folder in sorted(path.parent.glob("test_data_set*")):
        yield tuple(  # type: ignore[misc]
            [load_value(folder / f"{kind}_{index}.pb", values[index].type) for index in range(count)]
            for kind, values in (("input", model.graph.input), ("output", model.graph.output))
            for count in [len(list(folder.glob(f"{kind}_*.pb")))]
        )


def load_value(path: Path, kind: onnx.TypeProto) -> Any:
    if kind.HasField("sequence_type"):
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(path.read_bytes())
        return numpy_helper.to_list(sequence)
    return numpy_helper.to_array(onnx.load_tensor(path))


def find_cases(groups: Sequence[str], pattern: str) -> list[Case]:
    """Cases of the groups whose name matches the pattern, in a fixed order."""
    warnings.simplefilter("ignore", RuntimeWarning)  # the cases divide by zero on purpose
    data = Path(onnx.backend.test.__file__).parent / "data"
    cases = []
    for group in groups:
        for test in load_model_tests(kind="real" if group == "light" else group):
            case = Case(group, test.name, max(test.rtol, MIN_RTOL), max(test.atol, MIN_ATOL))
            if group == "node":
                if "_expanded" in test.name:
                    continue
                case = Case(group, test.name, case.rtol, case.atol, test.model, test.data_sets)
            elif group == "light":
                name = Path(test.url).name
                case = Case(group, test.name, case.rtol, case.atol, path=data / "light" / name)
            else:
                case = Case(group, test.name, case.rtol, case.atol, path=Path(test.model_dir) / "model.onnx")
            cases.append(case)
    cases.sort(key=lambda case: (GROUPS.index(case.group), case.name))
    return [case for case in cases if re.search(pattern, case.name)]


def fix_small_inputs(model: onnx.ModelProto, inputs: list[Any]) -> tuple[onnx.ModelProto, list[int]]:
    """Make small inputs other than the first initializers; returns the model and the inputs that are left."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    fixed.ir_version = max(fixed.ir_version, 4)  # before, initializers were inputs too
    kept = []
    for index, (value, data) in enumerate(zip(model.graph.input, inputs, strict=False)):
        if index and isinstance(data, np.ndarray) and data.dtype != object and data.size <= SMALL_INPUT:
            fixed.graph.initializer.append(numpy_helper.from_array(data, value.name))
            fixed.graph.input.remove(value)
        else:
            kept.append(index)
    return fixed, kept


def tvm_import(model: onnx.ModelProto) -> tuple[Any, list[Any]]:
    """TVM's importer, as its documentation uses it."""
    import tvm.relax.frontend.onnx

    return tvm.relax.frontend.onnx.from_onnx(model), []


def tvmake_import(model: onnx.ModelProto) -> tuple[Any, list[Any]]:
    """tvmake's importer, through a file as a user would."""
    from tvmake.frontend.onnx.importer import read
    from tvmake.frontend.options import ImportOptions

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        imported = read(path, ImportOptions(source=str(path)))
    return imported.module, list(imported.params.values())


def check_case(case: Case, importer: str, small_inputs_fixed: bool, enter: Any) -> None:
    """Take one case through all stages; ``enter`` is told each stage's name before it starts."""
    import tvm
    from tvm import relax

    model, data_sets = case.load()
    kept = None
    if small_inputs_fixed and data_sets:
        model, kept = fix_small_inputs(model, data_sets[0][0])
    enter("import")
    module, params = (tvm_import if importer == "tvm" else tvmake_import)(model)
    enter("build")
    # Single operators are compiled for speed of compiling; whole networks must also run in time.
    target = tvm.target.Target("llvm" if case.group == "light" else {"kind": "llvm", "opt-level": 0})
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    enter("run")
    for inputs, expected in data_sets:
        given = [inputs[index] for index in kept] if kept is not None else inputs
        if importer == "tvmake":
            given, expected = held(given), held(expected)
        feeds = [to_tvm(value) for value in given]
        result = machine["main"](*feeds, *[to_tvm(value) for value in params])
        enter("mismatch")
        compare(from_tvm(result), expected, case)
        enter("run")


def held(values: Sequence[Any]) -> list[Any]:
    """Values of narrow element types as tvmake's packages hold them."""
    from tvmake.frontend.onnx.narrow_types import to_storage_dtype

    return [to_storage_dtype(value) if isinstance(value, np.ndarray) else value for value in values]


def to_tvm(value: Any) -> Any:
    import tvm

    return [to_tvm(item) for item in value] if isinstance(value, list) else tvm.runtime.tensor(value)


def from_tvm(value: Any) -> list[Any]:
    values = list(value) if not hasattr(value, "numpy") else [value]
    return [item.numpy() if hasattr(item, "numpy") else from_tvm(item) for item in values]


def compare(outputs: Sequence[Any], expected: Sequence[Any], case: Case) -> None:
    """Same count, shapes, dtypes and values, as ONNX's runner compares. Raises AssertionError."""
    assert len(outputs) == len(expected), f"{len(outputs)} outputs, expected {len(expected)}"
    for index, (output, wanted) in enumerate(zip(outputs, expected, strict=True)):
        if isinstance(wanted, list):
            compare(output, wanted, case)
            continue
        wanted = np.asarray(wanted)
        assert output.shape == wanted.shape, f"output {index}: shape {output.shape}, expected {wanted.shape}"
        assert output.dtype == wanted.dtype, f"output {index}: {output.dtype}, expected {wanted.dtype}"
        kind = wanted.dtype.name
        if wanted.dtype.name not in np.sctypeDict and wanted.dtype != object:
            output, wanted = output.astype(np.float32), wanted.astype(np.float32)
        rtol = max(case.rtol, HALF_RTOL.get(kind, 0.0))
        np.testing.assert_allclose(output, wanted, rtol=rtol, atol=case.atol)


def work(pipe: multiprocessing.connection.Connection, cases: Sequence[Case], importer: str, fix_small: bool) -> None:
    """A worker: receives case indices, sends ("stage", name) messages and at last ("done", outcome, message)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    import tvm  # noqa: F401

    import tvmake.frontend.onnx.importer  # noqa: F401  both here, outside the timed part
    from tvmake.errors import InputError

    while True:
        stage = "load"

        def enter(name: str) -> None:
            nonlocal stage
            stage = name
            pipe.send(("stage", name))

        case = cases[pipe.recv()]
        try:
            check_case(case, importer, fix_small, enter)
            pipe.send(("done", "pass", ""))
        except InputError as error:
            pipe.send(("done", "refused", str(error)))
        except Exception as error:  # noqa: BLE001  every failure is a result here
            text = "".join(traceback.format_exception_only(type(error), error)).strip()
            frame = traceback.extract_tb(error.__traceback__)[-1]
            pipe.send(("done", stage, f"{text[:1500]} [{Path(frame.filename).name}:{frame.lineno}]"))


class Worker:
    """A process that runs many cases; restarted after a crash or a hang."""

    def __init__(self, cases: Sequence[Case], importer: str, fix_small: bool):
        self.arguments = (cases, importer, fix_small)
        self.process: Any = None
        self.pipe: Any = None

    def start(self) -> None:
        # fork: the operator cases take 10 s to make, and hold arrays that would have to be pickled.
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, *self.arguments), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None

    def run(self, index: int, timeout_s: float) -> tuple[str, str, str]:
        """Outcome, how it ended ("", "exception", "crash", "hang") and a message."""
        if self.process is None:
            self.start()
        self.pipe.send(index)
        stage, deadline = "load", time.monotonic() + timeout_s
        while True:
            try:
                if not self.pipe.poll(max(0.0, deadline - time.monotonic())):
                    self.stop()
                    return stage, "hang", f"no result within {timeout_s:g} s"
                message = self.pipe.recv()
            except EOFError:
                self.process.join()
                code = self.process.exitcode
                self.stop()
                return stage, "crash", f"worker ended with code {code}"
            if message[0] == "done":
                return message[1], "" if message[1] == "pass" else "exception", message[2]
            stage = message[1]


def table(results: Sequence[Result]) -> str:
    """Counts per group and outcome, as a Markdown table."""
    lines = ["| group | cases | " + " | ".join(OUTCOMES) + " |", "|---|" + "---|" * (len(OUTCOMES) + 1)]
    for group in GROUPS:
        counts = collections.Counter(result.outcome for result in results if result.group == group)
        if counts:
            cells = [group, str(sum(counts.values())), *(str(counts[outcome]) for outcome in OUTCOMES)]
            lines.append("| " + " | ".join(cells) + " |")
    crashes = collections.Counter(result.how for result in results)
    lines.append(f"\ncrashes: {crashes['crash']}, hangs: {crashes['hang']} (counted under the stage they happened in)")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--importer", choices=("tvm", "tvmake"), default="tvmake")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument("--filter", default="", help="regular expression on case names")
    parser.add_argument("--fix-small-inputs", action="store_true")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds per case")
    parser.add_argument("--json", type=Path, help="write every case's outcome here")
    parser.add_argument("--verbose", action="store_true", help="print each case that does not pass")
    options = parser.parse_args(arguments)

    cases = find_cases(options.groups, options.filter)
    worker = Worker(cases, options.importer, options.fix_small_inputs)
    results = []
    started = time.monotonic()
    try:
        for index, case in enumerate(cases):
            begun = time.monotonic()
            outcome, how, message = worker.run(index, options.timeout)
            model = case.model or onnx.load(case.path, load_external_data=False)
            operators = sorted({node.op_type for node in model.graph.node})
            seconds = round(time.monotonic() - begun, 3)
            results.append(Result(case.group, case.name, operators, outcome, how, message, seconds))
            if options.verbose and outcome != "pass":
                print(f"{outcome:9s} {case.group} {case.name}: {how} {message}", flush=True)
            if sys.stderr.isatty():
                print(f"\r{index + 1}/{len(cases)}", end="", file=sys.stderr)
    finally:
        worker.stop()
    print(table(results))
    report = {
        "command": " ".join(["python", "benchmarks/onnx_coverage.py", *(arguments or sys.argv[1:])]),
        "versions": {name: version(name) for name in ("apache-tvm", "apache-tvm-ffi", "onnx", "numpy")},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
        "date": time.strftime("%Y-%m-%d"),
        "seconds": round(time.monotonic() - started, 1),
        "results": [asdict(result) for result in results],
    }
    print(f"{report['command']}\n{report['versions']}; {report['machine']}; {report['date']}; {report['seconds']} s")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
