"""Packages with several functions: tvmake-run, and programs in C, C++ and Java."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tvmake
from tests.native.devices import run
from tests.native.java_programs import LIBRARY, PROGRAMS, compiled, java, native_libraries, sources
from tests.native.test_abi import HEADERS
from tests.running import functions
from tests.running.functions import Reference, tokens
from tvmake.artifact.package import unpack
from tvmake.errors import InputError

ROOT = Path(__file__).resolve().parents[2]

WEIGHTS = functions.weights()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("functions")
    parts = functions.packages(directory, WEIGHTS, **{"export.self_test": True})
    return functions.join(parts, directory / "speech.tar")


@pytest.fixture(scope="module")
def speech(file: Path) -> Path:
    """The package, unpacked."""
    directory = file.with_name("speech")
    directory.mkdir()
    unpack(file, directory)
    return directory


@pytest.fixture(scope="module")
def expected() -> dict[str, list[float]]:
    """The first elements of the summaries of a prefill of 1, 2 and 3 and decodes of 4, 5 and 6, and of decodes alone."""
    both, alone = Reference(WEIGHTS), Reference(WEIGHTS)
    prefill = [float(both.prefill(np.array([[1, 2, 3]]))[0, 0])]
    words = [np.array([[word]]) for word in (4, 5, 6)]
    return {
        "session": [*prefill, *(float(both.decode(word)[0, 0]) for word in words)],
        "alone": [float(alone.decode(word)[0, 0]) for word in words],
    }


def close(actual: list[float], expected: list[float]) -> bool:
    return len(actual) == len(expected) and bool(np.allclose(actual, expected, rtol=1e-4, atol=1e-4))


# --- tvmake-run ------------------------------------------------------------------------------------------------------


def test_the_runner_runs_a_function_and_lists_them(speech: Path, programs: Path, tmp_path: Path):
    runner = [str(programs / "tvmake-run")]
    given = [tokens(step) for step in range(4)]
    np.savez(tmp_path / "in.npz", **{f"input/token/{number:05}": value for number, value in enumerate(given)})
    done = run(
        runner, "--package", speech, "--function", "decode", "--inputs", tmp_path / "in.npz", "--samples", 4,
        "--outputs", tmp_path / "out.npz", "--runs", 1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reference = Reference(WEIGHTS)
    with np.load(tmp_path / "out.npz") as outputs:
        for number, value in enumerate(given):
            np.testing.assert_allclose(
                outputs[f"output/summary/{number:05}"], reference.decode(value), rtol=1e-4, atol=1e-4
            )
    for options, lines in (
        ([], [f"error: {speech}: has several functions: prefill, decode", "  choose one: --function NAME"]),
        (
            ["--function", "encode"],
            [f"error: {speech}: has no function 'encode'", "  its functions are prefill, decode"],
        ),
    ):
        done = run(runner, "--package", speech, *options)
        assert (done.returncode, done.stderr.splitlines()) == (1, lines)


def test_the_runner_tests_all_functions_as_the_command_does(file: Path, speech: Path, programs: Path, tmp_path: Path):
    runner = [str(programs / "tvmake-run")]
    command = [str(Path(sys.executable).with_name("tvmake"))]
    ours = run(command, "run", file, "--self-test", HOME=str(tmp_path), TVMAKE_HOME=str(tmp_path / "home"))
    theirs = run(runner, "--package", speech, "--self-test")
    assert ours.returncode == theirs.returncode == 0, ours.stderr + theirs.stderr
    assert theirs.stdout == ours.stdout.replace(" on 'local'", "")
    one = run(runner, "--package", speech, "--self-test", "--function", "decode")
    assert one.returncode == 0 and "function prefill" not in one.stdout and "function decode" in one.stdout


def test_damaged_functions_are_refused_before_anything_is_loaded(speech: Path, programs: Path, tmp_path: Path):
    runner = [str(programs / "tvmake-run")]
    directory = tmp_path / "speech"

    def problem() -> str:
        done = run(runner, "--package", directory, "--function", "prefill")
        assert done.returncode == 1
        return done.stderr.splitlines()[0].removeprefix(f"error: {directory}: ")

    for name, change, text in (
        ("decode/mod.so", lambda path: path.write_bytes(path.read_bytes()[:-1]), r"decode/mod\.so is truncated: .*"),
        ("decode/mod.json", lambda path: path.write_bytes(b"{}"), r"decode/mod\.json is truncated: .*"),
        ("decode", shutil.rmtree, r"decode/[\w.]+ is missing"),
        ("mod.params", lambda path: path.unlink(), r"mod\.params is missing"),
    ):
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(speech, directory)
        change(directory / name)
        assert re.fullmatch(text, problem()), problem()


# --- C ---------------------------------------------------------------------------------------------------------------

BINDING = """
import ctypes, json, sys
import numpy as np
sys.path.insert(0, sys.argv[2])
from tests.native.test_functions import Functions
from tests.native.test_states import Bound
bound = Bound(sys.argv[1])
package = bound.load(sys.argv[3])
results = []

