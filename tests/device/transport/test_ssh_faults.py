"""Over a real sshd: programs that do not match the device, files that arrive altered, a device that is lost in the middle."""

# ruff: noqa: F811  # fixtures

import os
import threading
from pathlib import Path

import pytest

from tests.codegen.conftest import static_net  # noqa: F401  # fixtures
from tests.device.configs import ENDLESS
from tests.device.local.test_local import image, inputs_file, own_store, package  # noqa: F401  # fixtures
from tests.device.transport.ssh_server import Sshd
from tests.device.transport.test_ssh import (  # noqa: F401  # fixtures
    board,
    error_of,
    own_home,
    programs,
    running,
    second,
    shared_sshd,
    sshd,
)
from tests.tune.measure.processes import eventually
from tvmake.device.interface import RunRequest

# --- programs ------------------------------------------------------------------------------------------------------


def tried(sshd: Sshd, programs: Path, package: Path, directory: Path) -> list[str]:
    """How a run with these programs is refused."""
    device = board(sshd, programs=str(programs))
    given = inputs_file(directory / "in.npz", image())
    return error_of(device.execute, device.push(package), RunRequest(samples=1), given, None)


def test_programs_for_another_processor(sshd: Sshd, package: Path, tmp_path: Path):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00" + bytes(100)
    for name in ("tvmake-run", "tvmake-serve"):
        (foreign / name).write_bytes(header)
    assert tried(sshd, foreign, package, tmp_path) == [
        "devices.board.programs: tvmake-run is code for aarch64, and the device is x86-64 (uname -m: x86_64)",
        "name a directory with programs for it (docs/guides/native.md), or leave the key out",
    ]


def test_programs_without_tvms_library(sshd: Sshd, programs: Path, package: Path, tmp_path: Path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("tvmake-run", "tvmake-serve", "libtvm_ffi.so"):
        (bare / name).symlink_to(programs / name)
    assert tried(sshd, bare, package, tmp_path) == [
        "devices.board.programs: tvmake-run does not find libtvm_runtime.so",
        "copy it to the programs' directory",
    ]


@pytest.mark.parametrize(
    ("said", "where", "problem"),
    [
        (
            "echo tvmake-run for apache-tvm 0.26.0",
            "devices.board.programs",
            "they were built for TVM 0.26.0, and packages",
        ),
        (
            "echo x: symbol lookup error: undefined symbol: TVMGone >&2; exit 127",
            "devices.board.programs",
            "do not match",
        ),
        ("echo \"x: version 'GLIBC_2.99' not found\" >&2; exit 1", "device 'board'", "GLIBC_2.99"),
        ("echo cannot execute: Exec format error >&2; exit 126", "device 'board'", "Exec format error"),
    ],
    ids=["another-tvm", "other-libraries", "newer-glibc", "another-system"],
)
def test_programs_that_do_not_fit(
    sshd: Sshd,
    package: Path,
    tmp_path: Path,
    said: str,
    where: str,
    problem: str,
):
    unfit = tmp_path / "unfit"
    unfit.mkdir()
    for name in ("tvmake-run", "tvmake-serve"):
        (unfit / name).write_text(f"#!/bin/sh\n{said}\n")
    first, remedy = tried(sshd, unfit, package, tmp_path)
    assert first.startswith(where) and problem in first and remedy


def test_programs_that_are_not_there(sshd: Sshd, package: Path, tmp_path: Path):
    device = board(sshd, programs=str(tmp_path / "nowhere"))
    problem, _remedy = error_of(
        device.execute, device.push(package), RunRequest(samples=1), inputs_file(tmp_path / "in.npz", image()), None
    )
    assert problem == f"devices.board.programs: {tmp_path}/nowhere has no tvmake-run"


def test_files_that_arrive_altered_are_not_kept(sshd: Sshd, package: Path, tmp_path: Path):
    sshd.says("cat", 'exec /bin/cat "$@" | tr a b')
    there = tmp_path / "there"
    device = board(sshd, directory=str(there))
    problem, remedy = error_of(device.push, package)
    assert problem.startswith(f"device 'board' ({sshd.host}): files arrived altered in {there}/packages/")
    assert remedy == "check the connection and the device's disk"
    assert list((there / "packages").iterdir()) == []


# --- a connection that is lost -------------------------------------------------------------------------------------


def test_a_device_that_is_lost_while_a_package_is_sent(second: Sshd, package: Path, tmp_path: Path):
    there = tmp_path / "there"
    second.says("cat", f'test $# = 0 && touch {tmp_path}/sending && sleep 30\nexec /bin/cat "$@"')
    device = board(second, directory=str(there))

    def lose() -> None:
        eventually((tmp_path / "sending").exists)
        second.stop()

    loser = threading.Thread(target=lose)
    loser.start()
    assert error_of(device.push, package) == [
        f"device 'board' ({second.host}): the connection was lost",
        "see whether the device is up, and run the same command again",
    ]
    loser.join()
    (left,) = (there / "packages").iterdir()
    assert "." in left.name, "it has another name until it is whole"
    (second.bin / "cat").unlink()
    second.start()
    os.utime(left, (0, 0))
    deployment = device.push(package)
    assert [path.name for path in (there / "packages").iterdir()] == [deployment.package_sha256]


def test_a_device_that_is_lost_while_a_package_runs(
    second: Sshd,
    programs: Path,
    package: Path,
    tmp_path: Path,
):
    device = board(second, programs=str(programs))
    deployment = device.push(package)
    run = f"tvmake-run --package {deployment.location}"

    def lose() -> None:
        eventually(lambda: running(run))
        second.stop()

    loser = threading.Thread(target=lose)
    loser.start()
    assert error_of(device.execute, deployment, ENDLESS, inputs_file(tmp_path / "in.npz", image()), None) == [
        f"device 'board' ({second.host}): the connection was lost",
        "see whether the device is up, and run the same command again",
    ]
    loser.join()
    eventually(lambda: not running(run))
