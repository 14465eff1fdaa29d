"""Files of a device behind an RPC server: sent unless the server has them, and verified.

A native server with a cache directory keeps files by digest between sessions (native/server/upload_cache.h), and reports
the digest of what arrived. TVM's own server keeps nothing and knows no digests: files are read back, except
parameters, which it can load and hash itself.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvmake.device.rpc.tensors import DirectTensors
from tvmake.errors import DeviceError
from tvmake.storage.files import digest_file

from tvm_ffi import get_global_func  # isort: skip

PART = 4 << 20
"""Bytes per transfer, which the device holds in memory. TVM's own upload takes a second for 20 MB."""

LOAD, HASH = "runtime.LoadParamsFromFile", "ffi.StructuralHash"
"""Functions of every runtime; the hash has 64 bits, over names, types, shapes and values."""


class NativeFiles:
    """Files of a session with a native server.

    Args:
        where: the beginning of errors.
        direct: transfers tensors; without it, parameters are sent as to TVM's own server.
    """

    def __init__(self, session: Any, where: str, direct: DirectTensors | None):
        self._session = session
        self._where = where
        self._direct = direct
        self._digest = session.get_function("tvmake.rpc.digest")
        self._take = session.get_function("tvmake.rpc.take")
        self._keep = session.get_function("tvmake.rpc.keep")

    def send(self, file: Path, name: str) -> None:
        """Send a file as ``name``, for this session only.

        Raises:
            DeviceError: the content differs on arrival.
        """
        self._upload(file, name)
        self._compare(file, name, digest_file(file), str(self._digest(name)))

    def have(self, file: Path, name: str) -> None:
        """Send a file as ``name``, unless the server kept it from an earlier session.

        Raises:
            DeviceError: the content differs on arrival.
        """
        sha256 = digest_file(file)
        if self._take(name, sha256):
            return
        self._upload(file, name)
        self._compare(file, name, sha256, str(self._keep(name, sha256)))

    def have_parameters(self, file: Path, name: str, names: list[str], device: Any) -> list[Any]:
        """Send a file of parameters, and load those of these names on the device, as arguments for ``set_input``.

        Raises:
            DeviceError: the content differs on arrival.
        """
        self.have(file, name)
        if self._direct is None:
            return _load(self._session, name, names, device)
        load = self._session.get_function("tvmake.rpc.parameters")
        return [load(name, device.dlpack_device_type() % 128, device.index, *names)]

    def _upload(self, file: Path, name: str) -> None:
        if self._direct is None or file.stat().st_size < PART:
            self._session.upload(str(file), name)
            return
        store = self._session.get_function("tvmake.rpc.store")
        with file.open("rb") as opened:
            offset = 0
            while part := opened.read(PART):
                store(name, self._direct.create(np.frombuffer(part, "uint8"), self._session.cpu(0)), offset)
                offset += len(part)

    def _compare(self, file: Path, name: str, sha256: str, report: str) -> None:
        size, _, arrived_sha256 = report.partition(" ")
        if arrived_sha256 != sha256:
            sent = file.stat().st_size
            how = (
                f"{size} of {sent} bytes"
                if int(size) != sent
                else f"sha256 {arrived_sha256[:12]}…, sent {sha256[:12]}…"
            )
            raise altered_file_error(self._where, name, how)


class PlainFiles:
    """Files of a session with TVM's own server.

    Args:
        where: the beginning of errors.
    """

    def __init__(self, session: Any, where: str):
        self._session = session
        self._where = where

    def send(self, file: Path, name: str) -> None:
        content = file.read_bytes()
        self._session.upload(bytearray(content), name)
        received = bytes(self._session.download(name))
        if received != content:
            same = len(received) == len(content)
            raise altered_file_error(
                self._where,
                name,
                "its content differs when read back" if same else f"{len(received)} of {len(content)} bytes",
            )

    have = send

    def have_parameters(self, file: Path, name: str, names: list[str], device: Any) -> list[Any]:
        self._session.upload(str(file), name)
        try:
            there = self._session.get_function(HASH)(_read(self._session, name), False, False)
        except tvm.error.RPCError:
            raise altered_file_error(self._where, name, "it cannot be read there") from None
        if there != get_global_func(HASH)(get_global_func(LOAD)(str(file)), False, False):
            raise altered_file_error(self._where, name, "its values have another hash there")
        return _load(self._session, name, names, device)


def files_of(session: Any, where: str, direct: DirectTensors | None = None) -> NativeFiles | PlainFiles:
    """The file transfer that a session's server supports."""
    with suppress(AttributeError):
        return NativeFiles(session, where, direct)
    return PlainFiles(session, where)


def altered_file_error(where: str, name: str, how: str) -> DeviceError:
    """The error for a file that was altered in transfer."""
    remedy = (
        "check the connection (tunnel, cable, network) and the device's memory and disk, and run the same command again"
    )
    return DeviceError(where, f"{name} arrived altered ({how})", remedy)


def _read(session: Any, name: str) -> Any:
    path = session.get_function("tvm.rpc.server.workpath")(name)
    return session.get_function(LOAD)(path)


def _load(session: Any, name: str, names: list[str], device: Any) -> list[Any]:
    values = _read(session, name)
    item = session.get_function("ffi.MapGetItem")
    parameters = [item(values, name) for name in names]
    if device.dlpack_device_type() % 128 == tvm.runtime.cpu().dlpack_device_type():
        return parameters
    return [tvm.runtime.empty(parameter.shape, parameter.dtype, device).copyfrom(parameter) for parameter in parameters]
