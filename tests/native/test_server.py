"""The native server, behind a real tracker and with TVM's own client: it serves, and nothing that clients do ends it."""

import gc
import json
import platform
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.children import WITHOUT_TORCH
from tests.device.configs import device_config
from tests.device.local.test_local import image, inputs_file, packed
from tests.device.rpc.test_rpc import outputs_of
from tests.native.devices import programs, run
from tests.native.opencl_device import require_opencl
from tests.native.servers import NativeFarm, Server, connect, is_gone, misbehaving_library
from tests.patience import HANG_S
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.measure import kernels
from tests.tune.measure.farm import HOST
from tests.tune.measure.processes import children, eventually
from tests.tune.measure.test_remote import Remote
from tvmake.config.benchmark import Measurement
from tvmake.device.connect import connect as device_for
from tvmake.device.interface import RunRequest
from tvmake.device.rpc.orderly_close import client_connection
from tvmake.device.rpc.session import SESSION_TIMEOUT
from tvmake.device.rpc.tensors import DirectTensors

pytestmark = pytest.mark.usefixtures("shared_servers")

MAGIC = struct.pack("<i", 0xFF271)

SHORT_S = 5
"""The time of a session that hangs in its last call; it must last through the calls before."""


@pytest.fixture(scope="session")
def command(programs: Path) -> list[str]:
    return [str(programs / "tvmake-serve")]


@pytest.fixture(scope="module")
def shared(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeFarm]:
    farm = NativeFarm(command, tmp_path_factory.mktemp("farm"))
    yield farm
    farm.close()


@pytest.fixture
def farm(shared: NativeFarm) -> Iterator[NativeFarm]:
    """A server that is as good as new after whatever the test does to it."""
    process = shared.server.process
    yield shared
    gc.collect()
    assert process.poll() is None, shared.server.log()
    eventually(shared.server.is_clean)
    shared.connect().get_function("runtime.NumThreads")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return misbehaving_library(tmp_path_factory.mktemp("library"))


def call(session, library: Path, name: str):
    session.upload(str(library), library.name)
    return session.load_module(library.name)[name]()


def error_of(work, *arguments: object) -> str:
    try:
        work(*arguments)
    except Exception as error:  # noqa: BLE001  # which one depends on how the session ended
        return str(error)
    raise AssertionError("it did not fail")


# --- serving -------------------------------------------------------------------------------------------------------


def test_a_package_gives_the_same_outputs_there_as_here_and_is_timed(
    farm: NativeFarm, static_net, tmp_path: Path, monkeypatch
):
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    package = packed(static_net, tmp_path)
    inputs = inputs_file(tmp_path / "in.npz", image(0), image(1))
    there = device_config(via="rpc", tracker=f"{HOST}:{farm.port}", key=farm.key, wait_s=HANG_S, threads=1)
    request = RunRequest(samples=2, repeat_first=True, measurement=Measurement(warmup=2, repeat=4, number=3))
    results = {}
    for name, config in (("phone", there), ("local", device_config(threads=1))):
        device = device_for(name, config)
        results[name] = device.execute(device.push(package), request, inputs, tmp_path / f"{name}.npz")
    for ours, theirs in zip(outputs_of(tmp_path / "phone.npz", 3), outputs_of(tmp_path / "local.npz", 3), strict=True):
        assert np.array_equal(ours, theirs)
    timing, fingerprint = results["phone"].timing, results["phone"].fingerprint
    assert len(timing.samples_ms) == 4 and len(timing.warmup_ms) == 2 and min(timing.samples_ms) > 0
    assert (fingerprint.soc, fingerprint.cores, fingerprint.details["threads"]) == ("phone", 1, "1")
    assert fingerprint.memory_bytes > 0
    assert fingerprint.os != "not told"


def test_candidates_are_timed_there(farm: NativeFarm):
    with closing(Remote(farm)) as remote:
        results = remote.measure(kernels.add(0), kernels.gather(1, "int64"), kernels.unbuildable(2), kernels.add(3))
        assert [results[number].status for number in range(4)] == ["ok", "ok", "build_error", "ok"]
        assert remote.warnings == []


def test_tensors_are_filled_for_measuring(farm: NativeFarm):
    session = farm.connect()
    import tvm

    tensor = tvm.runtime.empty((64,), "float32", session.cpu(0))
    session.get_function("tvm.contrib.random.random_fill_for_measure")(tensor)
    assert 1 <= tensor.numpy().min() < tensor.numpy().max() <= 10


