"""A run for one package is an ordinary config in a directory for its model and target."""

import json
import os
import tarfile
from pathlib import Path

import onnx
import pytest
import yaml

from tests.workflow.project import ROOT
from tvmake.config.reading.load import check
from tvmake.errors import ErrorList, InputError
from tvmake.plan.single import SingleRun

DIGITS = str(ROOT / "resources/digits.onnx")


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_its_config_is_right_and_names_the_model_by_its_whole_path():
    run = SingleRun(DIGITS, "adreno-730-texture", "float16", 8, {"inputs": {"image": {"shape": [1, 1, 8, 8]}}})
    config = check(run.config(), {})
    assert config.models["digits"].source == DIGITS
    assert list(config.precisions) == ["float16"]
    assert config.targets["adreno-730-texture"].tag == "adreno-730-texture"
    assert config.tuning.trials == 8


def test_the_longest_name_of_a_file_gives_a_name_that_a_config_takes():
    names = [f"{'n' * 240}{end}.onnx" for end in "ab"]
    for name in names:
        Path(name).touch()
    one, other = map(SingleRun, names)
    assert len(one.model_name) == 80
    assert one.model_name != other.model_name


def test_a_name_has_plain_letters_for_those_with_accents():
    Path("modèle.onnx").touch()
    assert SingleRun("modèle.onnx").model_name == "modele"


def test_a_layer_goes_over_it_key_by_key():
    run = SingleRun(DIGITS, trials=8, layer={"tuning": {"rounds": 1}})
    assert run.config()["tuning"] == {"trials": 8, "rounds": 1}


def test_one_model_for_one_target_has_one_directory_with_the_config():
    run = SingleRun(DIGITS, precision="float16")
    run.write_config()
    assert run.directory == SingleRun(DIGITS).directory == Path(".tvmake/digits-native").resolve()
    assert yaml.safe_load(run.config_file.read_text()) == run.config()
    assert run.config_file.stat().st_mode & 0o077 == 0


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(InputError, match=r"none\.onnx: no such file"):
        SingleRun("none.onnx")
    assert SingleRun("zoo:resnet18").model_name == "resnet18"


