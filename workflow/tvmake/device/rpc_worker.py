"""Fulfils one order on a device over RPC, in a process of its own: ``python -P -m tvmake.device.rpc_worker FD``.

It loads TVM's runtime, says ``Ready``, opens a session with the server it is told, and answers one order. A session is
native code that waits without limit for a device that hangs, so it is in a process that can be killed.
"""

import os
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tvmake.artifact.package import verify_directory
from tvmake.device import store
from tvmake.device.hang_up import stay_behind
from tvmake.device.interface import Fingerprint, RunResult, Timing
from tvmake.device.orders import (
    CallKernel,
    Describe,
    Failed,
    Lost,
    Open,
    Opened,
    Order,
    Problem,
    Ready,
    Refused,
    RunPackage,
)
from tvmake.device.remote_facts import limit_threads, remote_fingerprint
from tvmake.device.rpc_files import files_of
from tvmake.device.rpc_package import NOTES, RemotePackage, load_library
from tvmake.device.rpc_tensors import DirectTensors
from tvmake.device.rpc_version import check_version
from tvmake.device.samples import run_samples, since
from tvmake.device.session import SESSION_TIMEOUT, is_there, why
from tvmake.errors import DeviceError, InputError
from tvmake.lifeline import die_with
from tvmake.quick_tvm import tvm
from tvmake.warm.client import PARENT

# After quick_tvm, which decides how TVM is loaded.
from tvm import rpc  # isort: skip


def main(connection: Connection) -> None:
    """Open a session and fulfil one order; see the module's text."""
    connection.send(Ready())
    request: Open = connection.recv()
    try:
        session = rpc.connect(request.host, request.port, request.match_key, request.timeout_s)
    except (tvm.error.InternalError, RuntimeError, OSError) as error:
        connection.send(Refused(why(error)))
        return
    stay_behind(request.host, request.port, request.timeout_s)
    connection.send(Opened())
    order: Order = connection.recv()
    connection.send(_answer(session, order, request))


def _answer(session: Any, order: Order, at: Open) -> Any:
    try:
        return _fulfil(session, order, at)
    except (InputError, DeviceError) as error:
        kind = "input" if isinstance(error, InputError) else "device"
        return Problem(kind, error.where, error.problem, error.remedy)
    except Exception as error:  # noqa: BLE001  # generated code can fail in any way; whoever asked says what it means
        if SESSION_TIMEOUT in str(error):
            return Lost(SESSION_TIMEOUT)
        return Failed(why(error)) if is_there(session) else Lost(why(error))


def _fulfil(session: Any, order: Order, at: Open) -> Fingerprint | RunResult | list[np.ndarray]:
    match order:
        case Describe():
            told = check_version(session, _server(order, at))
            return remote_fingerprint(session, order.config, order.where, told)
        case RunPackage():
            return _run(session, order, at)
        case CallKernel():
            return _call(session, order, at)


def _server(order: Order, at: Open) -> str:
    """What errors begin with where it matters which of several servers it is."""
    return f"{order.where} ({at.host}:{at.port})"


def _run(session: Any, order: RunPackage, at: Open) -> RunResult:
    manifest = verify_directory(order.directory, str(order.directory))
    told = check_version(session, _server(order, at), store.made_with(manifest))
    fingerprint = remote_fingerprint(session, order.config, order.where, told)
    started = time.perf_counter()
    direct = DirectTensors.of(session, at.host, at.port)
    files = files_of(session, _server(order, at), direct)
    package = RemotePackage(session, order.directory, manifest, order.where, files, direct)
    load_ms = since(started)
    first_run_ms = run_samples(package, manifest, order.request, order.inputs, order.outputs)
    how = order.request.measurement
    measured = {**package.measure(how), "conditions": NOTES} if how else {}
    return RunResult(timing=Timing(load_ms=load_ms, first_run_ms=first_run_ms, **measured), fingerprint=fingerprint)


def _placed(value: np.ndarray, device: Any, scope: str) -> Any:
    if scope == "global":
        return tvm.runtime.tensor(value, device)
    tensor = tvm.runtime.empty(value.shape, str(value.dtype), device, scope)
    tensor.copyfrom(value)
    return tensor


def _call(session: Any, order: CallKernel, at: Open) -> list[np.ndarray]:
    check_version(session, _server(order, at))
    limit_threads(session, order.config.threads, order.where)
    device = session.device(order.device, 0)
    files_of(session, _server(order, at)).send(order.library, order.library.name)
    function = load_library(session, order.library, order.library.name, order.where)[order.function]
    scopes = order.scopes or ["global"] * len(order.arguments)
    tensors = [_placed(value, device, scope) for value, scope in zip(order.arguments, scopes, strict=True)]
    function(*tensors)
    device.sync()
    return [tensor.numpy() for tensor in tensors[len(tensors) - order.returned :]]


if __name__ == "__main__":
    die_with(int(os.environ[PARENT]))
    main(Connection(int(sys.argv[1])))