def test_uploads_stay_in_the_sessions_directory_and_go_with_it(farm: NativeFarm, tmp_path: Path):
    session = farm.connect()
    session.upload(bytearray(b"content"), "a/file.txt")
    (work,) = farm.server.work.iterdir()
    assert (work / "a" / "file.txt").read_bytes() == b"content"
    assert bytes(session.download("a/file.txt")) == b"content" and session.listdir("a") == "file.txt"
    assert bytes(session.download("/etc/os-release")) == Path("/etc/os-release").read_bytes()
    for outside in ("../file", str(tmp_path / "file"), "a/../../file", "."):
        assert "outside the session's directory" in error_of(session.upload, bytearray(b"1"), outside)
        assert "outside the session's directory" in error_of(session.remove, outside)
    session.remove("a")
    assert session.listdir(".") == ""
    assert "links nothing; 'code.tar' is none" in error_of(session.load_module, "code.tar")
    del session
    gc.collect()
    eventually(lambda: not work.exists())


@pytest.mark.long
def test_an_opencl_device_is_there_with_its_library_beside_the_program(tmp_path: Path):
    require_opencl()
    program = programs(platform.machine(), with_opencl=True) / "tvmake-serve"
    with Server([str(program), "--key", "board"], tmp_path) as server:
        session = connect(server.port, "board")
        device = session.device("opencl", 0)
        assert device.exist and device.device_name
        tensors = DirectTensors.of(session, HOST, server.port)
        assert tensors is not None
        value = np.arange(1 << 18, dtype="float32")
        assert np.array_equal(tensors.read(tensors.create(value, device)), value)


def test_without_a_tracker_clients_come_one_after_the_other(command: list[str], tmp_path: Path):
    with Server([*command, "--key", "board"], tmp_path) as server:
        first = connect(server.port, "board")
        script = f"from tests.native.servers import connect; connect({server.port}, 'board').get_function('runtime.NumThreads')"
        second = subprocess.Popen([sys.executable, "-c", WITHOUT_TORCH + script])
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(2)
        del first
        assert second.wait(HANG_S) == 0
        assert server.stop() == 0


# --- clients that misbehave ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hang", "spin"])
def test_code_that_hangs_is_killed_when_its_time_is_over(farm: NativeFarm, library: Path, name: str):
    assert SESSION_TIMEOUT in error_of(call, farm.connect(timeout_s=SHORT_S), library, name)
    eventually(farm.server.is_clean)


def test_the_server_has_a_limit_of_its_own(command: list[str], library: Path, tmp_path: Path):
    with Server([*command, "--key", "board", "--session-timeout", str(SHORT_S)], tmp_path) as server:
        for timeout_s in (0, HANG_S):
            assert SESSION_TIMEOUT in error_of(call, connect(server.port, "board", timeout_s), library, "hang")


@pytest.mark.parametrize(("name", "how"), [("crash", "SIGSEGV"), ("leave", "code 7")])
def test_code_that_ends_the_process_is_reported_in_one_line(farm: NativeFarm, library: Path, name: str, how: str):
    assert f"ended with {how}" in error_of(call, farm.connect(), library, name)


def test_processes_that_a_session_started_end_with_it(farm: NativeFarm, library: Path):
    session = farm.connect()
    call(session, library, "breed")
    (process,) = farm.server.sessions()
    (bred,) = children(process)
    del session
    eventually(lambda: is_gone(bred) and is_gone(process))


CLIENT = """
import sys
import tvm
from tvm import rpc
session = rpc.connect_tracker("127.0.0.1", int(sys.argv[1])).request(sys.argv[2], session_timeout=3600)
session.upload(sys.argv[3], "code.so")
session.load_module("code.so")[sys.argv[4]]()
"""


@pytest.mark.parametrize("name", ["slow", "hang"])
def test_a_client_killed_in_the_middle_frees_the_server(farm: NativeFarm, library: Path, name: str):
    client = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_TORCH + CLIENT, str(farm.port), farm.key, str(library), name]
    )
    eventually(lambda: any(farm.server.work.glob("*/code.so")) or client.poll() is not None)
    assert client.poll() is None, "the client ended"
    client.send_signal(signal.SIGSTOP)
    time.sleep(1)  # for a reply that nobody will have read
    client.kill()
    client.wait()
    eventually(farm.server.is_clean)


