"""A connection to a device over ssh: commands, files and tunnels. Unknown hosts are refused.

asyncssh runs in a separate thread, so tunnels continue while this process does other work.
"""

import asyncio
import logging
import shlex
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

from tvmake.device.transport.shell import (
    CONNECT_S,
    QUICK_S,
    Finished,
    Unreachable,
    bound_command,
    command_error,
    in_sh,
)
from tvmake.errors import DeviceError

BLOCK = 1 << 18
"""Bytes of a file sent at once."""

ALIVE_S, SILENT = 10.0, 3
"""A connection that leaves this many keepalive messages unanswered, at this interval, is lost."""

LOOPBACK = "127.0.0.1"
THERE = LOOPBACK
"""The device's loopback address; tests, whose device is this machine, use another one."""

Result = TypeVar("Result")


def _is_worth_printing(record: logging.LogRecord) -> bool:
    """Ignore asyncio's warning that its watcher saw a ProxyCommand end after the transport, or after the loop."""
    return not str(record.msg).startswith(("Unknown child process pid", "Loop %r that handles pid"))


logging.getLogger("asyncio").addFilter(_is_worth_printing)


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        """Run a coroutine in the thread, and wait for it.

        Raises:
            TimeoutError: it took longer; it is cancelled.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except FutureTimeout:
            future.cancel()
            raise TimeoutError from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._loop.is_running():
            self._loop.close()


class SSHConnection:
    """A :class:`tvmake.device.transport.shell.Shell` over an asyncssh connection."""

    def __init__(self, loop: Loop, connection: asyncssh.SSHClientConnection, member: str, where: str):
        self.member = member
        self.where = where
        self.loopback = THERE
        self._loop = loop
        self._connection = connection
        self._is_closed = False

    def run(self, command: str, timeout_s: float = QUICK_S) -> Finished:
        return self._call(self._run(command), timeout_s)

    def start(self, command: str, is_bound: bool = True) -> "SSHStarted":
        process = self._call(self._open(bound_command(command) if is_bound else command), CONNECT_S)
        return SSHStarted(self._loop, process)

    def send(self, source: Path, destination: str) -> None:
        finished = self._call(self._send(source, destination), None)
        if finished.code:
            raise command_error(self.where, f"writing {destination}", finished.errors)

    def fetch(self, source: str, destination: Path) -> None:
        finished = self._call(self._fetch(source, destination), None)
        if finished.code:
            raise command_error(self.where, f"reading {source}", finished.errors)

    def forward(self, port: int) -> None:
        try:
            self._call(self._forward(port), QUICK_S)
        except OSError as error:
            raise DeviceError(
                self.where, f"port {port} is in use here ({error.strerror})", f"see what listens at port {port}"
            ) from error

    def reverse(self, port: int) -> int:
        try:
            return self._call(self._reverse(port), QUICK_S)
        except asyncssh.ChannelListenError:
            raise DeviceError(
                self.where, "its ssh server allows no tunnels", "set `AllowTcpForwarding yes` in sshd_config there"
            ) from None

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(TimeoutError, OSError, asyncssh.Error):
            self._loop.call(self._close(), 5)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, Result], timeout_s: float | None) -> Result:
        try:
            return self._loop.call(work, timeout_s)
        except asyncssh.ChannelListenError:
            raise
        except (asyncssh.Error, ConnectionError, BrokenPipeError) as error:
            why = f" ({error})" if str(error) and not isinstance(error, asyncssh.ConnectionLost) else ""
            remedy = "see whether the device is up, and run the same command again"
            raise Unreachable(self.where, f"the connection was lost{why}", remedy) from error

    async def _open(self, command: str) -> asyncssh.SSHClientProcess:
        return await self._connection.create_process(in_sh(command), encoding=None)

    async def _run(self, command: str) -> Finished:
        process = await self._open(command)
        try:
            output, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
            await process.wait_closed()
        finally:
            process.close()
        return _result(process, output, errors)

    async def _send(self, source: Path, destination: str) -> Finished:
        process = await self._open(f"cat > {shlex.quote(destination)}")
        try:
            with source.open("rb") as file:
                while block := file.read(BLOCK):
                    process.stdin.write(block)
                    await process.stdin.drain()
            process.stdin.write_eof()
        except (BrokenPipeError, ConnectionError):
            pass  # the device ends the transfer, and reports the reason below, unless the connection is lost
        output, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
        await process.wait_closed()
        return _result(process, output, errors)

    async def _fetch(self, source: str, destination: Path) -> Finished:
        process = await self._open(f"cat {shlex.quote(source)}")
        process.stdin.write_eof()
        with destination.open("wb") as file:
            while block := await process.stdout.read(BLOCK):
                file.write(block)
        errors = await process.stderr.read()
        await process.wait_closed()
        return _result(process, b"", errors)

    async def _forward(self, port: int) -> None:
        await self._connection.forward_local_port(LOOPBACK, port, THERE, port)

    async def _reverse(self, port: int) -> int:
        return (await self._connection.forward_remote_port(THERE, 0, LOOPBACK, port)).get_port()

    async def _close(self) -> None:
        self._connection.close()
        await self._connection.wait_closed()


class SSHStarted:
    """A :class:`tvmake.device.transport.shell.Started` over ssh."""

    def __init__(self, loop: Loop, process: asyncssh.SSHClientProcess):
        self._loop = loop
        self._process = process
        self._written = {"stdout": bytearray(), "stderr": bytearray()}
        self._reading = asyncio.run_coroutine_threadsafe(self._read(), loop._loop)

    def wait(self, timeout_s: float | None = None) -> Finished | None:
        try:
            self._reading.result(timeout_s)
        except FutureTimeout:
            return None
        except (asyncssh.Error, OSError) as error:
            return Finished(255, "", f"the connection was lost ({error})")
        return _result(self._process, bytes(self._written["stdout"]), bytes(self._written["stderr"]))

    def output(self) -> str:
        return bytes(self._written["stdout"] + self._written["stderr"]).decode(errors="replace")

    def stop(self) -> None:
        with suppress(TimeoutError, OSError, asyncssh.Error):
            self._loop.call(self._stop(), 5)

    async def _stop(self) -> None:
        self._process.close()
        await self._process.wait_closed()

    async def _read(self) -> None:
        async def drain(name: str, stream: asyncssh.SSHReader) -> None:
            while block := await stream.read(4096):
                self._written[name] += block
                del self._written[name][:-100_000]  # a server may run for days

        await asyncio.gather(drain("stdout", self._process.stdout), drain("stderr", self._process.stderr))
        await self._process.wait_closed()


def _result(process: asyncssh.SSHClientProcess, output: bytes, errors: bytes) -> Finished:
    code = process.returncode
    if code is None:
        raise ConnectionResetError("it ended in the middle of a command")
    # asyncssh gives a signal as a negative number, shells as 128 and the number.
    code = 128 - code if code < 0 else code
    return Finished(code, output.decode(errors="replace"), errors.decode(errors="replace"))
