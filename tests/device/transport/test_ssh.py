"""Devices over a real sshd on loopback: packages run there as here, connections end what they started, errors say what to do."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import numpy as np
import pytest

from tests.codegen.conftest import Transformed, static_net  # noqa: F401  # fixtures
from tests.device.configs import ENDLESS, device_config
from tests.device.local.test_local import image, inputs_file, own_store, package, packed  # noqa: F401  # fixtures
from tests.device.rpc.test_rpc import altered, outputs_of
from tests.device.transport.ssh_server import Sshd
from tests.native import devices as native
from tests.native import stateful
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.measure.farm import HOST, free_port
from tests.tune.measure.processes import command, eventually
from tvmake.artifact.package import LIBRARY, REQUIRED, pack
from tvmake.config.benchmark import Measurement
from tvmake.device.connect import connect
from tvmake.device.interface import Deployment, RunRequest
from tvmake.device.sharing.group import Group
from tvmake.errors import DeviceError, InputError, TvmakeError

pytestmark = pytest.mark.usefixtures("shared_servers")


@pytest.fixture(scope="module")
def shared_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's ssh configuration, keys or agent."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture
def sshd(shared_sshd: Sshd) -> Iterator[Sshd]:
    """It is there, is trusted, and says what this machine says."""
    shared_sshd.trust()
    yield shared_sshd
    shutil.rmtree(shared_sshd.bin)
    shared_sshd.bin.mkdir()


@pytest.fixture(scope="module")
def programs() -> Path:
    return native.programs()


@pytest.fixture
def second(tmp_path_factory: pytest.TempPathFactory, sshd: Sshd) -> Iterator[Sshd]:
    server = Sshd(tmp_path_factory.mktemp("second"), sshd.user_key)
    server.known_hosts.write_text(server.known_hosts.read_text() + sshd.known_hosts.read_text())
    yield server
    server.stop()


def board(sshd: Sshd, **config: object) -> Group:
    device = connect("board", device_config(**sshd.config(**config)))
    assert isinstance(device, Group)
    return device


def error_of(work, *arguments: object) -> list[str]:
    with pytest.raises(TvmakeError) as caught:
        work(*arguments)
    return [line.strip() for line in str(caught.value).splitlines()]


# --- packages ------------------------------------------------------------------------------------------------------


def test_a_package_gives_the_same_outputs_there_as_here(sshd: Sshd, programs: Path, package: Path, tmp_path: Path):  # noqa: F811
    request = RunRequest(samples=2, repeat_first=True)
    inputs = inputs_file(tmp_path / "in.npz", image(0), image(1))
    results = {}
    for device in (board(sshd, programs=str(programs)), connect("local", device_config())):
        device.execute(device.push(package), request, inputs, tmp_path / f"{device.name}.npz")
        results[device.name] = outputs_of(tmp_path / f"{device.name}.npz", 3)
    for there, here in zip(results["board"], results["local"], strict=True):
        assert np.array_equal(there, here)


def test_samples_of_a_package_with_states_are_sequences_there_too(sshd: Sshd, programs: Path, tmp_path: Path):
    network = stateful.accumulator(tmp_path)
    pack({name: network / name for name in REQUIRED}, tmp_path / "package.tar")
    inputs = inputs_file(tmp_path / "in.npz", *(np.ones((1, 4), "float32") for _ in range(5)))
    device = board(sshd, programs=str(programs))
    device.execute(device.push(tmp_path / "package.tar"), RunRequest(samples=5, steps=3), inputs, tmp_path / "out.npz")
    assert [value[0, 0] for value in outputs_of(tmp_path / "out.npz", 5)] == [1, 2, 3, 1, 2]


def test_a_run_is_timed_there_and_leaves_nothing_behind(sshd: Sshd, programs: Path, package: Path, tmp_path: Path):  # noqa: F811
    device = board(sshd, programs=str(programs), threads=1, soc="BCM2712")
    inputs = inputs_file(tmp_path / "in.npz", image())
    how = Measurement(warmup=1, repeat=3)
    with device.exclusive():
        result = device.execute(device.push(package), RunRequest(samples=1, measurement=how), inputs, None)
    assert len(result.timing.samples_ms) == 3 and result.timing.conditions["device"] == sshd.host
    assert (result.fingerprint.soc, result.fingerprint.details["threads"]) == ("BCM2712", "1")
    assert result.fingerprint.runtime.startswith("apache-tvm")
    assert list((sshd.directory / "there/runs").iterdir()) == []


def test_an_unchanged_package_and_unchanged_programs_move_no_payload_bytes(
    sshd: Sshd,
    programs: Path,
    package: Path,  # noqa: F811
    tmp_path: Path,
):
    (member,) = board(sshd, programs=str(programs), directory=str(tmp_path / "there")).members
    deployment, sent = member.push_counted(package)
    assert sent > deployment.size_bytes / 2
    assert member.push_counted(package) == (deployment, 0)
    from tvmake.device.transport.programs import install

    with member.shell() as shell:
        known = member.facts(shell)
        counts = [install(shell, member.config, known, "board", False).sent_bytes for _ in range(2)]
    assert counts[0] > 0 and counts[1] == 0


def test_a_file_that_was_damaged_there_is_sent_again(sshd: Sshd, package: Path):  # noqa: F811
    (member,) = board(sshd).members
    deployment, _ = member.push_counted(package)
    library = Path(deployment.location) / LIBRARY
    library.write_bytes(library.read_bytes()[:-9] + b"damaged..")
    assert member.push_counted(package)[1] > 0
    assert member.push_counted(package)[1] == 0


def test_the_device_says_who_it_is(sshd: Sshd):
    fingerprint = board(sshd).fingerprint()
    assert fingerprint.cores == len(os.sched_getaffinity(0)) or fingerprint.cores > 0
    assert fingerprint.memory_bytes > 1 << 28 and fingerprint.soc
    assert fingerprint.details["machine"] == os.uname().machine
    assert fingerprint.details["root"] in ("yes", "no", "with su")
    assert sshd.host not in fingerprint.model_dump_json()


def test_what_ssh_knows_of_a_host_counts(sshd: Sshd, tmp_path: Path):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text(
        f"Host pi5\n  HostName {HOST}\n  Port {sshd.port}\n  IdentityFile {sshd.identity}\n"
    )
    (tmp_path / ".ssh/known_hosts").write_text(sshd.known_hosts.read_text())
    device = connect("board", device_config(via="ssh", host="pi5", directory=str(tmp_path / "there"), soc="BCM2712"))
    assert device.fingerprint().soc == "BCM2712"


def test_a_key_may_be_the_agents(sshd: Sshd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.DEVNULL)
    try:
        eventually((tmp_path / "agent").exists)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        subprocess.run(["ssh-add", "-q", sshd.identity], check=True)
        assert board(sshd, identity=None).fingerprint().cores > 0
    finally:
        agent.terminate()
        agent.wait()


# --- what runs there ends with what asked for it -------------------------------------------------------------------


def running(what: str) -> list[int]:
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and what in command(int(entry.name))
    ]


def test_a_run_that_takes_too_long_is_ended_there(sshd: Sshd, programs: Path, package: Path, tmp_path: Path):  # noqa: F811
    device = board(sshd, programs=str(programs), timeout_s=2)
    deployment = device.push(package)
    assert error_of(device.execute, deployment, ENDLESS, inputs_file(tmp_path / "in.npz", image()), None) == [
        f"device 'board' ({sshd.host}): the run did not end within 2 s",
        "raise devices.board.timeout_s, or lower benchmark.repeat, benchmark.min_duration_s, or the dataset's limit",
    ]
    eventually(lambda: not running(f"--package {deployment.location}"))


def test_a_process_killed_here_ends_its_run_there(sshd: Sshd, programs: Path, package: Path, tmp_path: Path):  # noqa: F811
    deployment = board(sshd).push(package)
    inputs = inputs_file(tmp_path / "in.npz", image())
    script = textwrap.dedent(
        f"""
        from pathlib import Path
        from tvmake.config.device import SshDeviceConfig
        from tvmake.device.connect import connect
        from tvmake.device.interface import Deployment, RunRequest
        device = connect("board", SshDeviceConfig(**{sshd.config(programs=str(programs))!r}))
        deployment = Deployment.model_validate_json({deployment.model_dump_json()!r})
        request = RunRequest.model_validate_json({ENDLESS.model_dump_json()!r})
        device.execute(deployment, request, Path({str(inputs)!r}), None)
        """
    )
    client = subprocess.Popen([sys.executable, "-c", script])
    run = f"tvmake-run --package {deployment.location}"
    eventually(lambda: running(run))
    client.send_signal(signal.SIGKILL)
    client.wait()
    eventually(lambda: not running(run))


def test_generated_code_that_crashes_is_one_clear_line(sshd: Sshd, programs: Path, package: Path, tmp_path: Path):  # noqa: F811
    device = board(sshd, programs=str(programs))
    crashing = with_crash(device.push(package), tmp_path)
    problem, remedy = error_of(
        device.execute, crashing, RunRequest(samples=1), inputs_file(tmp_path / "in.npz", image()), None
    )
    assert problem == f"device 'board' ({sshd.host}): running the package ended with SIGSEGV"
    assert remedy == "the generated code crashed: build with build.dump to look at it"


def with_crash(deployment: Deployment, directory: Path) -> Deployment:
    """A copy of a deployed package whose library crashes when it is loaded."""
    (directory / "crash.c").write_text("__attribute__((constructor)) void crash(void) { *(volatile int *)0 = 1; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", directory / "crash.so", directory / "crash.c"], check=True)
    return altered(deployment, directory / "crashing", lambda _: (directory / "crash.so").read_bytes())


def test_inputs_that_do_not_fit_are_named(sshd: Sshd, programs: Path, package: Path, tmp_path: Path):  # noqa: F811
    device = board(sshd, programs=str(programs))
    inputs = inputs_file(tmp_path / "in.npz", np.zeros((1, 3, 8), "float32"))
    with pytest.raises(InputError, match=r"input 'x' is .* the package takes float32\[1, 3, 8, 8\]"):
        device.execute(device.push(package), RunRequest(samples=1), inputs, None)


# --- what can go wrong, line by line -------------------------------------------------------------------------------


def test_an_unknown_host_is_not_talked_to(sshd: Sshd):
    sshd.known_hosts.write_text("")
    assert error_of(board(sshd).fingerprint) == [
        f"device 'board' ({sshd.host}): its host key is not in {sshd.known_hosts}",
        f"run `ssh -o UserKnownHostsFile={sshd.known_hosts} -p {sshd.port} {HOST}` once and compare the fingerprint that it shows with the device's",
    ]


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256"])
def test_a_host_with_another_key_than_it_had_is_not_talked_to(sshd: Sshd, kind: str):
    another = asyncssh.generate_private_key(kind).export_public_key().decode().strip()
    sshd.known_hosts.write_text(f"[{HOST}]:{sshd.port} {another}\n")
    assert error_of(board(sshd).fingerprint) == [
        f"device 'board' ({sshd.host}): its host key is not the one in {sshd.known_hosts}: the device was reinstalled, or it is "
        "another machine",
        f"when you are sure that it is the device, run `ssh-keygen -f {sshd.known_hosts} -R '[{HOST}]:{sshd.port}'` and "
        f"`ssh -o UserKnownHostsFile={sshd.known_hosts} -p {sshd.port} {HOST}` once",
    ]
    subprocess.run(
        ["ssh-keygen", "-f", sshd.known_hosts, "-R", f"[{HOST}]:{sshd.port}"], check=True, capture_output=True
    )
    assert "its host key is not in" in error_of(board(sshd).fingerprint)[0]


def test_a_port_where_nobody_listens(sshd: Sshd):
    port = free_port()
    assert error_of(board(sshd, host=f"{HOST}:{port}").fingerprint) == [
        f"device 'board' ({HOST}:{port}): no ssh server at {HOST}:{port} (connection refused)",
        "start sshd there, or correct the port",
    ]


def test_a_host_without_an_address(sshd: Sshd):
    problem, remedy = error_of(board(sshd, host="no-such-board.invalid").fingerprint)
    assert problem == "device 'board' (no-such-board.invalid): no such host: no-such-board.invalid"
    assert remedy == "correct devices.board.host, or HostName and ProxyJump in ~/.ssh/config"


def test_a_key_that_is_not_let_in(sshd: Sshd, tmp_path: Path):
    stranger = tmp_path / "stranger"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(stranger))
    assert error_of(board(sshd, identity=str(stranger), user="me").fingerprint) == [
        f"device 'board' ({sshd.host}): it refuses me with every offered key ({stranger})",
        "copy a public key there (`ssh-copy-id`), or set user and identity; "
        f"`ssh -i {stranger} -l me -o UserKnownHostsFile={sshd.known_hosts} -p {sshd.port} {HOST}` must work without a password",
    ]


def test_a_key_with_a_passphrase_or_no_key_at_all(sshd: Sshd, tmp_path: Path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "locked"], check=True)
    problem, remedy = error_of(board(sshd, identity=str(tmp_path / "locked")).fingerprint)
    assert problem.startswith(f"devices.board.identity: {tmp_path}/locked cannot be read (")
    assert remedy == "add it to the agent (`ssh-add`) and leave identity out, or take a key without a passphrase"
    problem, _ = error_of(board(sshd, identity=str(tmp_path / "none")).fingerprint)
    assert problem == f"devices.board.identity: no such file: {tmp_path}/none"


def test_a_full_disk(sshd: Sshd, package: Path, tmp_path: Path):  # noqa: F811
    there = tmp_path / "full"
    sshd.says(
        "cat",
        f'case "$(readlink /proc/$$/fd/1)" in {there}/packages/*) exec /bin/cat > /dev/full;; esac\nexec /bin/cat "$@"',
    )
    problem, remedy = error_of(board(sshd, directory=str(there)).push, package)
    assert problem.startswith(f"device 'board' ({sshd.host}): no space left on the device (writing {there}/packages/")
    assert remedy == "free some there, or set another directory"
    assert list((there / "packages").iterdir()) == []


def test_a_directory_that_cannot_be_made(sshd: Sshd):
    problem, remedy = error_of(board(sshd, directory="/proc/tvmake").fingerprint)
    assert remedy == "set the device's directory to a writable one"
    assert problem.startswith(f"device 'board' ({sshd.host}): making /proc/tvmake failed: mkdir: ")


def test_a_shell_that_chatters(tmp_path: Path):
    chatty = Sshd(tmp_path / "chatty", options='ForceCommand echo Welcome; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"')
    try:
        assert error_of(board(chatty).fingerprint) == [
            f"device 'board' ({chatty.host}): its shell prints additional output ('Welcome')",
            "make its .bashrc and .profile print nothing in non-interactive shells",
        ]
    finally:
        chatty.stop()


def test_tunnels_that_are_not_allowed(tmp_path: Path):
    closed = Sshd(tmp_path / "closed", options="AllowTcpForwarding no")
    try:
        with board(closed).members[0].shell() as shell:
            assert error_of(shell.reverse, 9190) == [
                f"device 'board' ({closed.host}): its ssh server allows no tunnels",
                "set `AllowTcpForwarding yes` in sshd_config there",
            ]
    finally:
        closed.stop()


def test_a_package_for_another_processor_is_not_sent(sshd: Sshd, package: Path, tmp_path: Path):  # noqa: F811
    sshd.says("uname", 'test "$1" = -m && echo aarch64 || exec /bin/uname "$@"')
    device = board(sshd, directory=str(tmp_path / "there"))
    assert error_of(device.push, package) == [
        f"device 'board' ({sshd.host}): mod.so is code for x86-64, and the device is aarch64 (uname -m: aarch64)",
        "compile for this device: the target's mtriple and mcpu, and cc that links for it",
    ]
    assert not (tmp_path / "there/packages").exists()


# --- several equal devices -----------------------------------------------------------------------------------------


def pair(sshd: Sshd, second: Sshd, programs: Path) -> Group:
    return board(sshd, host=[second.host, sshd.host], known_hosts=str(second.known_hosts), programs=str(programs))


def test_a_device_that_fails_is_replaced_then_set_aside_and_the_result_says_so(
    sshd: Sshd,
    second: Sshd,
    programs: Path,
    package: Path,  # noqa: F811
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
):
    device = pair(sshd, second, programs)
    deployment = device.push(package)
    second.stop()
    inputs = inputs_file(tmp_path / "in.npz", image())
    request = RunRequest(samples=1, measurement=Measurement(repeat=1, warmup=0))
    conditions = []
    for _ in range(4):
        with device.exclusive():
            conditions.append(device.execute(deployment, request, inputs, None).timing.conditions)
    assert {condition["device"] for condition in conditions} == {sshd.host}
    assert ["set_aside" in condition for condition in conditions] == [False, False, True, True]
    assert conditions[-1]["set_aside"] == f"{second.host}: no ssh server at {second.host} (connection refused)"
    errors = capfd.readouterr().err
    assert errors.count("; another device is used") == 2 and errors.count("; set aside") == 1


def test_a_device_that_somebody_measures_on_is_left_alone(
    sshd: Sshd,
    second: Sshd,
    programs: Path,
    package: Path,  # noqa: F811
    tmp_path: Path,
):
    device, other = pair(sshd, second, programs), pair(sshd, second, programs)
    deployment = device.push(package)
    inputs = inputs_file(tmp_path / "in.npz", image())
    with device.exclusive():
        there = other.execute(deployment, RunRequest(samples=1), inputs, None).timing.conditions["device"]
        assert there == sshd.host
        with other.exclusive():
            systems: list[str] = []
            third = pair(sshd, second, programs)
            waiting = threading.Thread(
                target=lambda: systems.append(
                    third.execute(deployment, RunRequest(samples=1), inputs, None).fingerprint.os
                )
            )
            waiting.start()
            time.sleep(1.5)
            assert systems == []
    waiting.join(60)
    assert len(systems) == 1


def test_the_only_device_being_lost_is_an_error(sshd: Sshd, second: Sshd, programs: Path, package: Path):  # noqa: F811
    device = board(second, programs=str(programs))
    second.stop()
    with pytest.raises(DeviceError, match="no ssh server at"):
        device.push(package)
