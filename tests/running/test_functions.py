"""Packages with several functions: one set of weights, states that functions share, and the commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvmake
from tests.children import WITHOUT_TORCH
from tests.native.devices import share_builds
from tests.requirements import need
from tests.running import functions
from tests.running.functions import Reference, tokens
from tvmake.errors import InputError

pytestmark = pytest.mark.usefixtures("own_home")

WEIGHTS = functions.weights()


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return functions.packages(tmp_path_factory.mktemp("networks"), WEIGHTS, **{"export.self_test": True})


@pytest.fixture(scope="module")
def file(parts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return functions.join(parts, tmp_path_factory.mktemp("joined") / "speech.tar")


@pytest.fixture
def package(file: Path) -> tvmake.Package:
    return tvmake.open(file, threads=1)


def test_a_function_is_a_package_and_several_have_no_inputs(package: tvmake.Package):
    assert package.functions == ("prefill", "decode")
    decode = package["decode"]
    assert isinstance(decode, tvmake.Package) and decode.functions == ()
    assert [spec.name for spec in decode.inputs] == ["token"]
    assert [spec.name for spec in decode.outputs] == ["summary", "count"]
    assert [state.name for state in decode.states] == ["cache", "steps"]
    assert decode.manifest.model == "decode"
    assert "with the functions prefill, decode" in repr(package) and "['decode']: 'token' int64 [1, 1]" in repr(decode)
    assert "prefill" in package._repr_html_() and "steps" in decode._repr_html_()
    for use in (
        lambda: package.run(tokens(0)),
        lambda: package(tokens(0)),
        lambda: package.session().run(tokens(0)),
        lambda: package.inputs,
        lambda: package.manifest,
        package.benchmark,
        lambda: package.validate({}),
    ):
        with pytest.raises(InputError) as refused:
            use()
        assert (refused.value.problem, refused.value.remedy) == (
            "has several functions: prefill, decode",
            "choose one: package['prefill']",
        )


def test_functions_that_do_not_exist_are_refused(package: tvmake.Package, parts: dict[str, Path]):
    with pytest.raises(InputError, match=r"no function 'encode'\n  its functions are prefill, decode"):
        package["encode"]
    with pytest.raises(InputError, match=r"no function 'encode'"):
        package.session()["encode"]
    for network in (package["decode"], tvmake.open(parts["decode"])):
        with pytest.raises(InputError, match="no function 'decode', only one network"):
            network["decode"]


def test_code_is_loaded_when_it_is_needed_and_shared_weights_are_the_same_memory(package: tvmake.Package):
    session = package.session()
    assert not any("_loaded" in package[name].__dict__ for name in package.functions)
    session["prefill"].run(tokens(0, 3))
    assert "_loaded" not in package["decode"].__dict__
    session["decode"].run(tokens(0))
    addresses = [{tensor.data_ptr() for tensor in package[name]._loaded.params} for name in package.functions]
    assert addresses[0] < addresses[1] and len(addresses[1]) == 2


def test_decode_continues_the_cache_that_prefill_wrote(package: tvmake.Package):
    for run in (package, package.session()):
        for seed in range(2):
            expected = Reference(WEIGHTS)
            given = tokens(seed, 7)
            np.testing.assert_allclose(run["prefill"](given)["summary"], expected.prefill(given), rtol=1e-4, atol=1e-4)
            for step in range(5):
                outputs = run["decode"].run(token=tokens(step))
                np.testing.assert_allclose(outputs["summary"], expected.decode(tokens(step)), rtol=1e-4, atol=1e-4)
                assert outputs["count"] == step + 1
            run.reset()


def test_eight_interleaved_sessions_do_not_mix(package: tvmake.Package):
    sessions = [package.session() for _ in range(8)]
    expected = [Reference(WEIGHTS) for _ in sessions]
    for step in range(12):
        for seed, (session, reference) in enumerate(zip(sessions, expected, strict=True)):
            name = "prefill" if (step + seed) % 3 == 0 else "decode"
            given = tokens(100 * seed + step, 1 + seed if name == "prefill" else 1)
            summary = session[name].run(given)["summary"]
            np.testing.assert_allclose(summary, getattr(reference, name)(given), rtol=1e-4, atol=1e-4)


def test_the_session_of_a_function_has_states_of_its_own(package: tvmake.Package):
    package["prefill"].run(tokens(0, 4))
    alone = package["decode"].session()
    expected = Reference(WEIGHTS).decode(tokens(1))
    np.testing.assert_allclose(alone.run(tokens(1))["summary"], expected, rtol=1e-4, atol=1e-4)
    assert "keeps 'cache', 'steps'" in repr(alone)


def test_a_snapshot_is_of_all_functions_and_of_the_package(package: tvmake.Package, parts: dict[str, Path]):
    session, other = package.session(), package.session()
    fresh = session.snapshot()
    session["prefill"].run(tokens(0, 4))
    begun = session.snapshot()
    session["decode"].run(tokens(1))
    middle = session.snapshot()
    expected = [session["decode"].run(tokens(step))["summary"] for step in range(3)]
    other["decode"].restore(middle)
    assert other.snapshot() == other["prefill"].snapshot() == middle
    assert all(np.array_equal(other["decode"].run(tokens(step))["summary"], expected[step]) for step in range(3))
    other.restore(begun)
    assert other.snapshot() == begun
    assert other["decode"].run(tokens(1))["count"] == 1
    other.restore(fresh)
    first = Reference(WEIGHTS).prefill(tokens(5, 2))
    np.testing.assert_allclose(other["prefill"].run(tokens(5, 2))["summary"], first, rtol=1e-4, atol=1e-4)
    for foreign in (tvmake.open(parts["decode"]).snapshot(), middle[:-4]):
        with pytest.raises(InputError, match=r"of another package|damaged"):
            other.restore(foreign)


def test_a_closed_package_has_closed_functions(file: Path):
    with tvmake.open(file) as opened:
        decode, session = opened["decode"], opened.session()
        decode.run(tokens(0))
    for use in (
        lambda: decode.run(tokens(0)),
        lambda: session["prefill"].run(tokens(0)),
        opened.session,
        decode.benchmark,
    ):
        with pytest.raises(InputError, match="is closed"):
            use()


def test_a_function_is_timed_and_validated_alone(package: tvmake.Package, parts: dict[str, Path]):
    decode = package["decode"]
    assert decode.benchmark(repeat=2, warmup=0).statistics.samples == 2
    expected = Reference(WEIGHTS).decode(tokens(3))
    assert decode.validate({"summary": expected}, tokens(3)).passed


def test_a_network_with_one_function_is_used_by_its_name_too(parts: dict[str, Path], tmp_path: Path):
    file = functions.join({"only": parts["prefill"]}, tmp_path / "one.tar")
    with tvmake.open(file) as package:
        expected = Reference(WEIGHTS).prefill(tokens(0, 3))
        np.testing.assert_allclose(package["only"].run(tokens(0, 3))["summary"], expected, rtol=1e-4, atol=1e-4)
    done = run("run", str(file), "--dim", "t=3", "--fill", "zeros")
    assert done.returncode == 0 and "summary" in done.stdout, done.stderr


MEMORY = """
import sys
from pathlib import Path
import numpy as np
import tvmake

