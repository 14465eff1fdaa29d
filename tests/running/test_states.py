"""Packages that keep states: from run to run, in sessions, over steps, in every order."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import tvmake
from tests.requirements import need
from tvmake.errors import InputError

pytestmark = pytest.mark.usefixtures("own_home")

STEPS = 1000

NETWORK = """
<ir_version: 8, opset_import: ["" : 17]>
network (float[b, 4] x, float[b, 4] sum, float[b, past, 4] seen, float[b, 4] last)
    => (float[b, 4] next_sum, float[b, 4] mean, float[b, total, 4] now_seen, float[b, 4] before, float[b, 4] x_again)
<int64[1] one = {1}>
{
  next_sum = Add(sum, x)
  row = Unsqueeze(x, one)
  now_seen = Concat<axis = 1>(seen, row)
  mean = ReduceMean<axes = [1], keepdims = 0>(now_seen)
  before = Identity(last)
  x_again = Identity(x)
}
"""
"""A sum, a cache that grows, and the last input, which is a state without a copy."""

STATE = {"sum": "next_sum", "seen": "now_seen", "last": "x_again"}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    network = tmp_path_factory.mktemp("network") / "network.onnx"
    onnx.save(onnx.parser.parse_model(NETWORK), network)
    return network


@pytest.fixture(scope="module")
def package(file: Path) -> tvmake.Package:
    return tvmake.load(file, state=STATE).compile(shows_progress=False)


def inputs(count: int, seed: int = 0, rows: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, rows, 4)).astype("float32")


def test_the_caller_has_no_states(package: tvmake.Package):
    assert [spec.name for spec in package.inputs] == ["x"]
    assert [spec.name for spec in package.outputs] == ["mean", "before"]
    assert [state.name for state in package.states] == ["sum", "seen", "last"]
    assert "keeps 'sum' float32 [b, 4]" in repr(package)
    assert "state" in package._repr_html_()


def test_states_continue_from_run_to_run_and_restart_after_a_reset(package: tvmake.Package):
    for _ in range(2):
        x = inputs(40)
        for step, value in enumerate(x):
            outputs = package.run(value)
            np.testing.assert_allclose(outputs["mean"], x[: step + 1].mean(0), rtol=1e-4, atol=1e-6)
            assert np.array_equal(outputs["before"], x[step - 1] if step else np.zeros_like(value))
        package.reset()


def test_sessions_do_not_mix(package: tvmake.Package):
    sessions = [package.session() for _ in range(8)]
    given = [inputs(20, seed) for seed in range(8)]
    for step in range(20):
        for session, x in zip(sessions, given, strict=True):
            outputs = session.run(x=x[step])
            np.testing.assert_allclose(outputs["mean"], x[: step + 1].mean(0), rtol=1e-4, atol=1e-6)


def test_a_snapshot_continues_bit_for_bit_in_any_session(package: tvmake.Package):
    x = inputs(30)
    first, second = package.session(), package.session()
    fresh = first.snapshot()
    for value in x[:10]:
        first(value)
    middle = first.snapshot()
    expected = [first(value)["mean"] for value in x[10:]]
    second.restore(middle)
    assert second.snapshot() == middle
    assert all(np.array_equal(second(value)["mean"], want) for value, want in zip(x[10:], expected, strict=True))
    second.restore(fresh)
    assert np.array_equal(second(x[0])["before"], np.zeros_like(x[0]))
    with pytest.raises(InputError, match="damaged"):
        second.restore(middle[:-4])


def test_a_batch_that_the_states_do_not_have_is_refused_and_they_stay(package: tvmake.Package):
    session = package.session()
    x = inputs(2)
    session(x[0])
    with pytest.raises(InputError, match="b is 3 in 'x' and 2 in the states") as refused:
        session(inputs(1, rows=3)[0])
    assert refused.value.remedy == "use inputs of the size with which the states began, or `reset()`"
    assert np.array_equal(session(x[1])["before"], x[0])


def test_a_closed_package_has_no_more_sessions(file: Path):
    opened = tvmake.open(tvmake.load(file, state=STATE).compile(shows_progress=False).file)
    session = opened.session()
    opened.close()
    for run in (session.run, opened.run):
        with pytest.raises(InputError, match="is closed"):
            run(inputs(1)[0])
    with pytest.raises(InputError, match="is closed"):
        opened.session()


def test_a_package_equals_its_source_over_steps(package: tvmake.Package, file: Path):
    report = package.validate(tvmake.load(file, state=STATE), samples=50)
    assert report.passed
    assert package.validate({"before": np.zeros((1, 4), "float32")}, np.ones((1, 4), "float32")).passed


@pytest.mark.parametrize("target", ["opencl-generic", "adreno-830-texture"])
def test_states_stay_on_an_opencl_device(tmp_path: Path, target: str):
    need("PoCL")
    file = tmp_path / "network.onnx"
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    filter (float[1, 4, 6, 6] image, float[1, 4, 6, 6] mean) => (float[1, 4, 6, 6] y, float[1, 4, 6, 6] mean_next)
    <float share = {0.25}>
    { change = Sub(image, mean)  part = Mul(change, share)  mean_next = Add(mean, part)  y = Relu(mean_next) }
    """
    onnx.save(onnx.parser.parse_model(text), file)
    package = tvmake.load(file, state={"mean": "mean_next"}).compile(target, shows_progress=False)
    sessions, mean = [package.session(), package.session()], np.zeros((1, 4, 6, 6), "float32")
    for step in range(STEPS):
        image = np.random.default_rng(step).normal(size=mean.shape).astype("float32")
        mean = mean + (image - mean) * np.float32(0.25)
        for session in sessions:
            np.testing.assert_allclose(session(image)["y"], np.maximum(mean, 0), atol=1e-5)
        if step == STEPS // 2:
            sessions[1].restore(sessions[0].snapshot())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from tvmake.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_of_steps_takes_arrays_with_a_step_axis(package: tvmake.Package, tmp_path: Path):
    x = inputs(STEPS, rows=1)
    np.save(tmp_path / "x.npy", x)
    command = ("run", str(package.file), "-i", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "y.npz"))
    done = run(*command, "--steps", str(STEPS))
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "y.npz") as outputs:
        expected = np.cumsum(x, 0) / np.arange(1, STEPS + 1, dtype="float32")[:, None, None]
        np.testing.assert_allclose(outputs["mean"], expected, rtol=1e-3, atol=1e-5)
        assert np.array_equal(outputs["before"][1:], x[:-1])
    refused = run(*command, "--steps", "7")
    assert (refused.returncode, refused.stderr.splitlines()) == (
        1,
        [f"error: input 'x': has values for {STEPS} steps, not 7", f"  write --steps {STEPS}"],
    )


def test_compile_names_the_states_and_what_it_does_not_have(file: Path, tmp_path: Path):
    states = [word for pair in STATE.items() for word in ("--state", "=".join(pair))]
    done = run("compile", str(file), *states, "-o", str(tmp_path / "p.tar"))
    lines = done.stdout.splitlines()
    assert "  state sum: float32 [b, 4], kept from run to run" in lines
    copied = (
        "its size changes, so each run copies it: `--dim past=..SIZE` gives it a buffer of that size, extended in place"
    )
    assert f"  state seen: float32 [b, past, 4], kept from run to run; {copied}" in lines
    for option, line in (
        ("--state=sum=next", "error: --state sum=next: it has no output 'next' for the next value of state 'sum'"),
        ("--state=h=next_sum", "error: --state h=next_sum: it has no input 'h' for a state"),
        ("--state=h", "error: --state h: expected INPUT=OUTPUT"),
    ):
        refused = run("compile", str(file), option, "-o", str(tmp_path / "q.tar"))
        assert (refused.returncode != 0, (tmp_path / "q.tar").exists()) == (True, False)
        assert line in refused.stderr.splitlines()
        assert "state: {" not in refused.stderr
