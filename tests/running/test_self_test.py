"""`tvmake run --self-test`: a package's own samples, against what the original framework made of them."""

import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import tvmake
from tests.codegen.conftest import Transformed, dynamic_net, static_net  # noqa: F401  # fixtures
from tests.native.devices import share_builds
from tests.native.opencl_device import require_opencl
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.running.self_tests import (
    OTHER_CODE,
    altered,
    arrays,
    cut_to_half,
    package_with_samples,
    rewritten,
    samples_of,
)
from tvmake.artifact import stage_json
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.manifest import SelfTest as Described
from tvmake.artifact.package import LIBRARY, MANIFEST, SELF_TEST, WEIGHTS, inspect, load_manifest, pack, unpack
from tvmake.artifact.signature import TensorSpec
from tvmake.artifact.tensor_file import member, write_array
from tvmake.cli import run as command
from tvmake.config.export import ExportOptions, SelfTest
from tvmake.config.requests.referencing import SelfTestRequest
from tvmake.config.root import Config
from tvmake.config.validation import DEFAULT_GOALS, Goals
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.plan.plan import Plan
from tvmake.provenance.check import check_package
from tvmake.provenance.statement import with_files
from tvmake.running.self_test import check_self_test
from tvmake.stages.model.import_model import import_model
from tvmake.stages.package.contents import self_test_goals
from tvmake.stages.package.self_test import self_test

