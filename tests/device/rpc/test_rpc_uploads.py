"""What is sent to servers: once where it is kept, never altered without a word, and only to the same version of TVM."""

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.conftest import Transformed, static_net  # noqa: F401  # fixtures
from tests.device.configs import device_config
from tests.device.local.test_local import image, inputs_file, own_store, packed  # noqa: F401  # fixtures
from tests.device.rpc.proxy import ELSEWHERE, Proxy, is_in
from tests.device.rpc.test_rpc import error_of, outputs_of, reaching
from tests.native.devices import programs
from tests.native.servers import NativeFarm, connect
from tests.patience import HANG_S
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.measure import kernels
from tests.tune.measure.farm import HOST, Farm, free_port
from tests.tune.measure.processes import eventually
from tests.tune.measure.test_remote import Remote
from tvmake.artifact.package import LIBRARY, WEIGHTS
from tvmake.device.interface import Deployment, RunRequest
from tvmake.device.rpc import files as rpc_files
from tvmake.device.rpc.device import RPCDevice, RPCSessions
from tvmake.device.rpc.files import files_of
from tvmake.device.rpc.messages import CallKernel
from tvmake.device.rpc.tensors import DirectTensors
from tvmake.device.rpc.version import server_version
from tvmake.storage.files import digest_file

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("shared_servers")]

REMEDY = (
    "check the connection (tunnel, cable, network) and the device's memory and disk, and run the same command again"
)

OTHER = "0.26.0.post9"
"""A version with as many characters as the true one."""


@pytest.fixture(scope="module")
def net(static_net: Transformed, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    return packed(static_net, tmp_path_factory.mktemp("package"))


class Kind:
    """A server of one kind behind a proxy."""

    def __init__(self, name: str, farm: Farm, proxy: Proxy, cache: Path | None = None):
        self.name, self.farm, self.proxy, self.cache = name, farm, proxy, cache

    def device(self) -> RPCDevice:
        return RPCDevice("phone", device_config(**{**reaching(self.farm), "threads": 1, "wait_s": HANG_S}))

    @property
    def port(self) -> int:
        (address,) = self.farm.tracker.servers()
        return address.port

    def connect(self):
        """A session of this process, past the proxy: TVM's client lets no other thread work while it waits."""
        offer = self.farm.tracker.request(20)
        assert offer is not None
        from tvm import rpc

        return rpc.connect(HOST, offer.address.port, offer.match_key, 30)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kind]:
    farm = Farm(tmp_path_factory.mktemp("python"), servers=0)
    address = farm.add(announced=ELSEWHERE)
    proxy = Proxy(address.port)
    eventually(lambda: farm.tracker.servers() == [address])
    yield Kind("python", farm, proxy)
    farm.close()
    proxy.close()


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kind]:
    directory = tmp_path_factory.mktemp("native")
    port = free_port()
    proxy = Proxy(port)
    command = [str(programs() / "tvmake-serve")]
    options = ["--port", str(port), "--cache", str(directory / "cache"), "--cache-mb", "2"]
    farm = NativeFarm(command, directory, *options, announced=ELSEWHERE)
    yield Kind("native", farm.farm, proxy, directory / "cache")
    farm.close()
    proxy.close()


@pytest.fixture(params=["python", "native"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """A server that keeps nothing yet."""
    server: Kind = request.getfixturevalue(request.param)
    for kept in server.cache.iterdir() if server.cache else ():
        kept.unlink()
    return server


@pytest.fixture
def fresh(native: Kind) -> Kind:
    for kept in native.cache.iterdir():
        kept.unlink()
    return native


def run(kind: Kind, deployment: Deployment, directory: Path) -> np.ndarray:
    given = inputs_file(directory / "in.npz", image(7))  # of other numbers than the weights
    kind.device().execute(deployment, RunRequest(samples=1), given, directory / "out.npz")
    return outputs_of(directory / "out.npz", 1)[0]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("python", LIBRARY),
        ("native", WEIGHTS),
        pytest.param("python", WEIGHTS, marks=pytest.mark.soak),
        pytest.param("native", LIBRARY, marks=pytest.mark.soak),
    ],
    indirect=["kind"],
)
def test_an_upload_that_arrives_altered_is_one_clear_line(kind: Kind, net: Path, tmp_path: Path, name: str):
    deployment = kind.device().push(net)
    kind.proxy.alter((Path(deployment.location) / name).read_bytes())
    problem, remedy = error_of(run, kind, deployment, tmp_path)
    assert kind.proxy.has_done_it
    assert problem.startswith(f"device 'phone' ({ELSEWHERE}:") and f": {name} arrived altered (" in problem
    assert remedy == REMEDY
    if kind.cache:  # what arrived altered is not kept
        assert all(digest_file(kept) == kept.name for kept in kind.cache.iterdir())
    assert np.isfinite(run(kind, deployment, tmp_path)).all()


