"""Files for a device behind an RPC server: sent unless they are there, and compared with what was sent.

A native server keeps files by digest between sessions where it was given a place for them (native/server/upload_cache.h), and
reports the digest of what arrived. TVM's own keeps nothing and knows no digests: what arrived is read back, but for
parameters, which it can load and hash there.
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
"""Bytes that travel at once, and that the device holds in memory. TVM's own way of uploads takes a second for 20 MB."""

LOAD, HASH = "runtime.LoadParamsFromFile", "ffi.StructuralHash"
"""Of every runtime; the hash is one of 64 bits over names, types, shapes and values."""


class NativeFiles:
    """Files of a session with a native server.

    Args:
        where: what errors begin with.
        direct: moves tensors; where that is not possible, parameters come as with TVM's own server.
    """

    def __init__(self, session: Any, where: str, direct: DirectTensors | None):
        self._session = session
        self._where = where
        self._direct = direct
        self._digest = session.get_function("tvmake.rpc.digest")
        self._take = session.get_function("tvmake.rpc.take")
        self._keep = session.get_function("tvmake.rpc.keep")

    def send(self, file: Path, name: str) -> None:
        """Have a file there as ``name``, for this session only.

        Raises:
            DeviceError: another content arrived.
        """
        self._upload(file, name)
        self._compare(file, name, digest_file(file), str(self._digest(name)))

    def have(self, file: Path, name: str) -> None:
        """Have a file there as ``name``: kept from an earlier session, or sent now.

        Raises:
            DeviceError: another content arrived.
        """
        sha256 = digest_file(file)
        if self._take(name, sha256):
            return
        self._upload(file, name)
        self._compare(file, name, sha256, str(self._keep(name, sha256)))

    def have_parameters(self, file: Path, name: str, names: list[str], device: Any) -> list[Any]:
        """Have a file of parameters there, and those of these names on the device, as arguments for ``set_input``.

        Raises:
            DeviceError: another content arrived.
        """
        self.have(file, name)
        if self._direct is None:
            return _loaded(self._session, name, names, device)
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
                store(name, self._direct.place(np.frombuffer(part, "uint8"), self._session.cpu(0)), offset)
                offset += len(part)

    def _compare(self, file: Path, name: str, sha256: str, report: str) -> None:
        size, _, found = report.partition(" ")
        if found != sha256:
            sent = file.stat().st_size
            how = f"{size} of {sent} bytes" if int(size) != sent else f"sha256 {found[:12]}…, sent {sha256[:12]}…"
            raise altered(self._where, name, how)


class PlainFiles:
    """Files of a session with TVM's own server.

    Args:
        where: what errors begin with.
    """

    def __init__(self, session: Any, where: str):
        self._session = session
        self._where = where

    def send(self, file: Path, name: str) -> None:
        """See :class:`NativeFiles`."""
        content = file.read_bytes()
        self._session.upload(bytearray(content), name)
        came = bytes(self._session.download(name))
        if came != content:
            same = len(came) == len(content)
            raise altered(
                self._where,
                name,
                "it reads back otherwise" if same else f"{len(came)} of {len(content)} bytes",
            )

    have = send

    def have_parameters(self, file: Path, name: str, names: list[str], device: Any) -> list[Any]:
        """See :class:`NativeFiles`."""
        self._session.upload(str(file), name)
        try:
            there = self._session.get_function(HASH)(_read(self._session, name), False, False)
        except tvm.error.RPCError:
            raise altered(self._where, name, "it cannot be read there") from None
        if there != get_global_func(HASH)(get_global_func(LOAD)(str(file)), False, False):
            raise altered(self._where, name, "its values hash otherwise there")
        return _loaded(self._session, name, names, device)


def files_of(session: Any, where: str, direct: DirectTensors | None = None) -> NativeFiles | PlainFiles:
    """Those of a session, as its server can handle them."""
    with suppress(AttributeError):
        return NativeFiles(session, where, direct)
    return PlainFiles(session, where)


def altered(where: str, name: str, how: str) -> DeviceError:
    """The error for a file that arrived otherwise than it was sent."""
    return DeviceError(
        where,
        f"{name} arrived altered ({how})",
        "check the connection (tunnel, cable, network) and the device's memory and disk, and run the same command again",
    )


def _read(session: Any, name: str) -> Any:
    place = session.get_function("tvm.rpc.server.workpath")(name)
    return session.get_function(LOAD)(place)


def _loaded(session: Any, name: str, names: list[str], device: Any) -> list[Any]:
    values = _read(session, name)
    item = session.get_function("ffi.MapGetItem")
    found = [item(values, one) for one in names]
    if device.dlpack_device_type() % 128 == tvm.runtime.cpu().dlpack_device_type():
        return found
    return [tvm.runtime.empty(one.shape, one.dtype, device).copyfrom(one) for one in found]
