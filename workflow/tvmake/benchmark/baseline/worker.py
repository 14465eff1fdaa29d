"""The baseline's process: ``python -m tvmake.benchmark.baseline.worker REQUEST REFERENCE RESULT``, with a socket as standard input.

It listens on that socket for the package's process, which determines when and with how many threads to load the model, and
when to measure (:mod:`tvmake.device.sharing.turns`). At the end it writes a result. A model or framework that crashes here does not
disturb the measurement of the package.
"""

import importlib
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tvmake.artifact.states import initial_states
from tvmake.benchmark.baseline.prepared import Prepared
from tvmake.benchmark.baseline.result import Baseline, NoBaseline
from tvmake.benchmark.statistics import latency_statistics
from tvmake.config.requests.running import BenchmarkRequest
from tvmake.device.sharing.turns import TURNS, Sampler, turn_limit_s
from tvmake.errors import TvmakeError
from tvmake.frontend.fixed_inputs import complete_inputs, fixed_inputs
from tvmake.frontend.formats import BASELINES
from tvmake.process.parent_death import end_with_starter
from tvmake.process.tvm_import import hide_torch_from_tvm
from tvmake.validate.reference.stored import ReferenceSet

Step = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def main(arguments: list[str]) -> int:
    """Serve one measurement; see the module's docstring for the arguments."""
    end_with_starter()
    hide_torch_from_tvm()
    request_file, reference, result = map(Path, arguments)
    request = BenchmarkRequest.model_validate_json(request_file.read_bytes())
    measured: BaseModel | None
    try:
        measured = _serve(request, reference, socket.socket(fileno=0))
    except TvmakeError as error:
        measured = NoBaseline(problem=error.problem, remedy=error.remedy)
    except Exception as error:  # noqa: BLE001  # models and frameworks raise anything; the package's figures stay valid
        traceback.print_exc()
        line = next(iter(str(error).strip().splitlines()), "")
        measured = NoBaseline(problem=f"the framework cannot run it: {type(error).__name__}: {line}")
    if measured is not None:
        result.write_text(measured.model_dump_json())
    return 0


def _serve(request: BenchmarkRequest, reference: Path, listening: socket.socket) -> Baseline | None:
    connection, _ = listening.accept()
    listening.close()
    with connection, connection.makefile("rw") as lines:
        words = lines.readline().split()
        if words[:1] != ["threads"]:
            return None  # the package's process has ended
        threads = int(words[1])
        started = time.perf_counter()
        prepared = _prepare(request, reference, threads)
        load_ms = _since(started)
        first_run_ms = _time_runs(prepared, 1)
        sampler = Sampler(lambda number: _time_runs(prepared, number), request.measurement, TURNS)
        lines.write("ready\n")
        lines.flush()
        steps_ms: list[list[float]] = []
        while (word := lines.readline().strip()) in ("turn", "sequence"):
            if word == "turn":
                sampler.take_turn(turn_limit_s(request.measurement))
            elif prepared.step is not None:
                steps_ms.append(_time_steps(prepared.step, request, reference))
            lines.write("done\n")
            lines.flush()
    if not sampler.samples_ms:
        return None
    return Baseline(
        framework=prepared.framework,
        threads=threads,
        load_ms=load_ms,
        first_run_ms=first_run_ms,
        number=sampler.number,
        warmup_ms=sampler.warmup_ms,
        samples_ms=sampler.samples_ms,
        statistics=latency_statistics(sampler.samples_ms, request.measurement.noise_cv),
        steps_ms=steps_ms,
    )


def _prepare(request: BenchmarkRequest, reference: Path, threads: int) -> Prepared:
    assert request.baseline is not None
    known = ReferenceSet(reference)
    sample = next(iter(known))
    module = importlib.import_module(BASELINES[str(request.baseline.source_format())])
    fixed = fixed_inputs(request.baseline)
    own = known.info.signature.of_source
    signature = own if fixed is None else fixed.complete(own)
    inputs = complete_inputs(
        {**sample.inputs, **initial_states(known.info.signature.with_source_states, sample.inputs)}, fixed
    )
    prepared: Prepared = module.prepare(request.baseline.source, request.baseline, signature, inputs, threads)
    return prepared


def _time_steps(step: Step, request: BenchmarkRequest, reference: Path) -> list[float]:
    """The time of each step of a sequence in ms, with its states fed back."""
    assert request.baseline is not None
    known = ReferenceSet(reference)
    signature = known.info.signature
    fed = [state for state in signature.states if state.places is not None]
    fixed = fixed_inputs(request.baseline)
    states: dict[str, Any] = {}
    times_ms = []
    for sample in islice(known, known.sequence_length):
        if not states:
            begin = initial_states(signature, sample.inputs)
            states = {state.name: begin[state.name] for state in fed}
        inputs = {**complete_inputs(sample.inputs, fixed), **states}
        started = time.perf_counter()
        outputs = step(inputs)
        times_ms.append(_since(started))
        states = {state.name: outputs[state.next.name] for state in fed}
    return times_ms


def _time_runs(prepared: Prepared, number: int) -> float:
    """The mean time of a run in ms."""
    started = time.perf_counter()
    for _ in range(number):
        prepared.run()
    return _since(started) / number


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