def decode(session, *words):
    return [float(session.run(np.array([[word]]))[0]) for word in words]
"""


class Functions:
    """The functions of a loaded package, from ctypes."""

    def __init__(self, session):
        self.session, self.library = session, session.library

    def __getitem__(self, name: str):
        import ctypes

        function = ctypes.c_void_p()
        self.session.bound.check(
            self.library.tvmake_package_function(self.session.package, name.encode(), ctypes.byref(function))
        )
        return type(self.session)(self.session.bound, function)

    def names(self) -> list[str]:
        import ctypes

        self.library.tvmake_package_functions.restype = ctypes.c_size_t
        names = []
        for index in range(self.library.tvmake_package_functions(self.session.package)):
            name = ctypes.c_char_p()
            index = ctypes.c_size_t(index)
            self.session.bound.check(
                self.library.tvmake_package_function_name(self.session.package, index, ctypes.byref(name))
            )
            names.append(name.value.decode())
        return names


@pytest.fixture
def use(library: Path, speech: Path) -> Callable[..., list]:
    """Run a script in a process of its own, as this one may have another TVM runtime in it."""

    def use(script: str, *arguments: object) -> list:
        code = BINDING + script + "\nprint(json.dumps(results))"
        command = [sys.executable, "-c", code, library, ROOT, speech, *arguments]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return use


def test_functions_share_states_in_c(use: Callable[..., list], expected: dict[str, list[float]]):
    script = """
functions = Functions(package)
prefill, two = functions["prefill"], functions["decode"]
results += [functions.names(), Functions(two).names(), len(package.states()), two.states()]
results.append([float(prefill.run(np.array([[1, 2, 3]]))[0]), *decode(two, 4, 5, 6)])
alone = two.new_session()
results.append(decode(alone, 4, 5, 6))
package.free()
two.reset()
results.append([float(prefill.run(np.array([[1, 2, 3]]))[0]), *decode(two, 4, 5, 6)])
"""
    names, none, count, states, first, alone, again = use(script)
    assert (names, none, count) == (["prefill", "decode"], [], 0)
    assert states == [["cache", "float32", [1, -1, functions.WIDTH]], ["steps", "float32", [1, 1]]]
    assert close(first, expected["session"]) and close(again, first) and close(alone, expected["alone"])


def test_what_is_not_a_function_is_refused_in_c(use: Callable[..., list]):
    script = """
def problem(call):
    try:
        call()
    except RuntimeError as error:
        results.append(str(error).partition(": ")[2])

functions = Functions(package)
problem(lambda: functions["encode"])
problem(lambda: functions[""])
problem(lambda: functions["decode"].__class__ and Functions(functions["decode"])["decode"])
problem(lambda: bound.check(bound.library.tvmake_package_run(package.package)))
problem(lambda: package.run(np.array([[1]])))
problem(lambda: bound.check(bound.library.tvmake_package_run(functions["decode"].package)))
"""
    several = "has several functions: prefill, decode\n  choose one: Function(name)"
    assert use(script) == [
        "has no function 'encode'\n  its functions are prefill, decode",
        "has no function ''\n  choose one: Function(name)",
        "has no function 'decode'\n  it is one network",
        several,
        several,
        "input 'token' is not set",
    ]


def test_eight_interleaved_sessions_do_not_mix_in_c(use: Callable[..., list]):
    script = """
