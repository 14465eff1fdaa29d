"""`tvmake device` as users type it, with a real tracker, server, sshd and adb's protocol."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.codegen.conftest import static_net  # noqa: F401  # fixtures
from tests.device.local.test_local import package  # noqa: F401  # fixtures
from tests.device.transport.adb_stand_in import AdbServer
from tests.device.transport.ssh_server import Sshd
from tests.native import devices as native
from tests.patience import HANG_S
from tests.tune.measure.farm import HOST, free_port
from tests.tune.measure.processes import eventually
from tests.workflow import preloaded
from tvmake.cli import run
from tvmake.cli.device.server import is_loopback
from tvmake.device.rpc.tracker import Tracker

COMMAND = """
import signal, sys
# Enable Ctrl-C, which processes that a shell starts in the background ignore.
signal.signal(signal.SIGINT, signal.default_int_handler)
from tvmake.cli import run
sys.exit(run(sys.argv[1:]))
"""
TVMAKE = [sys.executable, "-c", COMMAND]


class Workspace:
    """A directory to run commands in."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.environment = {"TVMAKE_HOME": str(directory / "home"), "COLUMNS": "200"}

    def devices(self, **devices: object) -> None:
        config = {"models": {"net": {"source": "net.onnx"}}, "devices": devices}
        (self.directory / "tvmake.yaml").write_text(yaml.safe_dump(config, sort_keys=False))

    def environ(self) -> dict[str, str]:
        dropped = ("TVM_TRACKER_HOST", "TVM_TRACKER_PORT", "ANDROID_SERIAL", "ANDROID_NDK_HOME", "ANDROID_HOME")
        return {name: value for name, value in os.environ.items() if name not in dropped} | self.environment

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run("device", *arguments)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return preloaded.run(list(arguments), self.directory, self.environ())

    def doctor(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run("doctor", *arguments)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*TVMAKE, "device", *arguments],
            cwd=self.directory,
            env=self.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def tracker(workspace: Workspace) -> Iterator[Tracker]:
    """A tracker, started by its command."""
    port = free_port()
    process = workspace.start("tracker", "--port", str(port))
    assert process.stdout is not None
    assert process.stdout.readline() == f"tracker at {HOST}:{port}\n"
    assert process.stdout.readline() == f"  export TVM_TRACKER_HOST={HOST} TVM_TRACKER_PORT={port}\n"
    workspace.environment |= {"TVM_TRACKER_HOST": HOST, "TVM_TRACKER_PORT": str(port)}
    yield Tracker(HOST, port, "board")
    process.send_signal(signal.SIGINT)
    process.wait(HANG_S)


@pytest.fixture
def adb(tmp_path: Path, workspace: Workspace) -> Iterator[AdbServer]:
    made = AdbServer(tmp_path / "phones")
    workspace.environment |= made.environment
    yield made
    made.close()


@pytest.mark.long
def test_a_tracker_a_server_and_their_table(workspace: Workspace, tracker: Tracker, monkeypatch: pytest.MonkeyPatch):
    native.programs()
    workspace.environment["TVMAKE_HOME"] = str(Path.home() / ".cache/tvmake")  # the programs' directory
    port = free_port()
    server = workspace.start("serve", "--key", "board", "--port", str(port))
    try:
        eventually(tracker.servers)
        eventually(lambda: tracker.waiting()["board"]["free"] == 1)
        address = ("--tracker", f"{tracker.host}:{tracker.port}")
        rows = json.loads(workspace.run("list", *address, "--json").stdout)
        assert [(row["address"], row["state"]) for row in rows if row["via"] == "rpc"] == [
            (f"board at {tracker.host}:{tracker.port}", "1 of 1 free")
        ]
        workspace.devices(board={"via": "rpc", "key": "board"})
        rows = json.loads(workspace.run("list", "--json").stdout)
        assert [(row["device"], row["state"]) for row in rows if row["via"] != "adb"] == [
            ("local", "here"),
            ("board", "1 of 1 free"),
        ]
        assert "session" in workspace.doctor("board").stdout
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(HANG_S)
    eventually(lambda: not tracker.servers())


def test_a_tracker_that_others_reach_is_refused_with_the_reason(workspace: Workspace):
    done = workspace.run("tracker", "--host", "0.0.0.0")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: --host 0.0.0.0: RPC has no passwords and no encryption: anyone who can reach this address can run code on this "
        "machine",
        "  listen on 127.0.0.1 and connect through ssh or adb tunnels (`tvmake help docs/guides/devices-rpc.md`); in a private "
        "network, add --allow-remote",
    ]
    assert workspace.run("serve", "--host", "0.0.0.0").returncode == 2
    assert workspace.run("serve", "--host", "::").returncode == 2


def test_only_this_machines_own_addresses_are_let_through(monkeypatch: pytest.MonkeyPatch):
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        assert is_loopback(host)
    for host in ("0.0.0.0", "::", "", "192.0.2.7"):
        assert not is_loopback(host)
    there = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: there)
    assert not is_loopback("localhost.example.org")


def test_an_address_that_means_nothing_is_named(workspace: Workspace):
    done = workspace.run("tracker", "--host", "no-such-host.invalid")
    assert done.returncode == 2 and "--host no-such-host.invalid: no such address" in done.stderr


