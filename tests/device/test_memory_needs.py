"""A package that needs more memory than a process may use is refused before it is loaded."""

import subprocess
import sys
from pathlib import Path

import pytest
from onnx import helper

from tests.children import WITHOUT_TORCH
from tests.native.stateful import package_of
from tests.patience import HANG_S
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, load_manifest, pack
from tvmake.device.memory_needs import check_memory, group_limit, state_bytes
from tvmake.errors import MachineError

ELEMENTS = 1 << 24
"""Of a float32 state: 67 MB."""

LIMITED = (
    WITHOUT_TORCH
    + """
import resource, sys
from pathlib import Path
import numpy as np
import tvmake
from tvmake.device import store
from tvmake.device.local.worker import LoadedPackage
from tvmake.artifact.weights.file_format import stored_tensors
from tvmake.errors import MachineError
from tvmake.storage.mapped.mapping import map_file
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
path = Path(sys.argv[1])
for read in (tvmake.open,) if path.suffix == ".tar" else (map_file, stored_tensors):
    try:
        read(path)
    except MachineError as error:
        print(error)
"""
)
"""Reads a file with 48 MiB of address space."""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """s becomes x + s, and y is 2 x; the state s is large."""
    nodes = [helper.make_node("Add", ["x", "s"], ["s_next"]), helper.make_node("Add", ["x", "x"], ["y"])]
    outputs = {"y": [1], "s_next": [ELEMENTS]}
    return package_of(tmp_path_factory.mktemp("large"), nodes, {"x": [1], "s": [ELEMENTS]}, outputs, {"s": "s_next"})


def read_limited(path: Path, home: Path) -> list[str]:
    command = [sys.executable, "-c", LIMITED, str(path)]
    environment = {"PATH": "/usr/bin:/bin", "TVMAKE_HOME": str(home), "TVM_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=HANG_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_opening_a_package_reports_its_needs_and_the_limit(unpacked: Path, tmp_path: Path):
    package = tmp_path / "package.tar"
    pack({name: unpacked / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, package)
    problem, remedy = read_limited(package, tmp_path / "home")
    assert "package.tar: needs 67.1 MB of memory (weights " in problem
    assert "states 67.1 MB), and this process may use " in problem and problem.endswith(" MB more")
    assert remedy.strip() == "raise the limit: ulimit -v"


def test_a_file_that_cannot_be_mapped_is_not_called_damaged(tmp_path: Path):
    large = tmp_path / "mod.params"
    with large.open("wb") as file:
        file.truncate(1 << 27)
    lines = read_limited(large, tmp_path / "home")
    assert lines == 2 * [f"{large}: not enough memory", "  close other programs, or raise the limit: ulimit -v"]


def test_states_have_to_fit_into_the_control_group(unpacked: Path):
    signature = load_manifest(unpacked / MANIFEST, "mod.json").signature
    assert list(state_bytes(signature).values()) == [4 * ELEMENTS]
    check_memory(signature, "net", 4 * ELEMENTS)
    check_memory(signature, "net", None)
    with pytest.raises(
        MachineError, match=r"net: its states need 67\.1 MB of memory, and this process's control group has 1\.0 kB"
    ):
        check_memory(signature, "net", 1000)


def test_the_smallest_limit_of_all_groups_counts(tmp_path: Path):
    process, root = tmp_path / "cgroup", tmp_path / "groups"
    (root / "service" / "job").mkdir(parents=True)
    assert group_limit(process, root) is None
    process.write_text("0::/service/job\n")
    assert group_limit(process, root) is None
    (root / "service" / "job" / "memory.max").write_text("max\n")
    (root / "service" / "memory.max").write_text("2000\n")
    (root / "memory.max").write_text("3000\n")
    assert group_limit(process, root) == 2000
