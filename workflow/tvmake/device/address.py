"""Where an RPC server listens."""

import socket
import struct
from dataclasses import dataclass

SERVER_MAGIC = 0xFF271
"""From tvm/rpc/base.py."""

NUMBER = struct.Struct("<i")
"""How numbers are sent."""

CONNECT_S = 3.0
"""For a machine that is there to accept a connection and to answer."""


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def is_reachable(self) -> bool:
        """Whether something accepts connections there; a busy server does, too."""
        try:
            with socket.create_connection((self.host, self.port), CONNECT_S) as connection:
                # With a key that matches nothing, a server answers and goes on waiting; a bare connection upsets it.
                key = b"client:tvmake-is-there"
                connection.sendall(NUMBER.pack(SERVER_MAGIC) + NUMBER.pack(len(key)) + key)
        except OSError:
            return False
        return True