@pytest.mark.parametrize("arguments", [["--host", "a..b"], ["--host", "\udcff"], ["--key", "a b"], ["--key", ""]])
def test_a_server_is_not_started_by_a_name_that_is_none(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert run(["device", "serve", *arguments]) == 2
    assert f"error: {arguments[0]}" in capsys.readouterr().err


def test_a_port_that_is_taken(workspace: Workspace, tracker: Tracker):
    done = workspace.run("tracker", "--port", str(tracker.port))
    assert (done.returncode, done.stderr) == (
        3,
        f"error: {HOST}:{tracker.port}: cannot listen (address already in use)\n  choose another port with --port\n",
    )


def test_no_tracker_answers(workspace: Workspace):
    done = workspace.run("list", "--tracker", f"{HOST}:{free_port()}")
    assert done.returncode == 3 and "connection refused" in done.stderr
    assert workspace.run("list", "--tracker", "nowhere").returncode == 2


@pytest.mark.parametrize(
    ("there", "state", "details"),
    [(0, "not connected", "adb lists no device"), (1, "connected", ""), (2, "2 devices", "set its serial")],
)
def test_a_phone_without_a_serial_is_the_only_one_there(
    workspace: Workspace, adb: AdbServer, there: int, state: str, details: str
):
    for number in range(there):
        adb.add(f"PHONE{number}")
    workspace.devices(phone={"via": "adb"})
    phone = next(row for row in json.loads(workspace.run("list", "--json").stdout) if row["device"] == "phone")
    assert (phone["state"], phone["details"].startswith(details)) == (state, True)


def test_phones_are_listed_whether_the_config_names_them_or_not(workspace: Workspace, adb: AdbServer):
    adb.add("ONE")
    adb.add("TWO", state="unauthorized")
    adb.add("THREE")
    workspace.devices(phone={"via": "adb", "serial": ["ONE", "TWO", "GONE"]}, board={"via": "ssh", "host": "pi5.local"})
    rows = json.loads(workspace.run("list", "--json").stdout)
    assert [(row["device"], row["address"], row["state"]) for row in rows] == [
        ("local", "this machine", "here"),
        ("phone", "ONE", "connected"),
        ("phone", "TWO", "unauthorized"),
        ("phone", "GONE", "not connected"),
        ("board", "pi5.local", "not asked"),
        ("", "THREE", "connected"),
    ]


def test_a_phone_is_described_and_examined(workspace: Workspace, adb: AdbServer):
    phone = adb.add("ONE")
    workspace.devices(phone={"via": "adb", "programs": str(native.programs())})
    told = json.loads(workspace.run("info", "phone", "--json").stdout)
    assert told["fingerprint"]["soc"] == "QTI SM8550" and told["fingerprint"]["details"]["gpu"] == "Adreno (TM) 740"
    steps = json.loads(workspace.doctor("phone", "--json").stdout)
    assert {step["step"]: step["state"] for step in steps} == dict.fromkeys(
        ["connection", "space", "device", "programs", "runner", "tunnels", "temperature"], "ok"
    )
    phone.state = "offline"
    done = workspace.doctor("phone")
    assert done.returncode == 3 and "ONE is offline" in done.stdout


def test_a_package_is_pushed_to_all_equal_devices_and_sent_once(workspace: Workspace, adb: AdbServer, package: Path):  # noqa: F811
    adb.add("ONE")
    adb.add("TWO")
    workspace.devices(phone={"via": "adb", "serial": ["ONE", "TWO"]})
    sent = [json.loads(workspace.run("push", "phone", str(package), "--json").stdout) for _ in range(2)]
    assert [row["device"] for row in sent[0]] == ["ONE", "TWO"] and all(row["sent_bytes"] > 0 for row in sent[0])
    assert [row["sent_bytes"] for row in sent[1]] == [0, 0]
    adb.phones["TWO"].state = "offline"
    done = workspace.run("push", "phone", str(package))
    assert done.returncode == 3 and "ONE" in done.stdout and "TWO is offline" in done.stderr
    adb.phones["ONE"].state = "offline"
    done = workspace.run("push", "phone", str(package))
    assert (done.returncode, done.stdout) == (3, "") and done.stderr.count("is offline") == 2


@pytest.mark.long
def test_a_server_on_a_phone_serves_clients_here_until_it_is_interrupted(
    workspace: Workspace, adb: AdbServer, tracker: Tracker
):
    adb.add("ONE")
    workspace.devices(phone={"via": "adb", "programs": str(native.programs())})
    serving = workspace.start("serve", "phone", "--key", "board")
    eventually(tracker.servers)
    workspace.devices(board={"via": "rpc", "key": "board", "wait_s": HANG_S})
    assert json.loads(workspace.run("info", "board", "--json").stdout)["fingerprint"]["soc"] == "board"
    serving.send_signal(signal.SIGINT)
    assert serving.wait(HANG_S) == 0
    assert adb.forwards == {} and adb.reverses == {}


def test_a_board_is_examined_and_its_ssh_server_named(workspace: Workspace, tmp_path: Path):
    sshd = Sshd(tmp_path / "sshd")
    workspace.devices(board=sshd.config(programs=str(native.programs())))
    steps = json.loads(workspace.doctor("board", "--json").stdout)
    assert {step["state"] for step in steps} == {"ok"} and len(steps) == 7
    sshd.stop()
    done = workspace.run("info", "board")
    assert done.returncode == 3 and f"no ssh server at {sshd.host} (connection refused)" in done.stderr


def test_a_device_that_the_config_lacks(workspace: Workspace):
    workspace.devices(phone={"via": "adb"})
    done = workspace.run("info", "fone")
    assert (done.returncode, done.stderr) == (1, "error: devices: no device 'fone'\n  did you mean 'phone'?\n")