pytestmark = pytest.mark.usefixtures("shared_servers")


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    share_builds(tmp_path / "home")
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def expected(static_net: Transformed, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    return samples_of(static_net, tmp_path_factory.mktemp("samples") / "self_test.npz")


@pytest.fixture(scope="module")
def package(static_net: Transformed, expected: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    return package_with_samples(static_net, tmp_path_factory.mktemp("tested"), expected)


def test_each_output_of_each_sample_has_a_line_with_its_error_and_the_goal(
    package: Path, capfd: pytest.CaptureFixture[str]
):
    assert command(["run", str(package), "--self-test"]) == 0
    first, second, verdict = capfd.readouterr().out.splitlines()
    assert first.startswith("sample 0  y  SQNR ") and first.endswith("  ok")
    assert " dB (goal 60), largest error " in first and " of the RMS (goal 0.01)" in first
    assert second.startswith("sample 1  y  ")
    assert verdict.startswith("self-test passed on 'local': 2 outputs of 2 samples, against onnxruntime ")


def test_a_wrong_output_is_named_and_ends_with_4(
    static_net: Transformed,  # noqa: F811
    expected: Path,
    workspace: Path,
    capfd: pytest.CaptureFixture[str],
):
    wrong = package_with_samples(static_net, workspace, altered(expected, workspace / "other.npz"))
    assert command(["run", str(wrong), "--self-test"]) == 4
    printed, errors = capfd.readouterr()
    assert printed.count("WRONG: misses max_abs_rms, sqnr_db") == 2
    assert "self-test failed on 'local': 2 of 2 outputs of 2 samples are wrong" in errors
    assert "Traceback" not in errors
    assert command(["run", str(wrong), "--self-test", "--json"]) == 4
    report = json.loads(capfd.readouterr().out)
    assert not report["passed"]
    assert [entry["missed"][0]["goal"] for entry in report["outputs"]] == ["max_abs_rms"] * 2


def test_everything_is_in_the_json(package: Path, capfd: pytest.CaptureFixture[str]):
    assert command(["run", str(package), "--self-test", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert (report["passed"], report["device"], report["self_test"]["samples"]) == (True, "local", 2)
    assert report["self_test"]["goals"] == {"sqnr_db": 60.0, "max_abs_rms": 0.01, "equal": 1.0}
    assert all(entry["figures"]["sqnr_db"] > 60 for entry in report["outputs"])


def test_dynamic_dimensions_have_the_sizes_of_the_samples(
    dynamic_net: Transformed,  # noqa: F811
    workspace: Path,
    capfd: pytest.CaptureFixture[str],
):
    samples_file = samples_of(dynamic_net, workspace / "self_test.npz", {"n": 2, "m": 3})
    tested = package_with_samples(dynamic_net, workspace, samples_file)
    assert command(["run", str(tested), "--self-test"]) == 0
    assert "self-test passed" in capfd.readouterr().out


@pytest.mark.parametrize(
    "others",
    [["-i", "in.npz"], ["--fill", "ones"], ["-o", "out.npz"], ["--repeat", "3"], ["--print-top", "1"], ["--profile"]],
    ids=lambda others: others[0],
)
def test_inputs_and_outputs_cannot_be_given(others: list[str], package: Path, capfd: pytest.CaptureFixture[str]):
    assert command(["run", str(package), "--self-test", *others]) == 2
    assert "the self-test has its own inputs and outputs" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("why_not", "words"),
    [
        ("", "has no self-test\n"),
        ("8-bit ranges do not fit", "has no self-test: 8-bit ranges do not fit\n"),
    ],
)
def test_a_package_without_samples_says_why_and_what_to_do(
    why_not: str,
    words: str,
    static_net: Transformed,  # noqa: F811
    workspace: Path,
    capfd: pytest.CaptureFixture[str],
):
    bare = package_with_samples(static_net, workspace, None, why_not=why_not)
    assert (inspect(bare).self_test is None) == (not why_not)
    assert command(["run", str(bare), "--self-test"]) == 1
    errors = capfd.readouterr().err
    assert words in errors
    assert "rebuild it with `export.self_test` in the config, or `tvmake compile --self-test`" in errors


def test_without_bounds_there_is_no_test_to_pass(
    static_net: Transformed,  # noqa: F811
    expected: Path,
    workspace: Path,
    capfd: pytest.CaptureFixture[str],
):
    unbounded = package_with_samples(static_net, workspace, altered(expected, workspace / "other.npz"), goals={})
    assert command(["run", str(unbounded), "--self-test"]) == 1
    assert "has no self-test: it has no bounds" in capfd.readouterr().err


def test_a_goal_of_another_version_is_refused_in_a_line(
    static_net: Transformed,  # noqa: F811
    expected: Path,
    workspace: Path,
    capfd: pytest.CaptureFixture[str],
):
    newer = package_with_samples(static_net, workspace, expected, goals={"sqnr_db": 60.0, "brightness": 1.0})
    assert command(["run", str(newer), "--self-test"]) == 1
    errors = capfd.readouterr().err
    assert "its self-test has a goal that this tvmake does not know: brightness" in errors
    assert "use the tvmake that built it" in errors and "Traceback" not in errors


def test_elements_that_are_nan_or_infinite_on_one_side_are_counted(
    static_net: Transformed,  # noqa: F811
    expected: Path,
    workspace: Path,
    capfd: pytest.CaptureFixture[str],
):
    wrong = package_with_samples(static_net, workspace, altered(expected, workspace / "other.npz", float("inf")))
    assert command(["run", str(wrong), "--self-test"]) == 4
    printed = capfd.readouterr().out
    assert printed.count("elements that are NaN or infinite on one side only: ") == 2 and "SQNR" not in printed
    assert printed.count("WRONG: misses finite") == 2


def test_samples_that_are_compressed_are_refused_unread(
    package: Path, workspace: Path, capfd: pytest.CaptureFixture[str]
):
    files = workspace / "files"
    files.mkdir()
    unpack(package, files)
    with zipfile.ZipFile(files / SELF_TEST) as sound:
        members = {name: sound.read(name) for name in sound.namelist()}
    with zipfile.ZipFile(files / SELF_TEST, "w", zipfile.ZIP_DEFLATED) as bomb:
        for name, content in members.items():
            bomb.writestr(name, content + bytes(10_000_000))
    forged = with_files(load_manifest(files / MANIFEST, "forged"), {SELF_TEST: files / SELF_TEST}).sealed()
    stage_json.save(forged, files / MANIFEST)
    pack({file.name: file for file in files.iterdir()}, workspace / "forged.tar")
    assert command(["run", str(workspace / "forged.tar"), "--self-test"]) == 1
    assert "self_test.npz was not written by tvmake" in capfd.readouterr().err


def refusal(files: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """What the self-test of a forged package says, in a line and a remedy."""
    forged = files.with_suffix(".tar")
    pack({file.name: file for file in files.iterdir()}, forged)
    assert command(["run", str(forged), "--self-test"]) == 1
    problem, remedy = capfd.readouterr().err.splitlines()
    assert remedy.startswith(("  rebuild the package", "  rebuild it")), remedy
    return problem


def with_another_parameter(manifest: Manifest) -> dict[str, object]:
    first, *others = manifest.parameters
    return {"parameters": [first.model_copy(update={"name": "gone"}), *others]}


def with_another_shape(manifest: Manifest) -> dict[str, object]:
    (known,) = manifest.signature.inputs
    inputs = (known.model_copy(update={"shape": (2, *known.shape[1:])}),)
    return {"signature": manifest.signature.model_copy(update={"inputs": inputs})}


def without_samples(manifest: Manifest) -> dict[str, object]:
    assert manifest.self_test is not None
    return {"self_test": manifest.self_test.model_copy(update={"samples": 0, "why_not": ""})}


def with_another_library(manifest: Manifest) -> dict[str, object]:
    return {"components": [manifest.components[0].model_copy(update={"version": "0"}), *manifest.components[1:]]}


@pytest.mark.parametrize(
    ("forgery", "words"),
    [
        (with_another_parameter, "mod.params lacks the parameter 'gone'"),
        *OTHER_CODE,
        (with_another_shape, "self_test.npz does not match: input 'x' is "),
        (without_samples, "has no self-test"),
        (with_another_library, "its provenance names other programs and libraries than its manifest"),
    ],
)
def test_a_manifest_of_another_package_is_refused_in_a_line(
    forgery: Callable[[Manifest], dict[str, object]],
    words: str,
    package: Path,
    workspace: Path,
    capfd: pytest.CaptureFixture[str],
):
    manifest = inspect(package)
    rewritten(package, workspace / "forged", manifest.model_copy(update=forgery(manifest)))
    assert words in refusal(workspace / "forged", capfd)


@pytest.mark.parametrize(("forgery", "words"), OTHER_CODE)
def test_python_refuses_a_manifest_of_other_code_in_the_same_words(
    forgery: Callable[[Manifest], dict[str, object]], words: str, package: Path, workspace: Path
):
    rewritten(package, workspace / "forged", inspect(package).model_copy(update=forgery(inspect(package))))
    pack({file.name: file for file in (workspace / "forged").iterdir()}, workspace / "forged.tar")
    with pytest.raises(InputError, match=re.escape(words)):
        tvmake.open(workspace / "forged.tar").run(fill="random")


def test_an_input_that_the_code_declares_differently_is_named(
    package: Path, workspace: Path, capfd: pytest.CaptureFixture[str]
):
    manifest = inspect(package)
    rewritten(package, workspace / "forged", manifest.model_copy(update=with_another_shape(manifest)))
    pack({file.name: file for file in (workspace / "forged").iterdir()}, workspace / "forged.tar")
    assert command(["run", str(workspace / "forged.tar")]) == 1
    problem, _ = capfd.readouterr().err.splitlines()
    assert "mod.so takes 'x' as float32[1, 3, 8, 8], its manifest declares otherwise" in problem


def test_a_package_without_kernels_for_its_kind_of_device_is_refused(
    package: Path, workspace: Path, capfd: pytest.CaptureFixture[str]
):
    require_opencl()
    manifest = inspect(package)
    other = manifest.model_copy(update={"target": {**manifest.target, "kind": "opencl"}})
    rewritten(package, workspace / "forged", other)
    assert "mod.so has no kernels for opencl, its manifest declares that it has" in refusal(workspace / "forged", capfd)


def test_an_extent_below_zero_is_refused(package: Path, workspace: Path):
    manifest = inspect(package)
    (known,) = manifest.signature.inputs
    negative = known.model_copy(update={"shape": (-1, *known.shape[1:])})
    signature = manifest.signature.model_copy(update={"inputs": (negative,)})
    rewritten(package, workspace / "forged", manifest.model_copy(update={"signature": signature}))
    with pytest.raises(InputError, match=r"mod.json is damaged \(signature.inputs.0.shape"):
        load_manifest(workspace / "forged" / MANIFEST, "forged")


@pytest.mark.parametrize("name", [LIBRARY, WEIGHTS])
def test_a_file_that_is_cut_short_is_refused_in_a_line(
    name: str, package: Path, workspace: Path, capfd: pytest.CaptureFixture[str]
):
    cut_to_half(package, workspace / "cut", name)
    assert name in refusal(workspace / "cut", capfd)


def test_an_output_that_no_goal_is_for_is_not_called_ok(
    static_net: Transformed,  # noqa: F811
    expected: Path,
    workspace: Path,
    capfd: pytest.CaptureFixture[str],
):
    tested = package_with_samples(
        static_net, workspace, altered(expected, workspace / "other.npz"), goals={"equal": 1.0}
    )
    command(["run", str(tested), "--self-test"])
    assert [line.endswith("  no goal") for line in capfd.readouterr().out.splitlines()[:2]] == [True, True]


def test_goals_without_a_bound_for_it_leave_the_self_test_out(workspace: Path):
    (workspace / "net.onnx").touch()
    off = dict.fromkeys(("sqnr_db", "max_abs_rms", "equal"))
    model = {"source": "net.onnx", "goals": {**off, "max_abs": 1.0}}
    plan = Plan(Config.model_validate({"models": {"net": model}}))
    (variant,) = plan.variants
    (job,) = (job for job in plan.jobs(variant) if job.stage == "export")
    assert json.loads(job.options)["why_not"].startswith("the model's goals say neither sqnr_db")
    assert not any(name.endswith("self_test.npz") for name in job.inputs)


def test_a_package_without_samples_does_not_mention_a_self_test(static_net: Transformed, workspace: Path):  # noqa: F811
    bare = package_with_samples(static_net, workspace, None)
    with tarfile.open(bare) as archive:
        assert archive.getnames() == ["mod.json", "mod.params", "mod.so"]
        assert b"self_test" not in archive.extractfile("mod.json").read()  # type: ignore[union-attr]


def test_the_same_files_give_the_same_bytes_and_the_package_stays_verifiable(
    package: Path,
    static_net: Transformed,  # noqa: F811
    expected: Path,
    workspace: Path,
):
    again = package_with_samples(static_net, workspace / "again", expected)
    assert again.read_bytes() == package.read_bytes()
    checked = check_package(package)
    assert SELF_TEST in checked.manifest.files
    assert SELF_TEST in {entry["name"] for entry in checked.manifest.provenance["subject"]}


def test_samples_that_are_damaged_are_refused_before_anything_runs(
    package: Path, workspace: Path, capfd: pytest.CaptureFixture[str]
):
    with tarfile.open(package) as archive:
        at = archive.getmember(SELF_TEST).offset_data
    content = bytearray(package.read_bytes())
    content[at + 200] ^= 1
    (workspace / "damaged.tar").write_bytes(content)
    assert command(["run", "damaged.tar", "--self-test"]) == 1
    assert "self_test.npz is altered: its sha256 differs from mod.json's" in capfd.readouterr().err


def bounded(net: Transformed, workspace: Path, samples: float) -> Described:
    """A package's description of its self-test if this many samples fit."""
    one_sample_mb = (3 * 8 * 8 + 6) * 4 / 1e6
    samples_file = samples_of(net, workspace / f"{samples}.npz", test=SelfTest(max_mb=samples * one_sample_mb))
    package = package_with_samples(net, workspace / str(samples), samples_file)
    described = inspect(package).self_test
    assert described is not None
    assert (SELF_TEST in inspect(package).files) == (described.samples > 0)
    return described


def test_the_samples_are_bounded(static_net: Transformed, workspace: Path):  # noqa: F811
    fewer = bounded(static_net, workspace, 1.5)
    assert (fewer.samples, fewer.why_not) == (1, "a sample has 0.000792 MB, and export.self_test.max_mb is 0.001188")
    assert bounded(static_net, workspace, 0.5).samples == 0


def test_a_network_of_nothing_but_nan_has_nothing_to_be_compared_with(tmp_path: Path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
    n (float[2] x) => (float[2] y) { a = Abs(x)  b = Neg(a)  y = Log(b) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    options = ImportOptions(source=str(tmp_path / "m.onnx"))
    signature, source = tmp_path / "signature.json", tmp_path / "source.json"
    import_model(options, tmp_path / "m.json", tmp_path / "m.params", signature, source)
    request = SelfTestRequest(model=options, dims={}, self_test=SelfTest())
    samples = self_test(signature, source, request, tmp_path / "samples.npz")
    assert samples.why_not == "the original gives nothing but NaN for a sample, so nothing could be compared"


def test_without_the_original_framework_the_package_has_no_samples_and_a_reason(
    static_net: Transformed,  # noqa: F811
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "tvmake.validate.reference.onnx_model", raising=False)
    described = bounded(static_net, workspace, 2)
    assert described.samples == 0
    assert "onnxruntime" in described.why_not


def test_goals_beyond_the_default_are_left_to_validation_and_looser_ones_are_kept():
    default = DEFAULT_GOALS["float32"]
    assert self_test_goals(default, default) == {"sqnr_db": 60.0, "max_abs_rms": 0.01, "equal": 1.0}
    for others in (Goals(sqnr_db=200, max_abs_rms=1e-6, rtol=1e-4), Goals(cosine=0.9, top1=0.5)):
        assert self_test_goals(default.updated(others), default) == self_test_goals(default, default)
    looser = default.updated(Goals(sqnr_db=20, max_abs_rms=None, equal=0.5))
    assert self_test_goals(looser, default) == {"sqnr_db": 20.0, "equal": 0.5}


def test_the_samples_are_plain_arrays_that_a_program_without_python_reads(package: Path, workspace: Path):
    (workspace / "unpacked").mkdir()
    unpack(package, workspace / "unpacked")
    members = arrays(workspace / "unpacked" / SELF_TEST)
    assert sorted(members) == ["input/x/00000", "input/x/00001", "output/y/00000", "output/y/00001"]


def judged(values: dict[str, tuple[str, np.ndarray, np.ndarray]], workspace: Path, **goals: float) -> list[list[str]]:
    """The goals that each output misses, given its type, what is expected, and what came."""
    for file, index in (("expected.npz", 1), ("got.npz", 2)):
        with zipfile.ZipFile(workspace / file, "w") as archive:
            for name, entry in values.items():
                write_array(archive, member("output", name, 0), entry[index])  # type: ignore[arg-type]
    specs = [
        TensorSpec(name=name, relax_name=name, shape=entry[1].shape, dtype=entry[0]) for name, entry in values.items()
    ]
    described = Described(samples=1, goals=goals)
    with zipfile.ZipFile(workspace / "expected.npz") as expected, zipfile.ZipFile(workspace / "got.npz") as got:
        outputs = list(check_self_test(described, specs, expected, got))
    return [[missed.goal for missed in entry.missed] for entry in outputs]


def test_several_outputs_of_any_type_are_judged_each_by_what_counts_for_it(workspace: Path):
    near = np.array([1.0, 2.0, 3.0])
    values = {
        "classes": ("int64", np.array([1, 2]), np.array([1, 2])),
        "other classes": ("int32", np.array([1, 2], "int32"), np.array([1, 3], "int32")),
        "half": ("float16", near.astype("float16"), (near * 1.001).astype("float16")),
        "brain": ("bfloat16", near.astype(ml_dtypes.bfloat16), (near * 2).astype(ml_dtypes.bfloat16)),
        "odd": ("float32", near.astype("float32"), np.array([1, np.nan, 3], "float32")),
        "another shape": ("float32", near.astype("float32"), near.astype("float32")[:2]),
    }
    assert judged(values, workspace, sqnr_db=20, equal=1) == [[], ["equal"], [], ["sqnr_db"], ["finite"], ["signature"]]


def test_outputs_that_are_missing_are_a_fault_in_one_line(workspace: Path):
    for file in ("expected.npz", "got.npz"):
        zipfile.ZipFile(workspace / file, "w").close()
    spec = TensorSpec(name="y", relax_name="y", shape=(1,), dtype="float32")
    with (
        zipfile.ZipFile(workspace / "expected.npz") as one,
        zipfile.ZipFile(workspace / "got.npz") as other,
        pytest.raises(InputError, match="sample 0 lacks output 'y'"),
    ):
        list(check_self_test(Described(samples=1), [spec], one, other))


def test_it_is_on_unless_it_is_turned_off():
    assert ExportOptions().test == SelfTest() == ExportOptions(self_test=True).test
    assert ExportOptions(self_test=False).test is None
