"""Sessions whose process is killed while the device works: the server continues to serve."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.children import WITHOUT_TORCH
from tests.patience import HANG_S
from tests.tune.measure.farm import Farm
from tests.tune.measure.processes import eventually

pytestmark = pytest.mark.long

SCRIPT = """
import sys
import tvm
from tvm import rpc
from tvmake.device.rpc.orderly_close import close_after_death

library, politely = sys.argv[1:]
print("ready", flush=True)
host, port, key = sys.stdin.readline().split()
session = rpc.connect(host, int(port), key, 600)
if politely == "yes":
    close_after_death(host, int(port), 600)
session.upload(library, "slow.so")
session.load_module("slow.so")["main"](tvm.runtime.empty((16,), "float32", session.cpu(0)))
"""


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    made = Farm(tmp_path, servers=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def slow_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose kernel takes six seconds: long enough to stop its client meanwhile, on a busy machine too."""
    import tvm

    from tests.tune.measure.kernels import lasting, target

    library = tmp_path_factory.mktemp("kernel") / "slow.so"
    tvm.tirx.build(lasting(0, 6000).module, target=target()).export_library(str(library))
    return library


def kill_in_the_middle(farm: Farm, library: Path, politely: str) -> None:
    """Kill a client that has not read the server's last reply."""
    client = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_TORCH + SCRIPT, str(library), politely],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdin and client.stdout
    assert client.stdout.readline() == "ready\n"
    # The server takes an offer back that is not used within ten seconds, so it is asked for when the client is there.
    offer = farm.tracker.request(HANG_S)
    assert offer is not None
    print(offer.address.host, offer.address.port, offer.match_key, file=client.stdin, flush=True)
    eventually(lambda: "load_module" in log(farm) or client.poll() is not None)
    assert client.poll() is None
    client.send_signal(signal.SIGSTOP)
    eventually(lambda: unread_bytes(offer.address.port))
    client.kill()
    client.wait()


def unread_bytes(port: int) -> int:
    """Bytes that wait for clients of a server on this machine (proc(5), net/tcp)."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].partition(":")[2], 16) for row in rows if int(row[2].partition(":")[2], 16) == port)


def log(farm: Farm) -> str:
    return "".join(file.read_text() for file in farm.directory.glob("rpc_server*.log"))


def test_a_server_outlives_a_client_killed_in_the_middle(farm: Farm, slow_kernel: Path):
    kill_in_the_middle(farm, slow_kernel, "yes")
    eventually(lambda: "finish serving" in log(farm))
    assert farm.tracker.request(HANG_S) is not None


def test_a_client_that_does_not_close_ends_the_server(farm: Farm, slow_kernel: Path):
    kill_in_the_middle(farm, slow_kernel, "no")
    eventually(lambda: "exited unsuccessfully" in log(farm))
    eventually(lambda: farm.tracker.servers() == [])
