"""Over a real sshd: login shells that are not POSIX's, devices that lack commands, and what ssh's own files hold."""

# ruff: noqa: F811  # fixtures

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codegen.conftest import static_net  # noqa: F401  # fixtures
from tests.device.configs import device_config
from tests.device.local.test_local import image, inputs_file, own_store, package, packed  # noqa: F401  # fixtures
from tests.device.transport.ssh_server import Sshd
from tests.device.transport.test_ssh import (  # noqa: F401  # fixtures
    board,
    error_of,
    own_home,
    programs,
    shared_sshd,
    sshd,
)
from tests.requirements import need
from tvmake.device.interface import RunRequest
from tvmake.device.survey.examination import examine
from tvmake.device.transport.shell import in_sh


@pytest.fixture
def of_a_user(tmp_path_factory: pytest.TempPathFactory):
    """An sshd whose user has a given program instead of a shell."""
    started: list[Sshd] = []

    def start(command: str) -> Sshd:
        started.append(Sshd(tmp_path_factory.mktemp("shell"), options=f"ForceCommand {command}"))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.mark.parametrize("shell", ["fish", "tcsh"])
def test_a_login_shell_of_another_kind(
    of_a_user: Callable[[str], Sshd], programs: Path, package: Path, tmp_path: Path, shell: str
):
    need(shell)
    device = board(of_a_user(f'{shutil.which(shell)} -c "$SSH_ORIGINAL_COMMAND"'), programs=str(programs))
    inputs = inputs_file(tmp_path / "in.npz", image())
    result = device.execute(device.push(package), RunRequest(samples=1), inputs, None)
    assert result.fingerprint.details["machine"]


def test_what_a_login_shell_sees_has_no_character_with_a_meaning():
    line = in_sh("a='b\\c' && { echo \"!$x\"; } ; # (ü)\n%s `d`")
    inside = line.removeprefix('exec sh -c \'eval "$(printf "').removesuffix('")"\'')
    assert inside != line and not set(inside.replace("\\", "")) - set("abcdehox= 0123456789s")


def test_a_user_without_a_shell(of_a_user: Callable[[str], Sshd], package: Path):
    device = board(of_a_user('sh -c "echo This account is not available.; exit 1"'))
    problem, remedy = error_of(device.push, package)
    assert problem.endswith("it runs no commands (This account is not available.)")
    assert remedy == "give its user a login shell, with `sh` on its PATH"


def test_a_device_without_df_is_used_and_one_without_uname_is_not(sshd: Sshd, programs: Path, package: Path):
    sshd.says("df", "exit 127")
    config = device_config(**sshd.config(programs=str(programs)))
    states = {str(step["step"]).rpartition(" ")[2]: step for step in examine("board", config)}
    assert states["space"]["details"].startswith("unknown space free in /")
    assert states["runner"]["state"] == "ok"
    sshd.says("uname", "exit 127")
    problem, remedy = error_of(board(sshd).push, package)
    assert problem.endswith("its processor is unknown (`uname -m` fails)")
    assert remedy == "install coreutils or busybox there"


def test_a_sha256sum_that_fails_is_not_taken_for_altered_files(sshd: Sshd, package: Path, tmp_path: Path):
    sshd.says("sha256sum", "echo 'sha256sum: no memory' >&2; exit 1")
    problem, _remedy = error_of(board(sshd, directory=str(tmp_path / "there")).push, package)
    assert problem.endswith("reading files back with sha256sum failed: sha256sum: no memory")


def test_a_directory_where_no_program_may_start(sshd: Sshd, programs: Path, package: Path, tmp_path: Path):
    sshd.says("chmod", "exec /bin/chmod 600 tvmake-run")
    there = str(tmp_path / "there")
    device = board(sshd, directory=there)
    inputs = inputs_file(tmp_path / "in.npz", image())
    problem, remedy = error_of(device.execute, device.push(package), RunRequest(samples=1), inputs, None)
    assert "it may not start tvmake-run" in problem
    assert remedy.endswith("set devices.board.directory to one where programs run")
    steps = examine("board", device_config(**sshd.config(directory=there)))
    (runner,) = (step for step in steps if str(step["step"]).endswith("runner"))
    assert runner["state"] == "problem"


def test_a_runner_that_ends_with_an_error_is_not_said_to_start(sshd: Sshd, package: Path, tmp_path: Path):
    silent = tmp_path / "silent"
    silent.mkdir()
    for name in ("tvmake-run", "tvmake-serve"):
        (silent / name).write_text("#!/bin/sh\nexit 5\n")
    steps = examine("board", device_config(**sshd.config(programs=str(silent))))
    (runner,) = (step for step in steps if str(step["step"]).endswith("runner"))
    assert (runner["state"], runner["details"]) == ("problem", "tvmake-run does not run there (exit code 5)")


def test_a_step_without_a_shell_is_not_called_the_connection(sshd: Sshd):
    sshd.says("uname", "exit 127")
    steps = [(step["state"], step["step"]) for step in examine("board", device_config(**sshd.config()))]
    assert steps == [("ok", f"{sshd.host}: connection"), ("problem", f"{sshd.host}: shell")]


def test_lines_of_known_hosts_that_cannot_be_read_are_ignored(sshd: Sshd, package: Path):
    known = sshd.known_hosts.read_text()
    sshd.known_hosts.write_bytes(b"@@@ nonsense\nhost not-a-key\n\xff\xfe bad\n" + known.encode())
    assert board(sshd).push(package).size_bytes > 0


@pytest.mark.parametrize(
    ("written", "why"),
    [(b"hello", "invalid private key"), (b"\xff\xfe\x00", "invalid private key"), (None, "is a directory")],
    ids=["text", "bytes", "directory"],
)
def test_an_identity_that_is_not_a_private_key(
    sshd: Sshd, package: Path, tmp_path: Path, written: bytes | None, why: str
):
    identity = tmp_path / "identity"
    identity.mkdir() if written is None else identity.write_bytes(written)
    problem, remedy = error_of(board(sshd, identity=str(identity)).push, package)
    assert problem == f"devices.board.identity: {identity} cannot be read ({why})"
    assert remedy.startswith("name the file of a private key")


def test_the_command_to_try_has_the_user_and_the_key(sshd: Sshd, package: Path):
    _problem, remedy = error_of(board(sshd, user="nobody-there").push, package)
    assert f"`ssh -i {sshd.identity} -l nobody-there -o UserKnownHostsFile=" in remedy


def test_a_jump_host_without_an_address_is_not_taken_for_the_device(sshd: Sshd, package: Path, tmp_path: Path):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host 127.0.0.1\n  ProxyJump nowhere.invalid\n")
    problem, remedy = error_of(board(sshd).push, package)
    assert problem.endswith("a host on the way to 127.0.0.1 has no address")
    assert remedy.startswith("correct HostName or ProxyJump in ~/.ssh/config")