def test_clients_that_say_nothing_or_nonsense_hold_nobody_up(farm: NativeFarm):
    offer = farm.offer()
    greetings = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        MAGIC,
        MAGIC + struct.pack("<i", -5),
        MAGIC + struct.pack("<i", 9) + b"clie",
    ]
    sockets = [socket.create_connection((HOST, farm.server.port)) for _ in range(60)]
    for number, client in enumerate(sockets):
        client.sendall(greetings[number % len(greetings)])
    connect(farm.server.port, offer.match_key).get_function("runtime.NumThreads")
    for client in sockets:
        client.close()


def test_a_wrong_key_is_refused_at_once_and_a_busy_server_answers(farm: NativeFarm):
    session = farm.connect()
    with socket.create_connection((HOST, farm.server.port), HANG_S) as late:
        late.sendall(MAGIC + struct.pack("<i", 14) + b"client:phone:1")
        assert late.recv(4) == struct.pack("<i", 0xFF271 + 2)
    assert farm.server.address.is_reachable()
    session.get_function("runtime.NumThreads")


# --- the server's own life -----------------------------------------------------------------------------------------


def test_sigterm_ends_the_server_with_all_it_started(command: list[str], library: Path, tmp_path: Path):
    farm = NativeFarm(command, tmp_path)
    try:
        session = farm.connect()
        call(session, library, "breed")
        (process,) = farm.server.sessions()
        (bred,) = children(process)
        assert farm.server.stop() == 0
        eventually(lambda: is_gone(bred) and is_gone(process))
        assert farm.server.is_clean()
        eventually(lambda: farm.farm.tracker.servers() == [])
    finally:
        farm.close()


def test_a_killed_server_leaves_no_process_and_its_successor_tidies_up(
    command: list[str], library: Path, tmp_path: Path
):
    server = Server([*command, "--key", "board"], tmp_path)
    session = connect(server.port, "board")
    session.upload(str(library), "code.so")
    (process,) = server.sessions()
    server.close()
    eventually(lambda: is_gone(process))
    assert len(list(server.work.iterdir())) == 1
    (server.work / "somebody's").mkdir()
    with Server([*command, "--key", "board"], tmp_path) as successor:
        assert [entry.name for entry in successor.work.iterdir()] == ["somebody's"]


def test_the_server_registers_again_with_a_tracker_that_restarts(command: list[str], tmp_path: Path):
    farm = NativeFarm(command, tmp_path)
    try:
        farm.farm.lose_tracker()
        eventually(lambda: "no tracker at" in farm.server.log())
        farm.farm.start_tracker()
        farm.connect().get_function("runtime.NumThreads")
        assert farm.server.log().count("no tracker at") == 1
    finally:
        farm.close()


@pytest.mark.long
def test_a_client_that_was_sent_and_does_not_come_is_not_waited_for(command: list[str], tmp_path: Path):
    farm = NativeFarm(command, tmp_path)
    try:
        unused = farm.offer()
        farm.connect().get_function("runtime.NumThreads")
        assert "offering again" in farm.server.log()
        assert error_of(connect, farm.server.port, unused.match_key)
    finally:
        farm.close()


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["--host", "0.0.0.0"], 1, "--host 0.0.0.0: other machines reach it, and whoever does can run code here"),
        (["--host", "::"], 1, "--host ::: other machines reach it"),
        (["--host", "no.such.host.invalid"], 3, "no.such.host.invalid: no such host"),
        (["--tracker", "127.0.0.1:9190"], 2, "--tracker needs --key"),
        (["--tracker", "9190", "--key", "k"], 2, "--tracker: expected host:port"),
        (["--key", "a:b"], 2, "--key: expected a name without spaces, colons"),
        (["--session-timeout", "0"], 2, "--session-timeout: expected seconds (got '0')"),
        (["--port", "9090", "--port-end", "9090"], 2, "--port-end has to be above --port"),
        (["--port", "0", "--workdir", "/nowhere"], 3, "/nowhere: cannot be used"),
        (["--cache", "/proc/nowhere"], 3, "/proc/nowhere: cannot be used to keep files"),
        (["--cache-mb", "0"], 2, "--cache-mb: expected a whole number from 1"),
        (["--loud"], 2, "--loud: no such option"),
    ],
)
def test_options_that_make_no_sense_are_refused(command: list[str], options: list[str], code: int, problem: str):
    done = run(command, *options)
    assert done.returncode == code and done.stderr.startswith(f"error: {problem}"), done