def test_an_upload_that_breaks_off_is_one_clear_line_and_leaves_nothing(kind: Kind, net: Path, tmp_path: Path):
    deployment = kind.device().push(net)
    kind.proxy.cut((Path(deployment.location) / LIBRARY).read_bytes())
    problem, remedy = error_of(run, kind, deployment, tmp_path)
    assert kind.proxy.has_done_it
    assert problem.startswith(f"device 'phone': its server {ELSEWHERE}:") and "was lost while running" in problem
    assert remedy == "see the server's output; restart it if it ended, and run the same command again"
    assert not kind.cache or not list(kind.cache.iterdir())
    if kind.name == "python":  # which ends with such a session
        (address,) = kind.farm.servers
        kind.farm.lose(address)
        kind.farm.add(address.port, ELSEWHERE)
    assert np.isfinite(run(kind, deployment, tmp_path)).all()


def test_an_altered_kernel_is_not_run(kind: Kind, net: Path):
    device = kind.device()
    library = Path(device.push(net).location) / LIBRARY
    kind.proxy.alter(library.read_bytes())
    order = CallKernel(device.config, device.where, library, "main", "cpu", [], 0)
    problem, remedy = error_of(RPCSessions(device.name, device.config).fulfil, order, 30)
    assert kind.proxy.has_done_it
    assert "mod.so arrived altered (" in problem and remedy == REMEDY


def test_an_unchanged_package_is_not_sent_again(fresh: Kind, net: Path, tmp_path: Path):
    deployment = fresh.device().push(net)
    files = [Path(deployment.location) / name for name in (LIBRARY, WEIGHTS)]
    sent, outputs = [], []
    for _ in range(2):
        fresh.proxy.sent.clear()
        outputs.append(run(fresh, deployment, tmp_path))
        sent.append(bytes(fresh.proxy.sent))
    assert all(is_in(sent[0], file) for file in files)
    assert not any(is_in(sent[1], file) for file in files)
    assert len(sent[0]) - len(sent[1]) >= sum(file.stat().st_size for file in files)
    assert np.array_equal(*outputs)


def test_a_kept_file_that_was_damaged_there_is_sent_again(fresh: Kind, net: Path, tmp_path: Path):
    deployment = fresh.device().push(net)
    expected = run(fresh, deployment, tmp_path)
    kept = sorted(fresh.cache.iterdir())
    assert len(kept) == 2
    for file in kept:
        file.write_bytes(file.read_bytes()[:-1])
    assert np.array_equal(run(fresh, deployment, tmp_path), expected)
    assert all(digest_file(file) == file.name for file in kept)


def test_kept_files_are_bounded_and_the_least_recently_used_is_removed(fresh: Kind, tmp_path: Path):
    files = {name: tmp_path / name for name in "abcd"}
    for name, file in files.items():
        file.write_bytes(name.encode() * 600_000)
    session = fresh.connect()
    sender = files_of(session, "server")
    (fresh.cache / "somebody's").write_bytes(bytes(5_000_000))
    for name in "abcad":
        sender.have(files[name], name)
        time.sleep(0.02)  # the clock of file times has a resolution
    assert {file.name for file in fresh.cache.iterdir()} == {
        "somebody's",
        *(digest_file(files[name]) for name in "acd"),
    }
    (tmp_path / "e").write_bytes(bytes(3_000_000))
    sender.have(tmp_path / "e", "e")
    assert len(list(fresh.cache.iterdir())) == 4


