"""The stand-in for adb's server is one: the real adb client works with it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.device.transport.adb_stand_in import AdbServer
from tests.patience import HANG_S
from tests.requirements import need


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AdbServer]:
    need("adb")
    made = AdbServer(tmp_path / "phones")
    yield made
    made.close()


def adb(server: AdbServer, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["adb", "-P", str(server.port), *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
        **options,
    )


def test_it_lists_phones_and_their_states(server: AdbServer):
    server.add("R58M123")
    server.add("emulator-5554", state="unauthorized")
    lines = adb(server, "devices", "-l").stdout.splitlines()[1:]
    assert "model:In_One" in lines[0] and lines[0].split()[:2] == ["R58M123", "device"]
    assert lines[1].split()[:2] == ["emulator-5554", "unauthorized"]


def test_commands_have_input_output_and_a_code(server: AdbServer):
    phone = server.add("R58M123")
    done = adb(
        server, "-s", "R58M123", "shell", "cat; echo told >&2; cd /data/local/tmp && pwd; exit 7", input="given\n"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("given\n/data/local/tmp\n", "told\n", 7)
    assert adb(server, "shell", "getprop ro.soc.model").stdout == "SM8550\n"
    assert phone.path("/data/local/tmp").is_dir()


def test_files_go_there_and_back(server: AdbServer, tmp_path: Path):
    phone = server.add("R58M123")
    content = bytes(range(256)) * 1000
    (tmp_path / "file").write_bytes(content)
    assert adb(server, "push", str(tmp_path / "file"), "/data/local/tmp/file").returncode == 0
    assert phone.path("/data/local/tmp/file").read_bytes() == content
    assert adb(server, "pull", "/data/local/tmp/file", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == content
    phone.full_after = 1000
    full = adb(server, "push", str(tmp_path / "file"), "/data/local/tmp/full")
    assert full.returncode and "No space left on device" in full.stderr + full.stdout


def test_ports_lead_both_ways(server: AdbServer):
    phone = server.add("R58M123")
    assert adb(server, "forward", "tcp:23456", "tcp:23456").returncode == 0
    assert adb(server, "forward", "--list").stdout == "R58M123 tcp:23456 tcp:23456\n\n"
    assert adb(server, "reverse", "tcp:23457", "tcp:23458").returncode == 0
    assert adb(server, "forward", "--remove", "tcp:23456").returncode == 0
    assert adb(server, "reverse", "--remove", "tcp:23457").returncode == 0
    assert server.forwards == {} and server.reverses == {} and phone.loopback != "127.0.0.1"


def test_what_is_not_there_is_refused(server: AdbServer):
    assert "no devices" in adb(server, "shell", "true").stderr
    server.add("one")
    server.add("two", state="unauthorized")
    assert "more than one device" in adb(server, "shell", "true").stderr
    assert "unauthorized" in adb(server, "-s", "two", "shell", "true").stderr
    assert "not found" in adb(server, "-s", "three", "shell", "true").stderr
