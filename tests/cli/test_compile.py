"""`tvmake compile`: from a model's file to a package in one command, and only the package beside it."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.requirements import require
from tests.workflow.project import Project, model_project
from tvmake.native.zig import zig_command


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return model_project(tmp_path / "project")


def visible(project: Project) -> set[str]:
    return {path.name for path in project.directory.iterdir() if not path.name.startswith(".")}


def test_a_model_becomes_a_package_that_runs(project: Project):
    done = project.run("tvmake", "compile", "digits.onnx", "--cores", "2")
    assert done.returncode == 0, done.stderr
    assert "wrote digits.tar; run it with `tvmake run digits.tar`" in done.stdout
    assert visible(project) == {"digits.onnx", "digits.tar"}
    ran = project.run("tvmake", "run", "digits.tar", "--print-top", "3")
    assert ran.returncode == 0, ran.stderr
    assert "logits" in ran.stdout
    again = project.run("tvmake", "compile", "digits.onnx", "-o", "again.tar")
    assert again.returncode == 0, again.stderr
    assert "✓" not in again.stderr, "nothing is made twice"
    first, second = (project.directory / name for name in ("digits.tar", "again.tar"))
    assert first.read_bytes() == second.read_bytes()


def test_plain_loops_are_a_warning_whether_they_are_built_now_or_were_before(project: Project):
    matmul = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [64, 256]) for name in "xy"]
    weight = onnx.numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
    graph = onnx.helper.make_graph([matmul], "net", values[:1], values[1:], [weight])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), project.directory / "net.onnx")
    scheduled = project.run("tvmake", "compile", "net.onnx")
    assert scheduled.returncode == 0, scheduled.stderr
    assert "without a schedule" not in scheduled.stderr
    for _ in range(2):
        plain = project.run("tvmake", "compile", "net.onnx", "--set", "build.schedule_rules=false")
        assert plain.stderr.endswith(
            "warning: 100 % of the estimated time is in kernels without a schedule; matmul (100 %):"
            " build.schedule_rules is false; leave it out; what would help: `--tune TRIALS`\n"
        )


def test_dynamic_dimensions_are_listed_with_what_fixes_and_bounds_them(project: Project):
    save_relu(project.directory / "net.onnx", ["batch", "length"])
    done = project.run("tvmake", "compile", "net.onnx", "--dim", "length=0..64")
    assert done.returncode == 0, done.stderr
    *_, batch, length = done.stdout.splitlines()
    assert (
        batch
        == "  dynamic dimension batch (axis 0 of x), any size: `--dim batch=1` fixes it, `--dim batch=..8` bounds it"
    )
    assert (
        length == "  dynamic dimension length (length of a sequence, axis 1 of x), 0 to 64: `--dim length=64` fixes it"
    )
    ran = project.run("tvmake", "run", "net.tar", "-i", save_zeros(project.directory / "long.npy", (1, 65)))
    assert (ran.returncode, ran.stderr) == (1, "error: inputs: length is 65 in 'x'; this package takes 0 to 64\n")
    done = project.run("tvmake", "compile", "net.onnx", "--dim", "length=16", "--dim", "batch=2")
    assert done.returncode == 0, done.stderr
    assert "dynamic" not in done.stdout


def test_a_past_fixed_to_no_positions_is_a_decoders_first_step(project: Project):
    names = {"q": [1, "length", 8], "past": [1, "past", 8], "y": [1, "length", 8], "present": [1, "total", 8]}
    q, past, y, present = (onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in names.items())
    nodes = [
        onnx.helper.make_node("Concat", ["past", "q"], ["present"], axis=1),
        onnx.helper.make_node("Transpose", ["present"], ["keys"], perm=[0, 2, 1]),
        onnx.helper.make_node("MatMul", ["q", "keys"], ["scores"]),
        onnx.helper.make_node("Softmax", ["scores"], ["shares"]),
        onnx.helper.make_node("MatMul", ["shares", "present"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "net", [q, past], [y, present])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), project.directory / "net.onnx")
    done = project.run("tvmake", "compile", "net.onnx", "--dim", "past=0", "--self-test")
    assert done.returncode == 0, done.stderr
    assert "input past: float32 [1, 0, 8]" in done.stdout
    ran = project.run("tvmake", "run", "net.tar", "--self-test")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("option", ["--dim", "--shape"])
def test_more_elements_than_tvm_counts_are_refused_with_their_number(option: str, project: Project):
    x, y = (onnx.helper.make_tensor_value_info(name, 1, ["batch", 3, 16, 16]) for name in "xy")
    weight = onnx.numpy_helper.from_array(np.ones((3, 3, 3, 3), np.float32), "w")
    convolution = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    graph = onnx.helper.make_graph([convolution], "net", [x], [y], [weight])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), project.directory / "net.onnx")
    done = project.run("tvmake", "compile", "net.onnx", option, "batch=2000000000", "--target", "llvm")
    assert done.returncode == 1
    problem = "a tensor has 1,536,000,000,000 elements, and TVM counts them up to 2,147,483,647 here"
    assert f"{problem}\n    make its dimensions smaller (`--dim NAME=SIZE`)\n" in done.stderr


def test_wrong_names_are_refused_before_the_import_with_the_nearest_name(project: Project):
    save_relu(project.directory / "net.onnx", ["batch", "length"])
    listing = "\n  it has: batch, length\n"
    for option, problem in (
        ("--dim btach=4", "the model has no dynamic dimension 'btach'; did you mean 'batch'?"),
        (
            "--shape batch=4,lengt=8",
            "{batch: 4, lengt: 8}: the model has no dynamic dimension 'lengt'; did you mean 'length'?",
        ),
    ):
        done = project.run("tvmake", "compile", "net.onnx", *option.split())
        assert (done.returncode, done.stderr) == (1, f"error: {option}: {problem}{listing}")
    (project.directory / "tvmake.yaml").write_text(
        "models:\n  net:\n    source: net.onnx\n    dims: {btach: 4}\ntargets: {cpu: {kind: llvm}}\n"
    )
    made = project.run("tvmake", "make")
    problem = "models.net.dims.btach: the model has no dynamic dimension 'btach'; did you mean 'batch'?"
    assert (made.returncode, made.stderr) == (1, f"error: tvmake.yaml:4: {problem}{listing}")


def test_a_package_of_another_source_is_not_replaced_silently(project: Project):
    save_relu(project.directory / "net.onnx", [4])
    (project.directory / "net.v2").mkdir()
    save_relu(project.directory / "net.v2" / "net.onnx", [8])
    note = (
        "note: net.tar is a package of net.onnx, and is replaced by one of net.v2/net.onnx; --output names another file"
    )
    for source, notes in (("net.onnx", []), ("net.onnx", []), ("net.v2/net.onnx", [note]), ("net.v2/net.onnx", [])):
        done = project.run("tvmake", "compile", source)
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if line.startswith("note:")] == notes
    done = project.run("tvmake", "compile", "net.onnx", "-t", "llvm", "-o", "other.tar")
    (project.directory / "other.tar").replace(project.directory / "net.tar")
    done = project.run("tvmake", "compile", "net.v2/net.onnx")
    assert (done.returncode, "note" in done.stderr) == (0, False), "nothing is known of a package that was moved there"


def save_relu(file: Path, shape: list[str]) -> None:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), file)


def save_zeros(file: Path, shape: tuple[int, ...]) -> str:
    np.save(file, np.zeros(shape, "float32"))
    return file.name


def test_a_package_for_another_processor_is_not_reported_to_run_here(project: Project):
    require(zig_command(), "zig: pip install ziglang")
    done = project.run(
        "tvmake", "compile", "digits.onnx", "-t", "llvm -mtriple=aarch64-linux-android", "-o", "phone.tar"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        "wrote phone.tar; run it on its device: `tvmake run phone.tar -d ssh:HOST`, or `-d adb:SERIAL`\n"
        "  input image: float32 [1, 1, 8, 8]\n"
    )


def test_a_package_for_a_missing_runtime_is_not_reported_to_run_here(project: Project):
    done = project.run("tvmake", "compile", "digits.onnx", "-t", "webgpu", "-o", "page.tar")
    assert done.returncode == 0, done.stderr
    assert "wrote page.tar; TVM here has no runtime for webgpu kernels; run it on a machine that has one" in done.stdout
    ran = project.run("tvmake", "run", "page.tar")
    assert ran.returncode == 3
    assert ran.stderr.startswith("error: this machine: the installed TVM has no runtime for webgpu kernels\n")


MISTAKES = {
    "no model": (["none.onnx"], "none.onnx: no such file"),
    "a slip of the pen": (["digits.onx"], "digits.onx: no such file\n  did you mean 'digits.onnx'?"),
    "a name in two lines": (
        ["digits\n.onnx"],
        r"error: digits\n.onnx: a path cannot contain control characters such as '\n'",
    ),
    "an address": (["https://example.org/net.onnx"], "only files are read; download it and name the file"),
    "a directory of models": ([".."], "..: is a directory, not a model"),
    "no key below": (
        ["digits.onnx", "--set", "build.optlevel=2"],
        "--set build.optlevel=2: build.optlevel: unknown key\n  did you mean 'opt_level'?",
    ),
    "no target": (["digits.onnx", "-t", "adreno-730-textur"], "did you mean 'adreno-730-texture'?"),
    "a part of a target": (["digits.onnx", "-t", "nvidia/h100"], "did you mean 'nvidia/nvidia-h100'?"),
    "a part of several": (["digits.onnx", "-t", "cortex-a72"], "there are cortex-a72-linux, cortex-a72-android"),
    "a tag of macOS": (["digits.onnx", "-t", "apple/m1-gpu"], "or `-t 'apple/m1-gpu -host=aarch64-linux-gnu'`"),
    "more trials than there is time for": (
        ["digits.onnx", "--tune", "99999999999"],
        "--tune 99999999999: expected at most 10000000",
    ),
    "no precision": (["digits.onnx", "--precision", "float8"], "expected one of float32"),
    "no input": (
        ["digits.onnx", "--input-shape", "imag=1,1,8,8"],
        "error: --input-shape imag=1,1,8,8: the model has no input 'imag'; did you mean 'image'?\n  the model's inputs are",
    ),
    "no input for a value": (
        ["digits.onnx", "--input-value", "imag=1"],
        "error: --input-value imag=1: the model has no input 'imag'; did you mean 'image'?\n  the model's inputs are",
    ),
    "no dimension": (
        ["digits.onnx", "--dim", "batch=4"],
        "error: --dim batch=4: the model has no dynamic dimension 'batch'\n  all its shapes are fixed",
    ),
    "trials of a setting": (
        ["digits.onnx", "--set", "tuning.trials=-1"],
        "--set tuning.trials=-1: tuning.trials: expected at least 0 (got -1)",
    ),
    "a dimension twice": (
        ["digits.onnx", "--dim", "n=1", "--dim", "n=2"],
        "error: --dim n=2: 'n' has a value already\n  leave one of them out",
    ),
    "no shape": (["digits.onnx", "--input-shape", "image"], "for example: --input-shape image=1,3,224,224"),
    "a negative size": (["digits.onnx", "--input-shape", "image=-1,1,8,8"], "image=-1,1,8,8: expected INPUT=SIZES"),
    "no input's value": (["digits.onnx", "--input-value", "image"], "for example: --input-value sr=16000"),
    "a value of another shape": (["digits.onnx", "--input-value", "image=[1,2]"], "Write one number, or nested lists"),
    "no pass": (["digits.onnx", "--disabled-pass", "tirx.StorageRewrit"], "did you mean 'tirx.StorageRewrite'?"),
    "no setting": (["digits.onnx", "--pass-config", "tir.noalias=1"], "did you mean 'tirx.noalias'?"),
    "no value": (
        ["digits.onnx", "--pass-config", "tirx.noalias"],
        "for example: --pass-config tirx.disable_vectorize=true",
    ),
    "no form": (["digits.onnx", "--dump-code", "relay"], "expected one of relax"),
    "no size": (["digits.onnx", "--dim", "n"], "expected NAME=SIZE or NAME=MIN..MAX\n  for example: --dim batch=1"),
    "no number": (["digits.onnx", "--dim", "n=1..many"], "--dim n=1..many: expected NAME=SIZE or NAME=MIN..MAX"),
    "a size without a dimension": (["digits.onnx", "--shape", "8"], "expected sizes of one dimension"),
    "sizes of two dimensions": (["digits.onnx", "--shape", "n=1,2,m=3"], "for example: --shape batch=1,8"),
    "a size and a fixed one": (
        ["digits.onnx", "--shape", "n=2", "--dim", "n=4"],
        "error: --shape n=2: {n: 2} gives n a size that `--dim n=4` fixes\n  leave it out of one",
    ),
    "a size beyond the bounds": (
        ["digits.onnx", "--shape", "n=8", "--dim", "n=1..4"],
        "error: --shape n=8: {n: 8} is not within `--dim n=1..4`\n  choose a size within it, or other bounds",
    ),
    "a size beyond a maximum": (["digits.onnx", "--shape", "n=8", "--dim", "n=..4"], "is not within `--dim n=..4`\n"),
    "a shape of another network": (
        ["digits.onnx", "--shape", "n=1"],
        "error: --shape n=1: {n: 1}: the model has no dynamic dimension 'n'\n",
    ),
    "bounds the wrong way round": (["digits.onnx", "--dim", "n=9..4"], "--dim n=9..4: min is 9 and max is 4"),
    "a range in a shape": (
        ["digits.onnx", "--input-shape", "image=1..4,1,8,8"],
        "give bounds by the dimension's name: --dim",
    ),
    "a directory": (
        ["digits.onnx", "-o", "."],
        ".: is a directory, but a file is required\n  name a file in it",
    ),
    "the model itself": (["digits.onnx", "-o", "digits.onnx"], "digits.onnx: exists and is not a package"),
    "a directory that cannot be written": (["digits.onnx", "-o", "/proc/x.tar"], "/proc/x.tar: cannot be written"),
    "a long name": (["digits.onnx", "-o", f"{'x' * 300}.tar"], "cannot be written (the name is too long)"),
    "no directory": (["digits.onnx", "-o", "none/digits.tar"], "there is no directory 'none'"),
    "no key": (["digits.onnx", "--set", "builds.opt_level=3"], "did you mean 'build'?"),
}


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_and_leaves_no_package(arguments: list[str], words: str, project: Project):
    done = project.run("tvmake", "compile", *arguments)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert visible(project) == {"digits.onnx"}


def test_the_reported_log_of_a_failure_exists(project: Project):
    whole = (project.directory / "digits.onnx").read_bytes()
    (project.directory / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    done = project.run("tvmake", "compile", "cut.onnx")
    assert done.returncode == 1, done.stderr
    log = next(line.removeprefix("  log: ") for line in done.stderr.splitlines() if line.startswith("  log: "))
    assert "cut.onnx" in (project.directory / log).read_text()


@pytest.mark.parametrize("command", ["compile", "tune"])
def test_a_model_that_runs_code_is_loaded_where_it_is_trusted(command: str, project: Project):
    (project.directory / "net.keras").write_bytes(b"no archive")
    refused = project.run("tvmake", command, "net.keras")
    assert refused.returncode == 1
    assert "set `--trusted`" in refused.stderr
    trusted = project.run("tvmake", command, "net.keras", "--trusted")
    assert trusted.returncode == 1
    assert "trust" not in trusted.stderr.replace("--trusted", "")


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ("tune", ["-t", "llvm -mcpu=foo"], "error: target: LLVM knows no CPU 'foo'"),
        ("compile", ["-t", "llvm -mcpu=foo"], "error: target: LLVM knows no CPU 'foo'"),
        ("compile", ["-t", "llvm -mattr=+foo"], "error: target: LLVM knows no feature 'foo'"),
        ("compile", ["--cross-compiler", "no-such-cc"], "error: target: the compiler 'no-such-cc' is not installed"),
        ("compile", ["-t", "llvm -mtriple=x86_64-pc-windows-msvc"], "is for another system (windows)"),
    ],
    ids=["tune", "processor", "feature", "compiler", "system"],
)
def test_a_target_that_nothing_can_be_built_for_is_refused_before_the_import(
    options: list[str], words: str, command: str, project: Project
):
    done = project.run("tvmake", command, "digits.onnx", *options)
    assert done.returncode in (1, 3)
    assert words in done.stderr
    assert "import" not in done.stdout + done.stderr


def test_texts_of_the_code_and_of_each_pass_are_kept_beside_the_package(project: Project):
    options = [
        "--pass-config",
        "tirx.disable_vectorize=1",
        "--disabled-pass",
        "tirx.StorageRewrite",
        "--dump-code",
        "relax,tir,ll,kernels,passes",
        "--print-pass-times",
    ]
    done = project.run("tvmake", "compile", "digits.onnx", *options, "--cross-compiler-options=-s")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ +[0-9.]+ ms  FuseOps$", done.stdout, re.MULTILINE)
    sources = project.directory / "digits.sources"
    assert {path.name for path in sources.iterdir()} == {"relax.py", "tir.py", "mod.ll", "passes"}
    assert "note: this target's kernels have no separate source: use `ll` or `asm`" in done.stderr
    assert "000-transformed.py" in {path.name for path in (sources / "passes").iterdir()}
    assert not list(sources.glob("passes/*-tirx.StorageRewrite.py"))
    assert list(sources.glob("passes/*-FuseOps.py"))
    assert project.run("tvmake", "run", "digits.tar").returncode == 0
