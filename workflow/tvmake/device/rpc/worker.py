"""Serves one request on a device over RPC, in a separate process: ``python -P -m tvmake.process.tvm_import
tvmake.device.rpc.worker FD``.

It loads TVM's runtime, sends ``Ready``, opens a session with the server in the request, and answers one request. A session is
native code that waits without limit for a hanging device, so its process must be one that can be killed.
"""

import sys
import time
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.device import clml, store
from tvmake.device.interface import RunResult, Timing
from tvmake.device.rpc.files import files_of
from tvmake.device.rpc.messages import (
    CallKernel,
    Describe,
    Failed,
    Lost,
    Open,
    Opened,
    Problem,
    Ready,
    Refused,
    Request,
    RunPackage,
)
from tvmake.device.rpc.orderly_close import close_after_death
from tvmake.device.rpc.package import NOTES, RemotePackage, load_library
from tvmake.device.rpc.remote_fingerprint import limit_threads, remote_fingerprint
from tvmake.device.rpc.session import SESSION_TIMEOUT, error_line, is_open
from tvmake.device.rpc.tensors import DirectTensors
from tvmake.device.rpc.version import check_version
from tvmake.device.samples import run_samples, since, time_steps
from tvmake.device.sharing.turns import SEQUENCES
from tvmake.device.store import read_stored_manifest
from tvmake.errors import DeviceError, InputError
from tvmake.process.parent_death import end_with_starter

from tvm import rpc  # isort: skip


def main(connection: Connection) -> None:
    """Open a session and serve one request; see the module's docstring."""
    connection.send(Ready())
    opening: Open = connection.recv()
    try:
        session = rpc.connect(opening.host, opening.port, opening.match_key, opening.timeout_s)
    except (tvm.error.InternalError, RuntimeError, OSError) as error:
        connection.send(Refused(error_line(error)))
        return
    close_after_death(opening.host, opening.port, opening.timeout_s)
    connection.send(Opened())
    request: Request = connection.recv()
    connection.send(_answer(session, request, opening))


def _answer(session: Any, request: Request, at: Open) -> Any:
    try:
        return _fulfil(session, request, at)
    except (InputError, DeviceError) as error:
        kind = "input" if isinstance(error, InputError) else "device"
        return Problem(kind, error.where, error.problem, error.remedy)
    except Exception as error:  # noqa: BLE001  # generated code can fail in any way; the caller says what it means
        if SESSION_TIMEOUT in str(error):
            return Lost(SESSION_TIMEOUT)
        return Failed(error_line(error)) if is_open(session) else Lost(error_line(error))


def _fulfil(session: Any, request: Request, at: Open) -> Fingerprint | RunResult | list[np.ndarray]:
    match request:
        case Describe():
            identity = check_version(session, _server(request, at))
            return remote_fingerprint(session, request.config, request.where, identity)
        case RunPackage():
            return _run(session, request, at)
        case CallKernel():
            return _call(session, request, at)


def _server(request: Request, at: Open) -> str:
    """The beginning of errors that depend on the server."""
    return f"{request.where} ({at.host}:{at.port})"


def _run(session: Any, request: RunPackage, at: Open) -> RunResult:
    manifest = read_stored_manifest(request.directory)
    identity = check_version(session, _server(request, at), store.built_with(manifest))
    fingerprint = remote_fingerprint(session, request.config, request.where, identity)
    started = time.perf_counter()
    direct = DirectTensors.of(session, at.host, at.port)
    files = files_of(session, _server(request, at), direct)
    package = RemotePackage(session, request.directory, manifest, request.where, files, direct)
    load_ms = since(started)
    first_run_ms = run_samples(package, manifest, request.request, request.inputs, request.outputs)
    how = request.request.measurement
    noted = clml.conditions(session.get_function) if manifest.clml else {}
    measured: dict[str, Any] = {"conditions": noted}
    if how:
        timed = partial(time_steps, package, manifest, request.inputs, request.request.timed_steps, package.timed_run)
        sequences = [timed() for _ in range(SEQUENCES if request.request.timed_steps else 0)]
        measured = {**package.measure(how), "steps_ms": sequences, "conditions": {**NOTES, **noted}}
    return RunResult(timing=Timing(load_ms=load_ms, first_run_ms=first_run_ms, **measured), fingerprint=fingerprint)


def _to_device(value: np.ndarray, device: Any, scope: str) -> Any:
    if scope == "global":
        return tvm.runtime.tensor(value, device)
    tensor = tvm.runtime.empty(value.shape, str(value.dtype), device, scope)
    tensor.copyfrom(value)
    return tensor


def _call(session: Any, request: CallKernel, at: Open) -> list[np.ndarray]:
    check_version(session, _server(request, at))
    limit_threads(session, request.config.threads, request.where)
    device = session.device(request.device, 0)
    files_of(session, _server(request, at)).send(request.library, request.library.name)
    function = load_library(session, request.library, request.library.name, request.where)[request.function]
    scopes = request.scopes or ["global"] * len(request.arguments)
    tensors = [_to_device(value, device, scope) for value, scope in zip(request.arguments, scopes, strict=True)]
    function(*tensors)
    device.sync()
    return [tensor.numpy() for tensor in tensors[len(tensors) - request.returned :]]


if __name__ == "__main__":
    end_with_starter()
    main(Connection(int(sys.argv[1])))
