"""Packages that keep states from run to run: tvmake-run, and programs in C++ and C."""

import ctypes
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tvmake
from tests.native import stateful
from tests.native.devices import request_file, run
from tests.native.test_abi import HEADERS, Tensor
from tests.native.test_runner import WORKER, inputs_file, outputs_of
from tvmake.artifact.package import REQUIRED, pack
from tvmake.device.interface import RunResult
from tvmake.device.store import put
from tvmake.storage.files import canonical_json

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def accumulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stateful.accumulator(tmp_path_factory.mktemp("accumulator"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stateful.cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def delay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stateful.delay(tmp_path_factory.mktemp("delay"))


@pytest.fixture(scope="module")
def cache_in_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stateful.cache_in_place(tmp_path_factory.mktemp("cache_in_place"))


# --- tvmake-run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["accumulator", "cache", "cache_in_place", "delay"])
def test_sequences_of_samples_give_the_python_workers_outputs_byte_for_byte(
    network: str, programs: Path, tmp_path: Path, request: pytest.FixtureRequest
):
    package: Path = request.getfixturevalue(network)
    shape = {"accumulator": (1, 4), "delay": (1, 4096)}.get(network, (1, 1, 2))
    random = np.random.default_rng(0)
    inputs = inputs_file(tmp_path / "in.npz", *(random.random(shape, "float32") for _ in range(7)))
    measurement = {"warmup": 1, "repeat": 2, "number": 3}
    asked = {"samples": 7, "steps": 3, "repeat_first": True, "measurement": measurement, "timed_steps": 3}
    described = request_file(tmp_path, asked)
    pack({name: package / name for name in REQUIRED}, tmp_path / "package.tar")
    stored = put(tmp_path / "package.tar", tmp_path / "store")
    arguments = [str(stored), str(described), str(inputs), str(tmp_path / "worker.json"), str(tmp_path / "worker.npz")]
    subprocess.run([sys.executable, "-c", WORKER, *arguments], check=True)
    done = run(
        [str(programs / "tvmake-run")], "--package", package, "--request", described, "--inputs", inputs,
        "--outputs", tmp_path / "native.npz", "--result", tmp_path / "native.json",
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "native.npz").read_bytes() == (tmp_path / "worker.npz").read_bytes()
    outputs = outputs_of(tmp_path / "native.npz", 8)
    assert np.array_equal(outputs[0], outputs[7]) and not np.array_equal(outputs[1], outputs[4])
    timing = RunResult.model_validate_json((tmp_path / "native.json").read_bytes()).timing
    assert len(timing.samples_ms) == 2
    assert [len(steps) for steps in timing.steps_ms] == [3, 3, 3]


def test_steps_divide_samples_into_sequences(accumulator: Path, programs: Path, tmp_path: Path):
    inputs = inputs_file(tmp_path / "in.npz", *(np.ones((1, 4), "float32") for _ in range(5)))
    for steps, expected in ((["--steps", 2], [1, 2, 1, 2, 1]), ([], [1, 2, 3, 4, 5])):
        done = run(
            [str(programs / "tvmake-run")], "--package", accumulator, "--inputs", inputs, "--samples", 5, *steps,
            "--outputs", tmp_path / "out.npz", "--runs", 1,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert [value[0, 0] for value in outputs_of(tmp_path / "out.npz", 5)] == expected


# --- C ---------------------------------------------------------------------------------------------------------------

BINDING = """
import ctypes, json, sys
import numpy as np
sys.path.insert(0, sys.argv[2])
from tests.native.test_states import Bound
bound = Bound(sys.argv[1])
results = []
"""


class Bound:
    """The functions for packages with states, from ctypes."""

    def __init__(self, library: str):
        self.library = ctypes.CDLL(library)
        self.library.tvmake_last_error.restype = ctypes.c_char_p
        self.library.tvmake_package_states.restype = ctypes.c_size_t

    def load(self, directory: str) -> "Session":
        package = ctypes.c_void_p()
        self.check(self.library.tvmake_package_load(directory.encode(), None, ctypes.byref(package)))
        return Session(self, package)

    def check(self, code: int) -> None:
        if code:
            raise RuntimeError(f"{code} {self.library.tvmake_last_error().decode()}")


class Session:
    def __init__(self, bound: Bound, package: ctypes.c_void_p):
        self.bound, self.library, self.package = bound, bound.library, package

    def new_session(self) -> "Session":
        session = ctypes.c_void_p()
        self.bound.check(self.library.tvmake_package_new_session(self.package, ctypes.byref(session)))
        return Session(self.bound, session)

    def run(self, value: np.ndarray) -> np.ndarray:
        shape = (ctypes.c_int64 * value.ndim)(*value.shape)
        data = value.ctypes.data_as(ctypes.c_void_p)
        self.bound.check(self.library.tvmake_package_set_input(self.package, 0, data, shape, value.ndim))
        self.bound.check(self.library.tvmake_package_run(self.package))
        tensor, data, size = Tensor(), ctypes.c_void_p(), ctypes.c_size_t()
        self.bound.check(
            self.library.tvmake_package_value(
                self.package, 0, ctypes.byref(tensor), ctypes.byref(data), ctypes.byref(size)
            )
        )
        return np.frombuffer(ctypes.string_at(data, size.value), "float32")

    def steps(self, first: int, last: int, shape: tuple[int, ...]) -> list[float]:
        """The first element of the outputs of runs on inputs of these numbers."""
        return [float(self.run(np.full(shape, value, "float32"))[0]) for value in range(first, last)]

    def states(self) -> list[tuple[str, str, list[int]]]:
        tensor = Tensor()
        facts = []
        for index in range(self.library.tvmake_package_states(self.package)):
            self.bound.check(self.library.tvmake_package_state(self.package, index, ctypes.byref(tensor)))
            facts.append(tensor.facts())
        return facts

    def reset(self) -> None:
        self.bound.check(self.library.tvmake_package_reset(self.package))

    def snapshot(self) -> bytes:
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.bound.check(self.library.tvmake_package_snapshot(self.package, ctypes.byref(data), ctypes.byref(size)))
        return ctypes.string_at(data, size.value)

    def restore(self, snapshot: bytes) -> None:
        self.bound.check(self.library.tvmake_package_restore(self.package, snapshot, ctypes.c_size_t(len(snapshot))))

    def problem(self, snapshot: bytes) -> str:
        """What a snapshot is refused for."""
        try:
            self.restore(snapshot)
        except RuntimeError as error:
            return str(error)
        return ""

    def free(self) -> None:
        self.library.tvmake_package_free(self.package)


@pytest.fixture
def use(library: Path) -> Callable[..., list]:
    """Run a script in a process of its own, as this one may have another TVM runtime in it."""

    def use(script: str, *arguments: object) -> list:
        command = [sys.executable, "-c", BINDING + script + "\nprint(json.dumps(results))", library, ROOT, *arguments]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return use


def test_states_last_from_run_to_run_until_a_reset(use: Callable[..., list], accumulator: Path):
    script = """
package = bound.load(sys.argv[3])
results += [package.states(), package.steps(1, 5, (1, 4))]
package.reset()
results.append(package.steps(1, 4, (1, 4)))
package.free()
"""
    assert use(script, accumulator) == [[["s", "float32", [1, 4]]], [1, 3, 6, 10], [1, 3, 6]]


def test_sessions_share_a_package_and_nothing_else(use: Callable[..., list], accumulator: Path):
    script = """
package = bound.load(sys.argv[3])
package.steps(1, 3, (1, 4))
first, second = package.new_session(), package.new_session()
for number in (5, 6):
    results += [first.steps(number, number + 1, (1, 4)), second.steps(10 * number, 10 * number + 1, (1, 4))]
results.append(package.steps(3, 4, (1, 4)))
package.free()
first.reset()
results += [first.steps(7, 8, (1, 4)), second.steps(70, 71, (1, 4))]
second.free()
results.append(first.steps(8, 9, (1, 4)))
first.free()
"""
    assert use(script, accumulator) == [[5], [50], [11], [110], [6], [7], [180], [15]]


def test_a_run_that_fails_leaves_the_states_and_other_sessions_runs_leave_the_inputs(
    use: Callable[..., list], accumulator: Path
):
    script = """
package = bound.load(sys.argv[3])
other = package.new_session()
try:
    bound.check(bound.library.tvmake_package_run(other.package))
except RuntimeError as error:
    results.append(str(error).rpartition(": ")[2])
package.steps(3, 4, (1, 4))
other.steps(100, 101, (1, 4))
bound.check(bound.library.tvmake_package_run(package.package))
results.append(package.steps(0, 1, (1, 4)))
"""
    assert use(script, accumulator) == ["input 'x' is not set", [6]]


def test_a_cache_grows_from_nothing(use: Callable[..., list], cache: Path):
    script = """
package = bound.load(sys.argv[3])
results.append(package.steps(1, 5, (1, 1, 2)))
results.append(json.loads(package.snapshot().split(b"\\n")[1])["states"])
package.reset()
results.append(package.steps(0, 3000, (1, 1, 2))[-1])
"""
    outputs, states, last = use(script, cache)
    assert outputs == [1, 3, 6, 10] and last == sum(range(3000))
    assert states == [{"dtype": "float32", "name": "past", "shape": [1, 4, 2]}]


def test_memory_does_not_grow_with_the_number_of_a_caches_lengths(use: Callable[..., list], tmp_path: Path):
    script = """
from pathlib import Path
def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
package = bound.load(sys.argv[3])
package.steps(0, 2, (1, 1, 1024))
before = resident_mb()
package.steps(0, 500, (1, 1, 1024))
results.append(resident_mb() - before)
"""
    (growth_mb,) = use(script, stateful.cache(tmp_path, 1024))
    assert growth_mb < 50  # with every length it would be 500 MB


def test_a_state_that_is_an_input_itself_keeps_its_value(use: Callable[..., list], delay: Path):
    script = "results.append(bound.load(sys.argv[3]).steps(1, 6, (1, 4096)))"
    assert use(script, delay) == [[1, 12, 123, 234, 345]]


def test_a_snapshot_continues_bit_for_bit_in_another_process(use: Callable[..., list], delay: Path, tmp_path: Path):
    taken = """
package = bound.load(sys.argv[3])
package.steps(1, 6, (1, 4096))
open(sys.argv[4], "wb").write(package.snapshot())
results.append(package.steps(6, 9, (1, 4096)))
"""
    continued = """
package = bound.load(sys.argv[3])
snapshot = open(sys.argv[4], "rb").read()
session = package.new_session()
session.restore(snapshot)
results += [session.snapshot() == snapshot, session.steps(6, 9, (1, 4096)), package.steps(6, 9, (1, 4096))]
"""
    (rest,) = use(taken, delay, tmp_path / "snapshot")
    assert use(continued, delay, tmp_path / "snapshot") == [True, rest, [6, 67, 678]]
    assert rest == [456, 567, 678]


def test_a_snapshot_has_the_format_of_the_python_interface(use: Callable[..., list], delay: Path, tmp_path: Path):
    script = """
package = bound.load(sys.argv[3])
for name in ("unused", "used"):
    open(f"{sys.argv[4]}/{name}", "wb").write(package.snapshot())
    package.steps(5, 7, (1, 4096))
"""
    use(script, delay, tmp_path)
    own = json.loads((delay / "mod.json").read_text())["own_sha256"]

    def snapshot(states: list[dict], data: bytes) -> bytes:
        header = {"package": own, "states": states, "sha256": hashlib.sha256(data).hexdigest()}
        return b"TVMAKE-STATE-1\n" + canonical_json(header).encode() + b"\n" + data

    specs = [{"name": name, "dtype": "float32", "shape": [1, 4096]} for name in "ab"]
    data = np.repeat(np.array([6, 5], "<f4"), 4096).tobytes()
    assert (tmp_path / "unused").read_bytes() == snapshot([], b"")
    assert (tmp_path / "used").read_bytes() == snapshot(specs, data)


def test_python_and_c_continue_from_each_others_snapshots(use: Callable[..., list], accumulator: Path, tmp_path: Path):
    script = """
package = bound.load(sys.argv[3])
package.restore(open(sys.argv[4] + "/python", "rb").read())
results.append(package.steps(3, 4, (1, 4)))
open(sys.argv[4] + "/c", "wb").write(package.snapshot())
"""
    pack({name: accumulator / name for name in REQUIRED}, tmp_path / "package.tar")
    package = tvmake.open(tmp_path / "package.tar", threads=1)
    for value in (1, 2):
        package.run(np.full((1, 4), value, "float32"))
    (tmp_path / "python").write_bytes(package.snapshot())
    assert use(script, accumulator, tmp_path) == [[6]]
    package.reset()
    package.restore((tmp_path / "c").read_bytes())
    assert package.snapshot() == (tmp_path / "c").read_bytes()
    assert package.run(np.full((1, 4), 4, "float32"))["y"].tolist() == [[10, 10, 10, 10]]


def test_snapshots_that_do_not_fit_are_refused_and_change_nothing(
    use: Callable[..., list], accumulator: Path, delay: Path
):
    script = """
package, other = bound.load(sys.argv[3]), bound.load(sys.argv[4])
package.steps(1, 3, (1, 4))
whole = package.snapshot()
other.steps(1, 3, (1, 4096))
results += [package.problem(value) for value in (other.snapshot(), whole[:-1], whole[:-1] + b"x", b"", whole[:40])]
results.append(package.steps(3, 4, (1, 4)))
results.append(package.problem(whole))
results.append(package.steps(3, 4, (1, 4)))
results.append(package.problem(bound.load(sys.argv[3]).snapshot()))
results.append(package.steps(3, 4, (1, 4)))
"""
    foreign, cut, altered, empty, short, after, fits, again, unused, begun = use(script, accumulator, delay)
    assert foreign.startswith("1 snapshot: belongs to another package: its sha256 begins with ")
    assert cut == "1 snapshot: is truncated: 15 bytes of states, expected 16\n  take it again"
    assert altered == "1 snapshot: is altered: its content differs from its own digest\n  take it again"
    assert empty == "1 snapshot: is not a snapshot of a package's states\n  take it again"
    assert short == "1 snapshot: is truncated: its header has no end\n  take it again"
    assert (after, fits, again, unused, begun) == ([6], "", [6], "", [3])


# --- C++ -------------------------------------------------------------------------------------------------------------

PROGRAM = """
#include <tvmake/package.h>

#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

namespace {

float Step(tvmake::Package& package, float value) {
  const std::vector<float> input(4, value);
  package.SetInput("x", input.data(), {1, 4});
  package.Run();
  return package.Output(0).as<float>()[0];
}

}  // namespace

int main(int, char** argv) {
  tvmake::Package package = tvmake::Package::Load(argv[1]);
  Step(package, 1);
  std::printf("%s %g\\n", package.states()[0].name.c_str(), Step(package, 2));
  const std::vector<uint8_t> snapshot = package.Snapshot();
  std::printf("%g\\n", Step(package, 3));
  package.Restore(snapshot);
  std::printf("%g\\n", Step(package, 4));
  package.Reset();
  std::printf("%g\\n", Step(package, 5));

  constexpr int kRuns = 500;
  std::vector<tvmake::Package> sessions;
  for (int session = 0; session < 4; ++session) sessions.push_back(package.NewSession());
  std::vector<float> sums(4);
  std::vector<std::thread> threads;
  for (int session = 0; session < 4; ++session) {
    threads.emplace_back([&, session] {
      for (int run = 0; run < kRuns; ++run) sums[session] = Step(sessions[session], static_cast<float>(session));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const float sum : sums) std::printf("%g ", sum);
}
"""


def test_sessions_of_several_threads_wait_for_each_other_in_cpp(library: Path, accumulator: Path, tmp_path: Path):
    (tmp_path / "use.cc").write_text(PROGRAM)
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", "use.cc", "-I", str(HEADERS)]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,-rpath-link," + str(library.parent), "-o", "use"]
    subprocess.run(command, check=True, cwd=tmp_path)
    done = run([str(tmp_path / "use")], accumulator)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["s", "3", "6", "7", "5", "0", "500", "1000", "1500"]


def test_a_runtime_that_is_too_old_for_a_package_says_so(accumulator: Path, programs: Path, tmp_path: Path):
    """The manifest's version is read before its digest."""
    directory = tmp_path / "later"
    shutil.copytree(accumulator, directory)
    manifest = json.loads((directory / "mod.json").read_text())
    (directory / "mod.json").write_text(json.dumps({**manifest, "schema_version": 7}))
    done = run([str(programs / "tvmake-run")], "--package", directory)
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [
            f"error: {directory}: mod.json has schema version 7, expected 2 to 5",
            "  rebuild the runtime with the tvmake that wrote the package: `tvmake runtime build`",
        ],
    )