@pytest.mark.parametrize("other", ["MODEL.ONNX", "model.ONNX", "modle.onnx"])
def test_a_file_that_is_not_there_is_answered_with_the_one_that_is(tmp_path: Path, other: str):
    (tmp_path / "model.onnx").touch()
    with pytest.raises(InputError, match=r"no such file\n  did you mean 'model\.onnx'\?"):
        SingleRun(other, root=tmp_path)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"target": "adreno-730-textur"}, "target: no such target 'adreno-730-textur'\n  did you mean 'adreno-730-texture'?"),
        ({"target": "foo"}, "target: no such target 'foo'\n  `tvmake targets` lists all targets"),
        ({"precision": "fp16"}, "precision: expected one of float32, tf32, float16, float16_acc32, int8, int8_weights, int4_weights, auto (got 'fp16')\n  did you mean 'float16'?"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_reported_with_its_option(options: dict[str, str], line: str):
    with pytest.raises(InputError) as caught:
        SingleRun(DIGITS, **options)
    assert str(caught.value) == line


def test_a_precision_of_the_users_own_is_one():
    own = {"precisions": {"mine": {"base": "float16", "never": ["nn.softmax"]}}}
    assert SingleRun(DIGITS, precision="mine", layer=own).config()["precisions"] == own["precisions"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run.yaml", "run.yaml: is a config, not a model\n  `tvmake make -c run.yaml`"),
        ("net.tar", "net.tar: is a package, not a model\n  `tvmake run net.tar`"),
        ("net.bin", "net.bin: cannot tell the format of it: it is empty"),
        (
            "nets.py",
            "nets.py: cannot tell the format of it: it is Python code\n  name a function in it that returns the model, as in nets:",
        ),
        (
            "nets:tiny",
            "nets:tiny: is a Python function, which runs only if a config trusts it\n  `tvmake init nets:tiny`",
        ),
        ("loop.onnx", "loop.onnx: is a link to a missing file: "),
        ("pipe.onnx", "pipe.onnx: is a pipe, not a file\n  write the model into a file"),
        ("n\udcffl.onnx", "n\udcffl.onnx: its name is not valid utf-8, the encoding of names here\n  rename it"),
    ],
)
def test_a_source_that_is_not_a_model_is_reported_as_typed(tmp_path: Path, name: str, words: str):
    with tarfile.open(tmp_path / "net.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("mod.json"))
    for other in ("run.yaml", "net.bin", "nets.py"):
        (tmp_path / other).touch()
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(InputError) as caught:
        SingleRun(name, root=tmp_path).write_config()
    assert str(caught.value).startswith(words)


def test_a_mistake_in_what_an_option_gave_names_the_option():
    layer = {"build": {"dump": ["foo"], "opt_level": 9}}
    with pytest.raises(ErrorList) as caught:
        SingleRun(DIGITS, layer=layer, options={"build.dump": "--dump-code foo"}).check_config()
    assert [error.where for error in caught.value.errors] == ["--set build.opt_level=9", "--dump-code foo"]


def test_a_target_that_makes_no_sense_is_not_named_by_the_name_that_it_got_in_the_config():
    with pytest.raises(InputError, match=r"^target: LLVM knows no processor 'aarch65'"):
        SingleRun(DIGITS, "llvm -mtriple=aarch65-linux-gnu").check_config()
    with pytest.raises(InputError, match=r"^target: native is this machine's CPU and takes no options"):
        SingleRun(DIGITS, "native -mcpu=skylake")


@pytest.mark.parametrize(("target", "precision"), [("cuda", "tf32"), ("opencl-generic", "float16")])
def test_a_precision_that_the_target_has_not_is_answered_with_what_a_command_can_say(target: str, precision: str):
    with pytest.raises(InputError, match=f"^target: precision '{precision}': ") as caught:
        SingleRun(DIGITS, target, precision).check_config()
    assert caught.value.remedy == "name another precision or another target"


def test_the_command_that_makes_it_knows_what_gave_its_keys():
    *_, option, given = SingleRun(DIGITS, "llvm -mcpu=foo").command("mod.so")
    assert option == "--notation" and json.loads(given)["options"]["targets.llvm-mcpu-foo"] == "target"


def test_the_files_of_a_models_weights_are_found_under_any_name(tmp_path: Path):
    (tmp_path / "net").mkdir()
    model = onnx.load(DIGITS)
    onnx.save(model, tmp_path / "net/m.onnx", save_as_external_data=True, location="weights.v2", size_threshold=0)
    assert SingleRun("net/m.onnx").config()["models"]["m"]["files"] == [str(tmp_path / "net/weights.v2")]
    assert "files" not in SingleRun(DIGITS).config()["models"]["digits"]
    (tmp_path / "net/weights.v2").rename("weights.v2")  # elsewhere: the import refuses it
    assert "files" not in SingleRun("net/m.onnx").config()["models"]["m"]


def test_a_link_to_a_model_keeps_its_own_name(tmp_path: Path):
    (tmp_path / "3f2a").write_bytes(Path(DIGITS).read_bytes())
    (tmp_path / "model.onnx").symlink_to("3f2a")
    assert SingleRun("model.onnx").config()["models"]["model"]["source"] == str(tmp_path / "model.onnx")


def test_relative_paths_of_a_layer_start_at_the_working_directory(tmp_path: Path):
    layer = {
        "models": {"digits": {"files": ["a.bin", "/b.bin"], "dataset": {"path": "images"}}},
        "cache": {"where": "s3://b"},
    }
    config = SingleRun(DIGITS, layer=layer).config()
    assert config["models"]["digits"]["files"] == [str(tmp_path / "a.bin"), "/b.bin"]
    assert config["models"]["digits"]["dataset"]["path"] == str(tmp_path / "images")
    assert config["cache"]["where"] == "s3://b"
    with pytest.raises(InputError, match="files"):
        SingleRun(DIGITS, layer={"models": {"digits": {"files": 3}}}).check_config()