def resident():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Rss:", "Swap:"))) / 1e3

package = tvmake.open(sys.argv[1], threads=1)
rows = int(sys.argv[2])
small = np.zeros((1, 1), "int64")
package["prefill"].run(small)
package["decode"].run(small)
before = resident()
session = package.session()
for begin in range(0, rows, 1 << 16):
    session["prefill"].run(np.arange(begin, min(begin + (1 << 16), rows))[None])
    session.reset()
    for row in range(begin, min(begin + (1 << 16), rows), 1 << 8):
        session["decode"].run(np.array([[row]]))
    session.reset()
print(resident() - before)
"""


def test_functions_over_large_weights_take_one_copy_of_memory(tmp_path: Path):
    rows = 350_000  # 67 MB
    parts = functions.packages(tmp_path, functions.weights(rows))
    file = functions.join(parts, tmp_path / "large.tar")
    command = [sys.executable, "-c", WITHOUT_TORCH + MEMORY, str(file), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    copy_mb = rows * functions.WIDTH * 4 / 1e6
    assert float(done.stdout) < 2 * copy_mb  # with a run's outputs, 13 MB each; two copies would be 2.4
    assert file.stat().st_size < 1.1 * copy_mb * 1e6


def test_weights_are_sent_to_an_opencl_device_once(tmp_path: Path):
    need("PoCL")
    share_builds(Path(os.environ["TVMAKE_HOME"]))
    parts = functions.packages(tmp_path, WEIGHTS, "opencl-generic")
    package = tvmake.open(functions.join(parts, tmp_path / "speech.tar"))
    session, expected = package.session(), Reference(WEIGHTS)
    np.testing.assert_allclose(
        session["prefill"].run(tokens(0, 4))["summary"], expected.prefill(tokens(0, 4)), rtol=1e-4, atol=1e-4
    )
    for step in range(3):
        np.testing.assert_allclose(
            session["decode"].run(tokens(step))["summary"], expected.decode(tokens(step)), rtol=1e-4, atol=1e-4
        )
    (shared,) = set(map(id, package["prefill"]._loaded.params)) & set(map(id, package["decode"]._loaded.params))
    assert shared
    restored = package.session()
    restored.restore(session.snapshot())
    assert restored.snapshot() == session.snapshot()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tvmake.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_runs_a_function_over_steps(file: Path, tmp_path: Path):
    given = np.stack([tokens(step) for step in range(4)])
    np.save(tmp_path / "token.npy", given)
    done = run(
        "run", str(file), "--function", "decode", "-i", f"token={tmp_path / 'token.npy'}", "--steps", "4", "-o", str(tmp_path / "y.npz")
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reference = Reference(WEIGHTS)
    expected = [reference.decode(token) for token in given]
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_allclose(outputs["summary"], np.stack(expected), rtol=1e-4, atol=1e-4)
        assert outputs["count"].ravel().tolist() == [1, 2, 3, 4]


def test_the_command_lists_functions_where_one_has_to_be_named(file: Path, parts: dict[str, Path]):
    for options, lines in (
        ([str(file)], [f"error: {file}: has several functions: prefill, decode", "  name one: --function prefill"]),
        (
            [str(file), "--function", "encode"],
            [f"error: {file}: has no function 'encode'", "  its functions are prefill, decode"],
        ),
        (
            [str(parts["decode"]), "--function", "decode"],
            [f"error: {parts['decode']}: has no function 'decode', only one network", "  omit --function"],
        ),
    ):
        done = run("run", *options)
        assert (done.returncode, done.stderr.splitlines()) == (1, lines)


def test_the_self_test_runs_those_of_all_functions(file: Path, parts: dict[str, Path], tmp_path: Path):
    done = run("run", str(file), "--self-test")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("function")] == ["function prefill", "function decode"]
    assert sum("self-test passed" in line for line in lines) == 2
    values = json.loads(run("run", str(file), "--self-test", "--json").stdout)
    assert values["passed"] and list(values["functions"]) == ["prefill", "decode"]
    one = run("run", str(file), "--self-test", "--function", "decode")
    assert one.returncode == 0 and "prefill" not in one.stdout


def test_show_lists_functions_and_what_they_share(file: Path, parts: dict[str, Path]):
    done = run("show", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [
        "function prefill: weights 38.4 kB shared, 0.0 kB its own",
        "  input tokens: int64 [1, t]",
        "  output summary: float32 [1, 48]",
        "  state cache: float32 [1, past, 48], shared with decode",
        "function decode: weights 38.4 kB shared, 9.2 kB its own",
        "  input token: int64 [1, 1]",
        "  output summary: float32 [1, 48]",
        "  output count: float32 [1, 1]",
        "  state cache: float32 [1, past, 48], shared with prefill",
        "  state steps: float32 [1, 1]",
    ]
    values = json.loads(run("show", str(file), "--json").stdout)
    assert values["functions"]["decode"]["shared_weight_bytes"] == WEIGHTS["table"].nbytes
    assert values["weight_bytes"] == sum(value.nbytes for value in WEIGHTS.values())
    single = run("show", str(parts["prefill"]))
    assert single.stdout.splitlines()[1] == "  input tokens: int64 [1, t]"


def test_functions_are_verified_signed_and_pushed(file: Path, parts: dict[str, Path], tmp_path: Path):
    done = run("verify", str(file))
    assert done.returncode == 0 and "function decode: module.json" in done.stdout, done.stderr
    assert json.loads(run("verify", str(file), "--json").stdout)[0]["functions"]["prefill"]["network"]
    module = parts["decode"].with_name("module.json")
    assert run("verify", str(file), "--from", str(module)).returncode == (0 if module.is_file() else 1)
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    signed = tmp_path / "signed.tar"
    signed.write_bytes(file.read_bytes())
    assert run("sign", str(signed), "--key", str(key)).returncode == 0
    assert run("verify", str(signed), "--key", f"{key}.pub").returncode == 0
    pushed = run("device", "push", "local", str(file), "--json")
    assert len(json.loads(pushed.stdout)) == 2, pushed.stderr
