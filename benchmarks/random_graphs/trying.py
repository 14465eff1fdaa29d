"""Build a network for targets, run it, and report the result, each time in its own process."""

import json
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm

from tvmake.artifact.extents import check_extents
from tvmake.codegen.generating import lower_and_generate
from tvmake.codegen.weights import packed_weights
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.config.validation import goals_for
from tvmake.device.code import checking_arguments
from tvmake.device.local.cuda_compiler import choose_compiler
from tvmake.errors import InputError, TvmakeError
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.onnx import importer as onnx_importer
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.native.backend import opencl_library
from tvmake.process.fork import fork, signal_group
from tvmake.process.parent_death import end_with_parent
from tvmake.process.supervised import exit_description
from tvmake.quantize.precision import PrecisionConfig
from tvmake.targets.resolve import tvm_target
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

from .dynamic import exported, sizes
from .network import Kind, Network, Program
from .onnx_nodes import RuntimeRefusesError, model_of, run, session
from .reference import is_judgeable, outputs, problem

ORDER = ("right", "refused", "unjudged", "failed", "wrong", "crashed", "timeout")
"""Outcomes; the last three are defects of tvmake, the fourth is one of TVM's that tvmake reports without knowing it."""

LIMIT_S = 600
MEMORY_BYTES = 12 << 30


@dataclass(frozen=True)
class Outcome:
    """What became of a network on a target."""

    target: str
    precision: str
    outcome: str
    cause: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Subject:
    """A network in the form in which tvmake gets it."""

    imported: Callable[[], ImportedModel]
    inputs: Sequence[np.ndarray]
    expected: Sequence[np.ndarray]
    is_judgeable: Callable[[str], bool]
    """Whether rounding of a precision leaves the outputs within its goals."""
    resized: Sequence[tuple[str, Sequence[np.ndarray], Sequence[np.ndarray]]] = ()
    """For other sizes of dynamic dimensions: in words, with inputs and outputs."""


def of_torch(network: Network, kinds: Mapping[str, Kind]) -> Subject:
    """A network as PyTorch exports it."""
    program, inputs = Program(network, kinds), network.examples()

    def imported() -> ImportedModel:
        return read(exported(network, program), ImportOptions(source="random:network", trusted=True))

    others = [(str(size), network.examples(size)) for size in sizes(network)]
    return Subject(
        imported,
        [value.numpy() for value in inputs],
        outputs(program, inputs),
        lambda precision: is_judgeable(network, kinds, precision),
        [(size, [value.numpy() for value in given], outputs(program, given)) for size, given in others],
    )


