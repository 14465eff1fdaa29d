"""``tvmake check`` refuses what ``tvmake make`` would refuse, with the line. Models and targets have their own test files."""

import json
import os
import re
import shutil
import subprocess
import unicodedata
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from tests.cli.checking import check_of, tvmake
from tests.patience import HANG_S
from tests.requirements import need
from tests.workflow.project import ROOT, SCRIPTS
from tvmake.cli import run


@pytest.mark.parametrize(
    ("change", "code", "where", "problem", "remedy"),
    [
        ({"targets.cpu": {"mcpu": "skylaek"}}, 1, ": targets.cpu.mcpu", "LLVM knows no CPU", "'skylake'"),
        ({"targets.cpu": {"mcpu": "cortexa76"}}, 1, ": targets.cpu.mcpu", "LLVM knows no CPU", "mtriple: aarch64-linux-gnu"),
        ({"targets.cpu": {"mcpu": "apple-m1", "mtriple": "aarch64-linux-gnu"}}, 1, ": targets.cpu.mcpu", "LLVM knows no CPU",
         "apple-a14"),
        ({"targets.cpu": {"mtriple": "foo-bar"}}, 1, ": targets.cpu.mtriple", "no processor 'foo'", "aarch64-linux-android"),
        ({"precisions": {"half": {"base": "float16", "never": ["conv2d"]}}}, 1, ": precisions.half.never",
         "Relax has no such operator", "did you mean 'nn.conv2d'?"),
        ({"targets.cpu": {"cc": "nog++"}}, 3, ": targets.cpu", "'nog++' is not installed", "toolchain: zig"),
        ({"models.digits.dataset": None, "models.digits.goals.top1": 0.9}, 1, ": models.digits.goals.top1",
         "the model has no dataset", "top1_agreement"),
        ({"models.digits.dataset.labels": None, "models.digits.goals.top1_drop": 0.1}, 1,
         ": models.digits.goals.top1_drop", "digits-test.npz has none", "dataset.labels"),
        ({"models.digits.dataset.path": "none.npz"}, 1, ": models.digits.dataset.path", "no such file", "relative paths start in"),
        ({"models.digits.source": "none.onnx"}, 1, ": models.digits.source", "no such file", "relative paths start in"),
        ({"models.digits.dataset.path": "https://x/y.npz"}, 1, ": models.digits.dataset.path", "no such file", "download it"),
        ({"models.digits.transform.passes": [{"at": "start", "use": "gone.x:f"}]}, 1,
         ".transform.passes[0].use", "no such file: gone/x.py", "relative paths start in"),
        ({"models.digits.source": "a{b}.onnx"}, 1, ": models.digits.source", "Snakemake treats {b} in a name as a pattern: a{b}.onnx",
         "without braces"),
        ({"models.digits.source": "digit.onnx"}, 1, ": models.digits.source", "no such file", "did you mean 'digits.onnx'?"),
        ({"models.digits.goals.metrics.f1.use": "gone:f1"}, 1, ": models.digits.goals.metrics.f1.use", "no such file: gone.py",
         "relative paths start in"),
        ({"models.digits.goals.metrics.f1.use": "os:f1"}, 1, ": models.digits.goals.metrics.f1.use", "'os' has no function 'f1'", "it defines"),
        ({"models.digits.source": "~/digits.onnx"}, 1, ": models.digits.source", "no such file", "the whole path"),
        ({"models.digits.source": "http://x/y.onnx"}, 1, ": models.digits.source", "no such file", "download it"),
        ({"targets.cpu": {"mattr": ["avx2"]}}, 1, ": targets.cpu.mattr", "switched on by +", "'+avx2'"),
        ({"models.digits.dataset.images": "pixels"}, 1, ": models.digits.dataset", "no array 'pixels'", "images"),
        ({"tuning": {"store": "digits.onnx", "trials": 4}}, 1, ": tuning.store: digits.onnx", "is not a directory", "records"),
        ({"models.digits.dataset.preprocess.crop": 500}, 1, ": models.digits.dataset", "cropped to 500×500", "preprocess.resize"),
        ({"models.digits.dims.batch": 4}, 1, ": models.digits.dims", "no dynamic dimension 'batch'", "shapes are fixed"),
        ({"models.digits.goals.sqnr_db": -3}, 1, ": models.digits.goals.sqnr_db", "expected at least 0", ""),
        ({"results": "/proc/results"}, 1, ": results", "cannot create a directory in /proc", "that you can write to"),
        ({"cache": "results"}, 1, ": cache", "is the directory of results", "a separate directory"),
        ({"cache": "out/cache", "results": "out"}, 1, ": cache", "is inside results", "a separate directory"),
        ({"cache": "out", "results": "out/results"}, 1, ": cache", "contains results", "a separate directory"),
        ({"logs": "results/logs"}, 1, ": logs: results/logs", "is inside the directory of results", "a separate directory"),
        ({"results": "logs"}, 1, ": results: logs", "is the directory of logs", "a separate directory"),
        ({"logs": ".."}, 1, ": logs", "a directory outside the project needs an absolute path", ""),
        ({"tuning": {"store": "logs/x", "trials": 4}}, 1, ": tuning.store", "is inside logs", "a separate directory"),
        ({"tuning": {"shared": ".", "trials": 4}}, 1, ": tuning.shared", "contains results", "a separate directory"),
        ({"tuning": {"store": "x/records", "trials": 4}, "cache": "x"}, 1, ": tuning.store", "is inside cache", "a separate directory"),
        ({"tuning.store": "/proc/x", "tuning.trials": 4}, 1, ": tuning.store: /proc/x", "cannot create a directory in /proc", "write to"),
        ({"tuning.shared": "foo://x", "tuning.trials": 4}, 1, ": tuning.shared: foo://x", "is not an address", "s3://"),
        ({"tuning.frozen": "nope.lock"}, 1, ": tuning.frozen: nope.lock", "no such lock", "`tvmake lock` writes one"),
        ({"tuning.frozen": "digits.onnx"}, 1, ": tuning.frozen: digits.onnx", "is not a lock", "write it again"),
        ({"cache": "digits.onnx"}, 1, ": cache: digits.onnx", "is not a directory", "another"),
        ({"cache": "foo://x"}, 1, ": cache: foo://x", "is not an address", "s3://"),
        ({"cache.secret_file": "gone"}, 3, ": cache.secret_file: gone", "cannot be read", "put the secret"),
        ({"devices.pi": {"via": "ssh", "host": "a", "identity": "gone"}, "targets.cpu": {"kind": "llvm", "device": "pi"}}, 1,
         ": devices.pi.identity", "no such file: gone", "relative paths start in"),
        ({"devices.pi": {"via": "ssh", "host": "a", "programs": "digits"}, "targets.cpu": {"kind": "llvm", "device": "pi"}}, 1,
         ": devices.pi.programs", "no such file: digits", "relative paths start in"),
        ({"targets.cpu": {"mtriple": "aarch64-linux-gnu", "device": "local"}}, 3, ": targets.cpu", "it is for aarch64, and its device is",
         "compile for this device"),
        ({"precisions": ["fp16"]}, 1, ": precisions.fp16", "expected one of", "did you mean 'float16'?"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_line_key_cause_and_remedy(tmp_path, change, code, where, problem, remedy):
    done = check_of(tmp_path, change)
    assert done.returncode == code, done.stdout + done.stderr
    (line, *rest) = done.stderr.splitlines()
    assert re.match(r"error: tvmake\.yaml:\d+: ", line) and where in line and problem in line
    assert remedy in "".join(rest)


def test_a_lock_with_records_that_would_not_be_used_is_refused(tmp_path):
    place = {"generation": "0.27", "target": {}, "device_class": "0" * 64, "kernels": []}
    lock = {"schema_version": 1, "records": {"digits/float32/cpu": place}, "layouts": {}}
    (tmp_path / "run.lock").write_text(json.dumps(lock))
    done = check_of(tmp_path, {"tuning.frozen": "run.lock"})
    assert done.returncode == 1
    assert ": tuning.frozen: run.lock: has records of digits/float32/cpu, which is built without" in done.stderr
    assert "set tuning.trials" in done.stderr
    assert check_of(tmp_path, {"tuning": {"frozen": "run.lock", "trials": 8}}).returncode == 0


def test_a_list_that_is_not_utf8_is_reported_with_its_key(tmp_path):
    (tmp_path / "list.csv").write_text("file,label\na.png,0\n", encoding="utf-16")
    done = check_of(tmp_path, {"models.digits.dataset.path": "list.csv"})
    assert done.returncode == 1
    line, remedy = done.stderr.splitlines()
    assert re.fullmatch(
        r"error: tvmake.yaml:\d+: models.digits.dataset.path: list.csv:1: cannot be read: it is not UTF-8 text", line
    )
    assert "save it as UTF-8" in remedy


def test_labels_beyond_the_models_classes_are_refused(tmp_path):
    with np.load(ROOT / "resources/digits-test.npz") as arrays:
        np.savez(tmp_path / "shifted.npz", images=arrays["images"], labels=arrays["labels"] + 1)
    done = check_of(tmp_path, {"models.digits.dataset.path": "shifted.npz"})
    assert done.returncode == 1
    assert "has label 10, the model's classes are 0 to 9" in done.stderr


def test_values_for_dimensions_that_a_model_has_are_accepted(tmp_path):
    shapes = {"inputs": {"image": {"shape": ["batch", 1, 8, 8]}}}
    model = onnx.load(ROOT / "resources/digits.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(model, tmp_path / "open.onnx")
    for source, dims, code in (({}, "n", 0), ({}, "batch", 1), (shapes, "batch", 0), (shapes, "n", 1)):
        done = check_of(tmp_path, {"models": {"digits": {"source": "open.onnx", **source, "dims": {dims: 4}}}})
        assert done.returncode == code, done.stderr


def test_what_leaves_kernels_without_a_schedule_is_a_note(tmp_path):
    config = {"models": {"digits": {"source": str(ROOT / "resources/digits.onnx")}}}
    plain = check_of(tmp_path, {**config, "build.schedule_rules": False}).stdout
    assert "note: digits/float32/cpu: its kernels are plain loops on one core: build.schedule_rules is false" in plain
    assert "note: " not in check_of(tmp_path, config).stdout


def test_extents_of_minus_one_are_dynamic(tmp_path):
    """PaddlePaddle's exporter wrote them."""
    model = onnx.load(ROOT / "resources/digits.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    onnx.save(model, tmp_path / "open.onnx")
    done = check_of(tmp_path, {"models": {"digits": {"source": "open.onnx"}}})
    assert done.returncode == 0 and "1 variant of 1 model" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"shapes": [{"M": 4}]}, "models.digits.shapes: {M: 4}: the model has no dynamic dimension 'M'\n  it has: N"),
        ({"shapes": [{"N": 65}]}, "models.digits.shapes: {N: 65}: N takes 0 to 64\n  choose such a size"),
        ({"shapes": [{"N": 4}, {"N": 4}]}, "models.digits.shapes: {N: 4} is there twice"),
        (
            {"shapes": [{"N": size} for size in range(1, 18)]},
            "models.digits.shapes: 17 shapes are more than a package has, 16",
        ),
        (
            {"shapes": [{"N": 4}], "dims": {"N": 4}},
            "models.digits.shapes: {N: 4} gives N a size that `dims: {N: 4}` fixes\n  leave it out of one",
        ),
        ({"shapes": [{}]}, "models.digits.shapes"),
        ({"shapes": [{"N": 2**40}]}, "is beyond what kernels count, 2147483647\n  choose a smaller size"),
        ({"targets": ["image"]}, "target 'image' needs fixed sizes, and the model has the dynamic dimensions N"),
        ({"targets": ["image"], "shapes": [{"N": 4}]}, None),
        ({"targets": ["image"], "dims": {"N": 4}}, None),
    ],
)
def test_shapes_are_compared_with_the_file_the_sizes_and_the_target(tmp_path, exported_with_bounds, keys, problem):
    shutil.copy(exported_with_bounds, tmp_path / "net.pt2")
    model = {"source": "net.pt2", "inputs": {"input": {"shape": ["N", 4]}}, **keys}
    targets = {"cpu": {"kind": "llvm"}, "image": "adreno-730-texture"}
    done = check_of(tmp_path, {"models": {"digits": {"targets": ["cpu"], **model}}, "targets": targets})
    if problem is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 1
        assert problem in done.stderr


@pytest.mark.parametrize(
    ("dims", "problem"),
    [
        ({"N": {"max": 65}}, "models.digits.dims.N: should be at most 65, but the network takes 0 to 64"),
        ({"N": 65}, "models.digits.dims.N: should be 65, but the network takes 0 to 64"),
        ({"N": {"min": 9, "max": 4}}, "models.digits.dims.N: min is 9 and max is 4"),
        ({"N": {}}, "models.digits.dims.N: bounds without a bound"),
        ({"N": {"min": -1}}, "models.digits.dims.N.min: expected at least 0 (got -1)"),
        ({"N": {"max": 10**12}}, "models.digits.dims.N: 1000000000000 is beyond what kernels count"),
        ({"N": {"min": 2, "max": 64}}, "validation.dims.N: is 1, but model 'digits' takes 2 to 64"),
        ({"N": {"max": 64}}, None),
    ],
)
def test_bounds_are_compared_with_the_files_and_each_other(tmp_path, exported_with_bounds, dims, problem):
    shutil.copy(exported_with_bounds, tmp_path / "net.pt2")
    inputs = {"input": {"shape": ["N", 4]}}
    model = {"source": "net.pt2", "inputs": inputs, "dims": dims}
    done = check_of(tmp_path, {"models": {"digits": model}, "validation": {"dims": {"N": 1}}})
    if problem is None:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1
    assert re.match(r"error: tvmake.yaml:\d+: ", done.stderr) and f": {problem}" in done.stderr.splitlines()[0]


@pytest.fixture(scope="module")
def exported_with_bounds(tmp_path_factory):
    import torch

    file = tmp_path_factory.mktemp("bounds") / "net.pt2"
    batch = torch.export.Dim("batch", min=0, max=64)
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(3, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, file)
    return file


@pytest.mark.parametrize(("name", "read_as"), [("on", "True"), ("18", "18"), ("null", "None")])
def test_a_name_that_yaml_makes_something_else_of_is_shown_as_written(tmp_path, name, read_as):
    (tmp_path / "tvmake.yaml").write_text(f"models:\n  {name}: {{source: digits.onnx}}\n")
    done = tvmake(tmp_path, "check")
    assert done.returncode == 1
    assert f"tvmake.yaml:2: models: YAML reads the name {name} as {read_as}" in done.stderr
    assert f"put it in quotation marks: '{name}'" in done.stderr


def test_a_mistake_in_a_setting_is_reported_with_the_option(tmp_path):
    done = check_of(tmp_path, {}, "--set", "benchmark.repeet=3")
    assert done.stderr.startswith(
        "error: --set benchmark.repeet=3: benchmark.repeet: unknown key\n  did you mean 'repeat'?"
    )


def test_an_exclusion_that_matches_nothing_is_noted(tmp_path):
    excluded = [{"model": "digits", "precision": "float16"}, {"precision": "float32"}]
    keys = {"precisions": ["float16", "float32"], "variants.exclude": excluded, "models.digits.precisions": ["float32"]}
    done = check_of(
        tmp_path, {**keys, "variants.include": [{"model": "digits", "precision": "float32", "target": "cpu"}]}
    )
    assert "note: variants.exclude[0]: no combination matches it" in done.stdout
    assert "exclude[1]" not in done.stdout


def test_a_right_config_passes(tmp_path):
    done = check_of(tmp_path, {"models.digits.goals.top1": 0.9})
    assert done.returncode == 0, done.stderr


def test_a_device_file_is_refused_as_results_directory_and_kept(tmp_path):
    done = check_of(tmp_path, {"results": "/dev/null"})
    assert done.returncode == 1
    assert "is a device, a pipe or a socket, but must be a directory\n  name another directory" in done.stderr


def test_a_results_directory_that_contains_the_project_is_refused(tmp_path):
    done = check_of(tmp_path, {"results": str(tmp_path.parent)})
    assert done.returncode == 1 and ": results: " in done.stderr and "it contains the project" in done.stderr


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_that_looks_equal_but_has_other_characters_is_distinguished(tmp_path, form):
    there, written = (
        unicodedata.normalize(form, "mod\u00e8le.onnx"),
        {"NFC": "mode\u0300le.onnx", "NFD": "mod\u00e8le.onnx"},
    )
    shutil.copy(ROOT / "resources" / "digits.onnx", tmp_path / there)
    done = check_of(tmp_path, {"models.digits.source": written[form]})
    (remedy,) = re.findall(r'write (".*")$', done.stderr, flags=re.MULTILINE)
    assert done.returncode == 1 and yaml.safe_load(remedy) == there


def test_a_config_is_checked_in_another_directory(tmp_path):
    done = check_of(tmp_path, {"models.digits.source": "none.onnx"}, "--directory", str(tmp_path))
    assert done.returncode == 1 and done.stderr.startswith("error: tvmake.yaml:")
    assert (
        check_of(tmp_path, {}, "-d", "elsewhere").stderr
        == "error: elsewhere: no such directory\n  name an existing directory with a config in it\n"
    )


@pytest.mark.parametrize(
    ("name", "where", "problem", "remedy"),
    [
        (
            "digits.onnx",
            "tvmake.yaml:3: models.digits.source",
            "cannot be read: permission denied: digits.onnx",
            "ls -l",
        ),
        ("results", "results", "the directory cannot be read", "its mode is d---------: chmod u+rwx results"),
        (".snakemake", ".snakemake", "the directory cannot be read", "chmod u+rwx .snakemake"),
    ],
)
def test_what_others_own_is_refused(tmp_path, name, where, problem, remedy):
    need("setpriv and unshare")
    assert check_of(tmp_path, {}).returncode == 0
    for directory in ("results", ".snakemake"):
        (tmp_path / directory).mkdir(exist_ok=True)
    (tmp_path / name).chmod(0)
    # Without this capability, owner and mode apply to root too.
    command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
    command = [*(command if os.geteuid() == 0 else ()), str(SCRIPTS / "tvmake"), "check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == (1 if name == "digits.onnx" else 3), done.stdout
    assert done.stderr.startswith(f"error: {where}: {problem}") and remedy in done.stderr


def test_an_environment_that_gives_no_number_of_threads_is_refused_where_packages_run_here(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    model = Path(__file__).parents[2] / "resources/digits.onnx"
    config = "models: {{m: {{source: {0}}}}}\nprecisions: [float32]\ntargets: {{cpu: {{kind: llvm}}}}\n"
    Path("tvmake.yaml").write_text(config.format(model))
    monkeypatch.setenv("TVM_NUM_THREADS", "many")
    assert run(["check"]) == 3
    assert "TVM_NUM_THREADS: expected a number of at least 1 (got 'many')\n  unset it" in capfd.readouterr().err