sessions = [Functions(package.new_session()) for _ in range(8)]
handles = [{name: session[name] for name in ("prefill", "decode")} for session in sessions]
for step in range(9):
    for seed in range(8):
        if (step + seed) % 3 == 0:
            value = np.arange(seed + step, seed + step + 2)[None]
            results.append(float(handles[seed]["prefill"].run(value)[0]))
        else:
            results += decode(handles[seed]["decode"], seed * step)
"""
    references = [Reference(WEIGHTS) for _ in range(8)]
    wanted = []
    for step in range(9):
        for seed in range(8):
            if (step + seed) % 3 == 0:
                value = references[seed].prefill(np.arange(seed + step, seed + step + 2)[None])
            else:
                value = references[seed].decode(np.array([[seed * step]]))
            wanted.append(float(value[0, 0]))
    assert close(use(script), wanted)


@pytest.mark.parametrize("begun", ["prefill", "both"])
def test_python_and_c_continue_from_each_others_snapshots(
    use: Callable[..., list], file: Path, tmp_path: Path, begun: str, expected: dict[str, list[float]]
):
    script = """
functions = Functions(package)
functions["decode"].restore(open(sys.argv[4] + "/python", "rb").read())
open(sys.argv[4] + "/same", "wb").write(package.snapshot())
results += decode(functions["decode"], 5)
open(sys.argv[4] + "/c", "wb").write(functions["prefill"].snapshot())
"""
    with tvmake.open(file, threads=1) as package:
        package["prefill"].run(np.array([[1, 2, 3]]) if begun == "both" else np.array([[1, 2, 3, 3]]))
        if begun == "both":
            package["decode"].run(np.array([[4]]))
        (tmp_path / "python").write_bytes(package.snapshot())
        session = package.session()
        session.restore(package.snapshot())
        wanted = float(session["decode"].run(np.array([[5]]))["summary"][0, 0])
        assert close(use(script, tmp_path), [wanted])
        assert (tmp_path / "same").read_bytes() == (tmp_path / "python").read_bytes()
        session.restore((tmp_path / "c").read_bytes())
        assert session.snapshot() == (tmp_path / "c").read_bytes()
        if begun == "both":
            value = float(session["decode"].run(np.array([[6]]))["summary"][0, 0])
            assert close([value], expected["session"][3:])
        with pytest.raises(InputError, match="damaged"):
            session.restore((tmp_path / "c").read_bytes()[:-1])


MEMORY = """
from pathlib import Path

def resident():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Rss:", "Swap:"))) / 1e3

rows = int(sys.argv[4])
functions = Functions(package)
handles = {name: functions[name] for name in ("prefill", "decode")}
for name in handles:
    handles[name].run(np.array([[0]]))
before = resident()
for begin in range(0, rows, 1 << 15):
    handles["prefill"].run(np.arange(begin, min(begin + (1 << 15), rows))[None])
    handles["prefill"].reset()
    for row in range(begin, min(begin + (1 << 15), rows), 1 << 8):
        handles["decode"].run(np.array([[row]]))
    handles["decode"].reset()
results.append(resident() - before)
"""


def test_functions_over_large_weights_take_one_copy_of_memory(library: Path, tmp_path: Path):
    rows = 350_000  # 67 MB
    parts = functions.packages(tmp_path, functions.weights(rows))
    directory = tmp_path / "large"
    directory.mkdir()
    unpack(functions.join(parts, tmp_path / "large.tar"), directory)
    code = BINDING + MEMORY + "\nprint(json.dumps(results))"
    command = [sys.executable, "-c", code, library, ROOT, directory, rows]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0] < 2 * rows * functions.WIDTH * 4 / 1e6


# --- C++ -------------------------------------------------------------------------------------------------------------

PROGRAM = """
#include <tvmake/package.h>