def test_a_large_file_travels_in_parts(fresh: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rpc_files, "PART", 100_000)
    large = tmp_path / "large"
    session = fresh.connect()
    sender = files_of(session, "server", DirectTensors.of(session, HOST, fresh.port))
    for size in (250_001, 100_000, 300_000):
        large.write_bytes(np.random.default_rng(size).bytes(size))
        sender.send(large, "large")
        assert bytes(session.download("large")) == large.read_bytes()


def test_names_other_than_digests_are_not_searched_for(fresh: Kind, net: Path):
    session = fresh.connect()
    session.upload(bytearray(b"content"), "file")
    (fresh.cache / "other").write_bytes(b"content")
    for digest in ("other", "../native", "", "a" * 63):
        assert not session.get_function("tvmake.rpc.take")("taken", digest)
        assert str(session.get_function("tvmake.rpc.keep")("file", digest)).startswith("7 ")
    assert "outside the session's directory" in str(_raised(session.get_function("tvmake.rpc.digest"), "../file"))
    assert [file.name for file in fresh.cache.iterdir()] == ["other"]


def _raised(work, *arguments: object) -> BaseException:
    with pytest.raises(Exception) as caught:  # TVM's own
        work(*arguments)
    return caught.value


# --- versions ------------------------------------------------------------------------------------------------------


def other_server(directory: Path) -> list[str]:
    """A native server that is made for another version of TVM, as far as it knows."""
    shutil.copytree(programs(), directory)
    program = directory / "tvmake-serve"
    true = metadata.version("apache-tvm").encode()
    content = program.read_bytes()
    assert content.count(true) == 1 and len(true) == len(OTHER)
    program.write_bytes(content.replace(true, OTHER.encode()))
    return [str(program)]


def test_a_server_of_another_version_is_refused_before_anything_is_sent(net: Path, tmp_path: Path):
    with closing(NativeFarm(other_server(tmp_path / "other"), tmp_path / "farm")) as farm:
        device = RPCDevice("phone", device_config(**reaching(farm.farm)))
        ours = metadata.version("apache-tvm")
        expected = [
            f"device 'phone' ({HOST}:{farm.server.port}): its server runs TVM {OTHER}, and its code was built with TVM {ours}",
            f"install apache-tvm=={ours} there, or a native server built here (docs/guides/native.md), and start the server again",
        ]
        assert error_of(device.fingerprint) == expected  # as a deployment asks for it
        given = inputs_file(tmp_path / "in.npz", image())
        assert error_of(device.execute, device.push(net), RunRequest(samples=1), given, None) == expected
        with closing(Remote(farm.farm, wait_s=1.0)) as remote:
            (result,) = remote.measure(kernels.add(0)).values()
        assert result.status == "device_lost" and f"its server runs TVM {OTHER}" in result.error


def test_a_native_server_reports_its_version(native: Kind):
    fingerprint = native.device().fingerprint()
    assert fingerprint.runtime == f"apache-tvm {metadata.version('apache-tvm')}"


def test_tvms_server_with_only_the_runtime_reports_no_version(python: Kind):
    assert python.device().fingerprint().runtime == "TVM RPC server"


def test_a_server_with_all_of_tvm_reports_its_version_and_another_one_is_refused(tmp_path: Path):
    farm = Farm(tmp_path, servers=0)
    try:
        farm.environment = whole_tvm(tmp_path / "lib", OTHER)
        address = farm.add()
        eventually(lambda: farm.tracker.servers() == [address])
        session = connect(address.port, farm.tracker.request(20).match_key)
        assert server_version(session) == OTHER
        del session
        device = RPCDevice("phone", device_config(**reaching(farm)))
        assert f"its server runs TVM {OTHER}, and" in error_of(device.fingerprint)[0]
    finally:
        farm.close()


def whole_tvm(directory: Path, version: str) -> dict[str, str]:
    """Variables for a process with all of TVM, and a library that reports this version."""
    from tvmake.native.parts import package

    directory.mkdir()
    for library in (package("tvm") / "lib").glob("*.so"):
        (directory / library.name).symlink_to(library)
    compiler = directory / "libtvm_compiler.so"
    content = compiler.read_bytes().replace(metadata.version("apache-tvm").encode(), version.encode())
    compiler.unlink()
    compiler.write_bytes(content)
    return {"TVM_USE_RUNTIME_LIB": "0", "TVM_LIBRARY_PATH": str(directory)}
