"""`tvmake-run --self-test` judges as `tvmake run --self-test` does, without Python."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.codegen.conftest import Transformed
from tests.native import stateful
from tests.native.devices import run
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.running.self_tests import OTHER_CODE, altered, cut_to_half, package_with_samples, rewritten, samples_of
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import LIBRARY, SELF_TEST, WEIGHTS, inspect, unpack
from tvmake.cli import run as command
from tvmake.config.export import SelfTest
from tvmake.validate.reference.stored import ReferenceSet

pytestmark = pytest.mark.usefixtures("shared_servers")


@pytest.fixture
def runner(programs: Path) -> list[str]:
    return [str(programs / "tvmake-run")]


@pytest.fixture(scope="module")
def expected(static_net: Transformed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples_of(static_net, tmp_path_factory.mktemp("samples") / "self_test.npz")


def unpacked(package: Path, directory: Path) -> Path:
    directory.mkdir()
    unpack(package, directory)
    return directory


@pytest.mark.parametrize("factor", [1, 1.0001, 1.5, float("inf")])
def test_lines_and_verdict_are_those_of_tvmake_run(
    factor: float,
    runner: list[str],
    static_net: Transformed,
    expected: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    package = package_with_samples(static_net, tmp_path, altered(expected, tmp_path / "other.npz", factor))
    code = command(["run", str(package), "--self-test"])
    *lines, verdict = capfd.readouterr().out.splitlines() if code == 0 else [*capfd.readouterr().out.splitlines(), ""]
    done = run(runner, "--package", unpacked(package, tmp_path / "p"), "--self-test")
    assert done.returncode == code == (0 if factor < 1.1 else 4), done.stderr
    assert done.stdout.splitlines()[: len(lines)] == lines
    if code:
        assert "self-test failed: 2 of 2 outputs of 2 samples are wrong" in done.stderr
    else:
        assert done.stdout.splitlines()[-1] == verdict.replace(" on 'local'", "")


def test_dynamic_dimensions_have_the_sizes_of_the_samples(runner: list[str], dynamic_net: Transformed, tmp_path: Path):
    known = samples_of(dynamic_net, tmp_path / "self_test.npz", {"n": 2, "m": 3})
    package = package_with_samples(dynamic_net, tmp_path, known)
    done = run(runner, "--package", unpacked(package, tmp_path / "p"), "--self-test")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_samples_of_a_package_with_states_are_one_sequence(runner: list[str], tmp_path: Path):
    network = stateful.accumulator_network(tmp_path)
    known = samples_of(network, tmp_path / "self_test.npz", test=SelfTest(samples=4))
    first, *_, last = (sample.outputs["y"] - sample.inputs["x"] for sample in ReferenceSet(known))
    assert not first.any() and last.any()
    done = run(
        runner, "--package", unpacked(package_with_samples(network, tmp_path, known), tmp_path / "p"), "--self-test"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("self-test passed: 4 outputs of 4 samples")


def test_a_package_without_samples_and_damaged_ones_are_refused(
    runner: list[str], package: Path, static_net: Transformed, expected: Path, tmp_path: Path
):
    done = run(runner, "--package", package, "--self-test")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {package}: has no self-test\n  rebuild it with")
    directory = unpacked(package_with_samples(static_net, tmp_path, expected), tmp_path / "p")
    (directory / SELF_TEST).write_bytes((directory / SELF_TEST).read_bytes()[:-1] + b"?")
    done = run(runner, "--package", directory, "--self-test")
    assert done.returncode == 1
    assert "self_test.npz is altered: its sha256 differs from mod.json's" in done.stderr


def test_a_goal_of_a_later_version_is_refused_not_ignored(
    runner: list[str], static_net: Transformed, expected: Path, tmp_path: Path
):
    package = package_with_samples(static_net, tmp_path, expected)
    manifest = inspect(package)
    assert manifest.self_test is not None
    later = manifest.self_test.model_copy(update={"goals": {"beauty": 1.0}})
    rewritten(package, tmp_path / "p", manifest.model_copy(update={"self_test": later}))
    done = run(runner, "--package", tmp_path / "p", "--self-test")
    assert done.returncode == 1
    assert "the goal 'beauty' is not known to this program" in done.stderr


def test_more_samples_than_there_are_is_one_clear_line(
    runner: list[str], static_net: Transformed, expected: Path, tmp_path: Path
):
    package = package_with_samples(static_net, tmp_path, expected)
    manifest = inspect(package)
    assert manifest.self_test is not None
    more = manifest.self_test.model_copy(update={"samples": 9})
    rewritten(package, tmp_path / "p", manifest.model_copy(update={"self_test": more}))
    done = run(runner, "--package", tmp_path / "p", "--self-test")
    assert done.returncode == 1
    assert "sample 2 lacks input 'x'" in done.stderr


def test_its_json_is_the_manifests(static_net: Transformed, expected: Path, tmp_path: Path):
    directory = unpacked(package_with_samples(static_net, tmp_path, expected), tmp_path / "p")
    described = json.loads((directory / "mod.json").read_text())["self_test"]
    assert described["samples"] == 2
    assert described["inputs"] == "random"


@pytest.mark.parametrize(("forgery", "words"), OTHER_CODE)
def test_a_manifest_of_other_code_is_refused_in_the_words_of_tvmake_run(
    forgery: Callable[[Manifest], dict[str, object]],
    words: str,
    runner: list[str],
    static_net: Transformed,
    expected: Path,
    tmp_path: Path,
):
    package = package_with_samples(static_net, tmp_path, expected)
    rewritten(package, tmp_path / "p", inspect(package).model_copy(update=forgery(inspect(package))))
    for way in (["--self-test"], ["--runs", 1]):
        done = run(runner, "--package", tmp_path / "p", *way)
        assert done.returncode == 1 and words in done.stderr, (way, done.stderr)


def test_an_input_that_the_code_declares_differently_is_named(
    runner: list[str], static_net: Transformed, expected: Path, tmp_path: Path
):
    package = package_with_samples(static_net, tmp_path, expected)
    manifest = inspect(package)
    (known,) = manifest.signature.inputs
    inputs = (known.model_copy(update={"shape": (2, *known.shape[1:])}),)
    signature = manifest.signature.model_copy(update={"inputs": inputs})
    rewritten(package, tmp_path / "p", manifest.model_copy(update={"signature": signature}))
    done = run(runner, "--package", tmp_path / "p", "--runs", 1)
    problem, remedy = done.stderr.splitlines()
    assert done.returncode == 1
    assert problem == f"error: {tmp_path}/p: mod.so takes 'x' as float32[1, 3, 8, 8], its manifest declares otherwise"
    assert remedy.startswith("  rebuild the package")


def test_weights_that_are_cut_short_are_refused(
    runner: list[str], static_net: Transformed, expected: Path, tmp_path: Path
):
    cut_to_half(package_with_samples(static_net, tmp_path, expected), tmp_path / "p", WEIGHTS)
    done = run(runner, "--package", tmp_path / "p", "--self-test")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/p: mod.params is damaged: it is cut short\n  rebuild the package")


def test_a_library_that_is_cut_short_is_refused_before_it_is_loaded(
    runner: list[str], static_net: Transformed, expected: Path, tmp_path: Path
):
    cut_to_half(package_with_samples(static_net, tmp_path, expected), tmp_path / "p", LIBRARY)
    done = run(runner, "--package", tmp_path / "p", "--self-test")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/p: mod.so is cut short: it has ")
    assert "rebuild the package" in done.stderr