def of_onnx(network: Network, kinds: Mapping[str, Kind]) -> Subject:
    """A network as an ONNX file."""
    program, inputs = Program(network, kinds), network.examples()
    model = model_of(network, program)

    def imported() -> ImportedModel:
        with tempfile.TemporaryDirectory(prefix="tvmake-random-") as directory:
            path = Path(directory) / "random.onnx"
            path.write_bytes(model.SerializeToString())
            return onnx_importer.read(path, ImportOptions(source=str(path)))

    whole = session(model)

    def case(given: Sequence[torch.Tensor]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        feeds = {f"v{number}": value.numpy() for number, value in enumerate(given)}
        return list(feeds.values()), run(whole, [f"v{number}" for number in network.outputs], feeds)

    return Subject(
        imported,
        *case(inputs),
        lambda precision: is_judgeable(network, kinds, precision),
        [(str(size), *case(network.examples(size))) for size in sizes(network)],
    )


def tvmake_target(tag: str) -> TargetConfig:
    """What a target's name means."""
    return TargetConfig(kind=tag) if tag in ("llvm", "opencl", "cuda") else TargetConfig(tag=tag)


def outcome(subject: Subject, imported: Any, tag: str, precision: str) -> tuple[str, str]:
    """What becomes of an imported network on a target, and why."""
    try:
        request = TransformRequest(precision=PrecisionConfig(base=precision))
        module, params = transform(imported.module, imported.params, request)
        config = tvmake_target(tag)
        target = tvm_target(config, "targets.t")
        if target.kind.name == "opencl":
            opencl_library()  # before kernels are made, which takes TVM's part of it
        if target.kind.name == "cuda":
            choose_compiler()
        asked = BuildRequest(model="random", precision=precision, target_name="t", target=config)
        made, executable = lower_and_generate(module, target, asked, len(subject.inputs))
    except TvmakeError as error:
        return refusal(error)
    names = [str(parameter.name) for parameter in made.fused["main"].params[len(subject.inputs) :]]
    weights = packed_weights(params, made.packings, names) if made.packings else params
    device = tvm.cpu() if target.kind.name == "llvm" else tvm.device(target.kind.name, 0)
    machine = tvm.relax.VirtualMachine(executable, device)
    parameters = [weights[name].numpy() for name in names]

    def computed(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        given = [tvm.runtime.tensor(np.asarray(tensor, order="C"), device) for tensor in [*inputs, *parameters]]
        result: Any = machine["main"](*given)
        return [one.numpy() for one in ([result] if hasattr(result, "numpy") else result)]

    refused = ""
    for size, inputs, expected in [("", subject.inputs, subject.expected), *subject.resized]:
        words = f" at {size}" if size else ""
        try:
            named = zip(imported.signature.inputs, inputs, strict=True)
            check_extents(imported.signature, {spec.name: value.shape for spec, value in named})
            with checking_arguments():
                first, second = computed(inputs), computed(inputs)
        except InputError as error:
            refused = refused or error.problem + words
            continue
        if cause := problem(list(expected), first, goals_for(precision)):
            return "wrong", cause + words
        if not all(
            np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
            for one, other in zip(first, second, strict=True)
        ):
            return "wrong", f"two runs differ{words}"
    return ("refused", refused) if refused else ("right", "")


def refusal(error: TvmakeError) -> tuple[str, str]:
    """An error that tvmake reports: of its own knowledge, or because TVM failed."""
    is_foreign = error.__cause__ is not None and not isinstance(error.__cause__, TvmakeError)
    return "failed" if is_foreign else "refused", error.problem


def _outcomes(make: Callable[[], Subject], targets: Sequence[str], precisions: Sequence[str]) -> Iterator[Outcome]:
    began = time.monotonic()
    wanted = [(precision, tag) for precision in precisions for tag in targets]
    try:
        subject = make()
    except RuntimeRefusesError as error:
        for precision, tag in wanted:
            yield Outcome(tag, precision, "unjudged", f"ONNX Runtime refuses it: {' '.join(str(error).split())[:300]}")
        return
    judged = {precision: precision == "float32" or subject.is_judgeable(precision) for precision in precisions}
    try:
        imported = subject.imported()
    except TvmakeError as error:
        for precision, tag in wanted:
            yield Outcome(tag, precision, *refusal(error), round(time.monotonic() - began, 1))
        return
    for precision, tag in wanted:
        found, cause = outcome(subject, imported, tag, precision) if judged[precision] else ("unjudged", "")
        yield Outcome(tag, precision, found, cause, round(time.monotonic() - began, 1))
        began = time.monotonic()


def tried(
    make: Callable[[], Subject], targets: Sequence[str], precisions: Sequence[str], limit_s: int = LIMIT_S
) -> list[Outcome]:
    """What becomes of a network on targets; one that ends the process or takes too long costs the others nothing.

    Args:
        make: is pickled for a process that uses CUDA.
        targets: names of the catalogue, or kinds.
        precisions: to try on each.
        limit_s: of the seconds that the targets of a precision take.
    """
    found: list[Outcome] = []
    wanted = [(tag, precision) for precision in precisions for tag in targets]
    with tempfile.TemporaryDirectory(prefix="tvmake-random-") as directory:
        log = Path(directory) / "log"
        log.touch()
        while len(found) < len(wanted):
            done = {(one.target, one.precision) for one in found}
            tag, precision = next(one for one in wanted if one not in done)
            group = [one for one, other in wanted if other == precision and (one, other) not in done]
            is_fresh = any(
                tag.startswith("cuda") for tag in group
            )  # TVM opens CUDA as it loads, which leaves it unusable in forks
            some, end = _in_a_child(partial(_outcomes, make, group, [precision]), log, limit_s, is_fresh)
            found += some
            if len(some) < len(group):
                words = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
                last = words[-1][:300] if words else ""
                tag = group[len(some)]
                found.append(
                    Outcome(tag, precision, "timeout", f"over {limit_s} s")
                    if end is None
                    else Outcome(tag, precision, "crashed", f"{exit_description(end)}: {last}")
                )
    return found


def _in_a_child(
    work: Callable[[], Iterator[Outcome]], log: Path, limit_s: int, is_fresh: bool
) -> tuple[list[Outcome], int | None]:
    """What a process of its own yields, and how it ends; None where it did not in time."""
    reading, writing = multiprocessing.Pipe(duplex=False)
    if is_fresh:
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(work, log, writing, True))
        process.start()
    else:
        child = fork(partial(_serve, work, log, writing), leads="session")
    writing.close()
    found: list[Outcome] = []
    end = time.monotonic() + limit_s
    with reading, suppress(EOFError):
        while is_in_time := reading.poll(max(0, end - time.monotonic())):
            found.append(Outcome(**json.loads(reading.recv_bytes())))
    if is_fresh:
        if not is_in_time:
            process.kill()  # with it ends what it started
        process.join()
        code = process.exitcode
    else:
        if not is_in_time:
            signal_group(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return found, code if is_in_time else None


def _serve(work: Callable[[], Iterator[Outcome]], log: Path, answers: Connection, is_fresh: bool = False) -> None:
    """Send what work yields, with all output in a log, and memory limited."""
    if is_fresh:
        end_with_parent(os.getppid())
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    used = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(
        resource.RLIMIT_DATA, (used + MEMORY_BYTES,) * 2
    )  # CUDA reserves far more addresses than it uses
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for one in work():
        answers.send_bytes(json.dumps(asdict(one)).encode())
    answers.close()
    if is_fresh:
        os._exit(0)  # destructors of TVM and torch have crashed after good work