#include <cstdio>
#include <thread>
#include <vector>

namespace {

float Run(tvmake::Package& function, const std::vector<int64_t>& tokens) {
  function.SetInput(0, tokens.data(), {1, static_cast<int64_t>(tokens.size())});
  function.Run();
  return function.Output(0).as<float>()[0];
}

}  // namespace

int main(int, char** argv) {
  tvmake::Package package = tvmake::Package::Load(argv[1]);
  for (const std::string& name : package.functions()) std::printf("%s ", name.c_str());
  try {
    package.Run();
  } catch (const tvmake::Error& error) {
    std::printf("refused ");
  }
  tvmake::Package prefill = package.Function("prefill"), decode = package.Function("decode");
  std::printf("%s ", decode.states()[1].name.c_str());
  const std::vector<uint8_t> fresh = package.Snapshot();
  std::printf("%.6g ", Run(prefill, {1, 2, 3}));
  for (int64_t token = 4; token < 7; ++token) std::printf("%.6g ", Run(decode, {token}));
  decode.Restore(fresh);
  for (int64_t token = 4; token < 7; ++token) std::printf("%.6g ", Run(decode, {token}));

  std::vector<tvmake::Package> sessions;
  for (int session = 0; session < 4; ++session) sessions.push_back(package.NewSession());
  std::vector<float> last(4);
  std::vector<std::thread> threads;
  for (int session = 0; session < 4; ++session) {
    threads.emplace_back([&, session] {
      tvmake::Package first = sessions[session].Function("prefill"), second = sessions[session].Function("decode");
      for (int round = 0; round < 50; ++round) {
        sessions[session].Reset();
        Run(first, {1, 2, 3});
        for (int64_t token = 4; token < 7; ++token) last[session] = Run(second, {token});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const float value : last) std::printf("%.6g ", value);
}
"""


def test_functions_and_sessions_of_several_threads_in_cpp(
    library: Path, speech: Path, expected: dict[str, list[float]], tmp_path: Path
):
    (tmp_path / "use.cc").write_text(PROGRAM)
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", "use.cc", "-I", str(HEADERS)]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,-rpath-link," + str(library.parent), "-o", "use"]
    subprocess.run(command, check=True, cwd=tmp_path)
    done = run([str(tmp_path / "use")], speech)
    assert done.returncode == 0, done.stderr
    names, values = done.stdout.split()[:4], list(map(float, done.stdout.split()[4:]))
    assert names == ["prefill", "decode", "refused", "steps"]
    assert close(values, [*expected["session"], *expected["alone"], *[expected["session"][-1]] * 4])


# --- Java ------------------------------------------------------------------------------------------------------------


def test_functions_in_java(programs: Path, speech: Path, expected: dict[str, list[float]], tmp_path: Path):
    classes = compiled(sources(LIBRARY, PROGRAMS / "functions"), tmp_path)
    (tmp_path / "libraries").mkdir()
    libraries = native_libraries(programs, tmp_path / "libraries")
    done = java(classes, libraries, "Functions", speech, tmp_path / "app", options=("-Xcheck:jni",))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "WARNING" not in line]
    names, *values = lines[:4]
    assert names == "[prefill, decode] [] [] ['cache' float32 [1, ?, 48], 'steps' float32 [1, 1]]"
    wanted = [expected["session"], expected["alone"], expected["session"]]
    assert all(close(list(map(float, line.split())), row) for line, row in zip(values, wanted, strict=True)), lines
    assert lines[4:] == [
        f"INPUT {speech}: has several functions: prefill, decode",
        "  choose one: function(name)",
        f"INPUT {speech}: has no function 'encode'",
        "  its functions are prefill, decode",
        f"INPUT {speech}: the package is closed",
        "unpacked 8 [prefill, decode]",
    ]
