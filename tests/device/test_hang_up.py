"""Sessions whose process is killed while the device works: the server goes on serving."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tune.measuring.farm import Farm
from tests.tune.measuring.processes import eventually

SCRIPT = """
import sys
from tvmake.quick_tvm import tvm
from tvm import rpc
from tvmake.device.hang_up import stay_behind

library, host, port, key, politely = sys.argv[1:]
session = rpc.connect(host, int(port), key, 30)
if politely == "yes":
    stay_behind(host, int(port), 30)
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
    """A library whose kernel takes two seconds: long enough to stop its client meanwhile, on a busy machine too."""
    from tests.tune.measuring.kernels import lasting, target
    from tvmake.quick_tvm import tvm

    library = tmp_path_factory.mktemp("kernel") / "slow.so"
    tvm.tirx.build(lasting(0, 2000).module, target=target()).export_library(str(library))
    return library


def kill_in_the_middle(farm: Farm, library: Path, politely: str) -> None:
    """Kill a client that has not read the server's last reply."""
    offer = farm.tracker.request(20)
    assert offer is not None
    arguments = [str(library), offer.address.host, str(offer.address.port), offer.match_key, politely]
    client = subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments])
    eventually(lambda: "load_module" in log(farm))
    client.send_signal(signal.SIGSTOP)
    time.sleep(3)  # for the reply to come
    client.kill()
    client.wait()


def log(farm: Farm) -> str:
    return "".join(file.read_text() for file in farm.directory.glob("rpc_server*.log"))


def test_a_server_outlives_a_client_killed_in_the_middle(farm: Farm, slow_kernel: Path):
    kill_in_the_middle(farm, slow_kernel, "yes")
    eventually(lambda: "finish serving" in log(farm))
    assert farm.tracker.request(20) is not None


def test_the_server_still_needs_it(farm: Farm, slow_kernel: Path):
    kill_in_the_middle(farm, slow_kernel, "no")
    eventually(lambda: "exited unsuccessfully" in log(farm))
    eventually(lambda: farm.tracker.servers() == [])
