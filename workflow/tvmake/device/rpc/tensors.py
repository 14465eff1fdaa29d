"""Tensors on a device behind a native server: written, read and set as inputs at the network's speed.

A native server has functions for it (native/server/tensor_functions.h). Packets are written here, on the connection of TVM's client
and between its calls; their layout is that of tvm/src/runtime/rpc/minrpc/rpc_reference.h. Repair: `rpc-tensor-bytes`.
"""

import gc
import math
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import tvm

from tvmake.device.rpc.orderly_close import client_connection

COPY_FROM, COPY_TO, RETURN, EXCEPTION, COPY_ACK = 6, 7, 4, 5, 8
"""Kinds of packets."""

HEAD = struct.Struct("<Qi")
"""A packet's size without this field, and its kind."""

CODES = {"int": 0, "uint": 1, "float": 2, "bool": 6}
"""DLPack codes of the types that numpy has too; TVM's client copies others."""

SMALL = 1 << 14
"""Tensors up to this size are copied by TVM's client about as fast as their address could be requested."""


LARGEST = 8
"""Maximum bytes of an element."""


class DirectTensors:
    """Transfers the tensors of one session.

    Args:
        connected: the session's connection.
    """

    def __init__(self, session: Any, connected: socket.socket):
        self._connected = connected
        self._address = session.get_function("tvmake.rpc.address")
        self._set_input = session.get_function("tvmake.rpc.set_input")
        self._get_output = session.get_function("tvmake.rpc.get_output")
        # Otherwise the end of a tensor would wait until the device acknowledged the part before.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @classmethod
    def of(cls, session: Any, host: str, port: int) -> "DirectTensors | None":
        """The transfer for a session with the server at an address; None if it is not a native server."""
        connected = client_connection(host, port)
        if connected is None:
            return None
        with suppress(AttributeError):  # TVM's own server lacks these functions
            return cls(session, connected)
        connected.close()
        return None

    def create(self, value: np.ndarray, device: Any) -> Any:
        tensor = tvm.runtime.empty(value.shape, str(value.dtype), device)
        self.write(tensor, value)
        return tensor

    def write(self, tensor: Any, value: np.ndarray) -> None:
        """Overwrite a tensor's values with others of the same type and shape.

        Raises:
            ValueError: the type or shape differs.
            tvm.error.RPCError: the device refuses.
            ConnectionError: the session has ended.
        """
        if not fits(tensor, value):
            raise ValueError(f"{value.dtype}{list(value.shape)} does not fit into the tensor")
        if value.nbytes < SMALL or kind_of(tensor) not in CODES:
            tensor.copyfrom(value)
            return
        content = np.ascontiguousarray(value).data.cast("B")
        description = self._description(tensor, value.nbytes)
        with self._quiet():
            self._connected.sendall(HEAD.pack(4 + len(description) + value.nbytes, COPY_TO) + description)
            self._connected.sendall(content)
            self._answer(RETURN)

    def read(self, tensor: Any) -> np.ndarray:
        """A tensor's values.

        Raises:
            tvm.error.RPCError: the device refuses.
            ConnectionError: the session has ended.
        """
        shape = tuple(int(extent) for extent in tensor.shape)
        if kind_of(tensor) not in CODES or math.prod(shape) < SMALL // LARGEST:
            return tensor.numpy()
        value = np.empty(shape, str(tensor.dtype))
        description = self._description(tensor, value.nbytes)
        with self._quiet():
            self._connected.sendall(HEAD.pack(4 + len(description), COPY_FROM) + description)
            self._answer(COPY_ACK, value.data.cast("B"))
        return value

    def set_input(self, vm: Any, name: str, tensors: Sequence[Any]) -> None:
        """Set the arguments of a virtual machine's function to these tensors, without copies; the caller keeps them alive."""
        self._set_input(vm.module, name, *tensors)

    def output(self, vm: Any, name: str, index: int) -> Any:
        """A result of a virtual machine's function, to keep longer than the arguments, whose memory it does not share."""
        return self._get_output(vm.module, name, index)

    def _description(self, tensor: Any, size: int) -> bytes:
        """A tensor's description, as in both kinds of copies."""
        device = tensor.device
        shape = [int(extent) for extent in tensor.shape]
        begin = struct.pack("<Qiii", self._address(tensor), device.dlpack_device_type() % 128, device.index, len(shape))
        dtype = struct.pack("<BBH", CODES[kind_of(tensor)], 8 * np.dtype(str(tensor.dtype)).itemsize, 1)
        return begin + dtype + struct.pack(f"<{len(shape)}qQQ", *shape, 0, size)

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Keep TVM's client off the connection: the garbage collector may free remote objects at any time."""
        was_on = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_on:
                gc.enable()

    def _answer(self, expected: int, into: memoryview | None = None) -> None:
        size, kind = HEAD.unpack(self._read(HEAD.size))
        if kind == expected and into is not None and size == 4 + len(into):
            self._read_into(into)
            return
        payload = self._read(size - 4)
        if kind == EXCEPTION:  # one value, a string, with its type and length
            message = payload[16:].decode(errors="replace")
            raise tvm.error.RPCError(f"RPCError: Error caught from RPC call:\n{message}")
        if kind != expected:
            raise ConnectionError(f"the server answered a copy with a packet of kind {kind}")

    def _read(self, size: int) -> bytes:
        read = bytearray(size)
        self._read_into(memoryview(read))
        return bytes(read)

    def _read_into(self, remaining: memoryview) -> None:
        while remaining:
            count = self._connected.recv_into(remaining)
            if not count:
                raise ConnectionResetError("Connection reset by the server")
            remaining = remaining[count:]


def kind_of(tensor: Any) -> str:
    """The type's name without its bits: ``float`` for ``float32``."""
    return str(tensor.dtype).rstrip("0123456789")


def fits(tensor: Any, value: np.ndarray) -> bool:
    """Whether a tensor has the type and shape of these values."""
    return tuple(tensor.shape) == value.shape and str(tensor.dtype) == str(value.dtype)