def test_a_port_that_is_taken_is_named_and_the_next_can_be_tried(command: list[str], tmp_path: Path):
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(command, "--port", port)
        assert (done.returncode, done.stderr) == (
            3,
            f"error: cannot listen at {HOST}:{port} (Address already in use)\n  give another --port\n",
        )
        with Server(command, tmp_path, "--port", str(port), "--port-end", str(port + 50)) as server:
            assert port < server.port < port + 50


def test_other_machines_are_let_in_only_on_request(command: list[str], tmp_path: Path):
    with Server([*command, "--host", "0.0.0.0", "--allow-remote", "--key", "board"], tmp_path) as server:
        connect(server.port, "board").get_function("runtime.NumThreads")


@pytest.mark.long
def test_the_server_holds_through_sessions_of_every_kind():
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "server_soak.py"
    done = subprocess.run([sys.executable, str(script), "--sessions", "30"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert sum(counts["sessions"].values()) == 30 and counts["orphans"] == 0


# --- tensors -------------------------------------------------------------------------------------------------------


def direct(farm: NativeFarm):
    """A session, and its tensors; no fixture, whose value would be kept until the server has waited for its end."""
    offer = farm.offer()
    session = connect(offer.address.port, offer.match_key)
    tensors = DirectTensors.of(session, HOST, offer.address.port)
    assert tensors is not None
    return session, tensors


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int64", "float64", "bool"])
def test_tensors_arrive_and_come_back_unchanged(farm: NativeFarm, dtype: str):
    session, tensors = direct(farm)
    import tvm

    for shape in ((), (0,), (5,), (3, 224, 224), (1 << 20,)):
        value = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
        ours, theirs = tensors.create(value, session.cpu(0)), tvm.runtime.tensor(value, session.cpu(0))
        for tensor in (ours, theirs):
            assert np.array_equal(tensor.numpy(), value) and np.array_equal(tensors.read(tensor), value)
        tensors.write(theirs, np.zeros_like(value))
        assert not theirs.numpy().any()
    with pytest.raises(ValueError, match="does not fit"):
        tensors.write(theirs, value[1:])


def test_a_session_that_leads_on_to_another_is_left_to_tvm(farm: NativeFarm):
    offer = farm.offer()
    import tvm

    from tvm import rpc  # isort: skip

    session = rpc.connect(HOST, offer.address.port, offer.match_key, HANG_S, ["rpc.LocalSession"])
    value = np.arange(1 << 16, dtype="float32")
    assert np.array_equal(tvm.runtime.tensor(value, session.cpu(0)).numpy(), value)


def test_a_copy_that_the_device_refuses_is_an_error(farm: NativeFarm, monkeypatch: pytest.MonkeyPatch):
    session, tensors = direct(farm)
    import tvm

    tensor = tvm.runtime.empty((1 << 16,), "float32", session.cpu(0))
    elsewhere = tvm.runtime.device("hexagon", 0).dlpack_device_type()
    head = tensors._description(tensor, 1 << 18)
    monkeypatch.setattr(tensors, "_description", lambda *_: head[:8] + struct.pack("<i", elsewhere) + head[12:])
    for work in (lambda: tensors.write(tensor, np.zeros(1 << 16, "float32")), lambda: tensors.read(tensor)):
        with pytest.raises(tvm.error.RPCError, match="Error caught from RPC call"):
            work()
    monkeypatch.undo()
    tensors.write(tensor, np.ones(1 << 16, "float32"))
    assert tensor.numpy().all()


@pytest.mark.parametrize(
    "packet",
    [
        struct.pack("<QH", 2, 0),
        struct.pack("<Qi", 4 + 24, 7) + struct.pack("<Qiii4x", 0, 1, 0, 1000),
        struct.pack("<Qi", 4 + 24 + 16 + 9, 7) + struct.pack("<Qiii4xQQ", 0, 1, 0, 0, 0, 4),
        struct.pack("<Qi", 4, 7) + struct.pack("<Qiii4xQQ", 0, 1, 0, 0, 0, 1 << 50),
        struct.pack("<Qi", 1 << 62, 3),
    ],
    ids=["no code", "too many axes", "two sizes", "larger than its tensor", "endless"],
)
def test_packets_that_make_no_sense_end_the_session_only(farm: NativeFarm, packet: bytes):
    offer = farm.offer()
    connect_ = connect(offer.address.port, offer.match_key)
    connected = client_connection(HOST, offer.address.port)
    connected.sendall(packet)
    connected.shutdown(socket.SHUT_WR)
    eventually(farm.server.is_clean)
    connected.close()
    del connect_
