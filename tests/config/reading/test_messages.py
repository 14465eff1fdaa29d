"""Messages for a config's mistakes: position, problem and remedy."""

import datetime
import re
import warnings
from pathlib import Path

import pytest
import yaml

from tvmake.cli.configs import overlay
from tvmake.config.reading.load import check, load, load_layers
from tvmake.errors import InputError

NET = {"models": {"net": {"source": "net.onnx"}}}


def refused(**keys: object) -> str:
    with pytest.raises(InputError) as caught:
        check({**NET, **keys}, {})
    return str(caught.value)


def of_model(**keys: object) -> str:
    return refused(models={"net": {"source": "net.onnx", **keys}})


@pytest.mark.parametrize(
    ("goals", "words"),
    [
        ({"latency_ms": True}, "latency_ms: expected a number (got 'true')"),
        ({"latency_ms": {"p50": True}}, "latency_ms.p50: expected a number (got 'true')"),
        ({"latency_ms": {90: 3}}, "write a percentile such as p50, p90 or p99.9"),
        ({"latency_ms": {"p101": 5}}, "expected a percentile such as p50, p90 or p99.9 (got 'p101')"),
        (["top1"], "known keys here: rtol, atol"),
        ({"metrics": {"f1": {"use": "my.metrics:f1", "min": 0.5}}}, "did you mean 'at_least'?"),
    ],
    ids=str,
)
def test_a_wrong_goal_is_named_with_its_key(goals: object, words: str):
    message = of_model(goals=goals)
    assert message.startswith("config: models.net.goals")
    assert words in message


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"precisions": "float32"}, "write precisions: [float32]"),
        ({"targets": "llvm"}, "write targets: [llvm], or targets: {cpu: {kind: llvm}}"),
        ({"models": ["net.onnx"]}, "write models: {NAME: {source: FILE}}"),
        ({"build": {"dump": "ll, asm"}}, "write dump: [ll, asm]"),
        ({"build": {"dump": ["LLVM"]}}, "did you mean 'll'?"),
        ({"tuning": {"trials": True}}, "tuning.trials: expected a whole number (got 'true')"),
        ({"title": datetime.date(2026, 1, 1)}, "title: expected a text (got 2026-01-01)"),
        ({"models": {"a" * 81: {"source": "net.onnx"}}}, "expected at most 80 letters (got 'aaa"),
        ({"devices": {"p": {"gres": "phone=1"}}}, "expected a resource as Slurm names it, such as phone or phone:1"),
        ({"precisions": {"p": {"base": "int4_weights", "group": 48}}}, "expected one of 32, 64, 128 (got 48)"),
        ({"export": {"self_test": {"samples": 0}}}, "export.self_test.samples: expected at least 1 (got 0)"),
        ({"transform": {"layout": "nchw"}}, "expected one of keep, NCHW, NHWC, auto (got 'nchw')"),
        ({"targets": {"g": {"kind": "opencl", "host": "cortex"}}}, "targets.g.host: no such target 'cortex'"),
        ({"models": {"seed": 3}}, "it belongs to a model: write models: {NAME: {seed: 3}}"),
        ({"source": "net.onnx"}, "it belongs to a model: write models: {NAME: {source: net.onnx}}"),
        ({"metrics": {}}, "it belongs to validation.goals"),
        ({"models": {"net": {"source": "net.onnx", "format": "zoo"}}}, "'format: zoo' is for zoo:NAME"),
        ({"models": {"net": {"source": "net.onnx", "format": "relax"}}}, "is for package.module:function"),
        ({"models": {"net": {"source": "zoo:resnet18", "format": "onnx"}}}, "leave `format` out"),
        ({"models": {"net": {"source": "net.onnx", "format": "pytorch"}}}, "did you mean 'pt2'?"),
        ({"models": {"net": {"source": "net.pkl"}}}, "pickles are not read"),
        (
            {"models": {"net": {"source": "microsoft/resnet-50"}}},
            "for a model of a hub, name a function that returns it",
        ),
        ({"models": {"net": {"source": "net.onnx", "dataset": "x.npz"}}}, "write dataset: {path: x.npz}"),
        ({"precisions": [16]}, "a list can only have names, and 16 is not a string\n  put names in quotation marks"),
        ({"models": {"net": {"source": "net.onnx", "inputs": {"x": {"shape": [-1]}}}}}, "write a name, such as batch"),
        (
            {"validation": {"goals": {"metrics": {"top1": {"use": "my:f"}}}}},
            "metrics: 'top1' is one of tvmake's own goals\n  rename the metric",
        ),
        ({"targets": {"cpu": {"kind": "llvm", "num-cores": 4}}}, "write attributes: {num-cores: 4}"),
        ({"targets": {"cpu": {"kind": "llvm", "keys": ["cpu"]}}}, 'write attributes: {keys: ["cpu"]}'),
        ({"targets": {"cpu": {"device": "arm_cpu"}}}, "the config has no `devices`: add arm_cpu there"),
        (
            {"models": {"net": {"source": "net.onnx", "inputs": {"x": {"range": [5, 1]}}}}},
            "write the lower one first: [1, 5]",
        ),
        (
            {"models": {"net": {"source": "net.onnx", "precisions": ["fp16"]}}},
            "tvmake's own are float32, tf32, float16",
        ),
        ({"precisions": ["bfloat16"]}, "bfloat16 is not supported; float16 has the same size"),
        ({"precisions": ["INT4"]}, "4-bit arithmetic is not supported; int4_weights stores weights in 4 bits"),
        ({"models": {"net": {"source": "net.onnx", "targets": ["board"]}}}, "or add board to `targets`"),
        ({"benchmark": {"repeat": 99_999_999_999}}, "expected at most 1000000"),
        ({"benchmark": {"trials": 3}}, "it belongs to tuning"),
        ({"cache": {"directory": "x"}}, "did you mean 'where'?"),
        ({"tuning": {"tuner": "xgb"}}, "did you mean 'cost_model'?"),
        ({"tuning": {"passes": 3}}, "did you mean 'rounds'?"),
        ({"devices": {"phone": "phone.local"}}, "known keys here: via, "),
        ({"tuning": {"measure": {"builders": "auto"}}}, "leave builders out for its default"),
        ({"build": {"exec_mode": "aot"}}, "did you mean 'compiled'?"),
        ({"benchmark": {"repeat": 0}}, "expected at least 1 (got 0)"),
        ({"build": {"opt_level": 9}}, "expected at most 4 (got 9)"),
        ({"transform": {"layout": "nhwc"}}, "did you mean 'NHWC'?"),
        ({"benchmark": "quick"}, "known keys here: profile, baseline"),
        ({"benchmark": {"minRepeatMs": 3}}, "did you mean 'min_repeat_ms'?"),
        ({"benchmark": {"min-repeat-ms": 3}}, "did you mean 'min_repeat_ms'?"),
        ({"TUNING": {"trials": 3}}, "did you mean 'tuning'?"),
        ({"benchmark": {"repeat:3": None}}, "write a space after the colon: repeat: 3"),
    ],
    ids=str,
)
def test_an_invalid_value_is_reported_with_a_valid_one(keys: dict[str, object], words: str):
    assert words in refused(**keys)


def test_a_shape_in_text_form_is_rewritten_as_a_list():
    assert "write shape: [1, 3, 8, 8]" in of_model(inputs={"x": {"shape": "1x3x8x8"}})
    assert "write x: {shape: [1, 3, 8, 8]}" in of_model(inputs={"x": [1, 3, 8, 8]})
    assert "known keys here: shape, dtype, range" in of_model(inputs={"x": 5})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (5, "range: expected a list (got 5)"),
        ([5], "range[1]: an entry is missing"),
        ([5, 6, 7], "range: expected at most 2 entries"),
    ],
)
def test_a_range_is_a_list_of_two(given: object, words: str):
    assert words in of_model(inputs={"x": {"range": given}})


@pytest.mark.parametrize(
    ("text", "words", "remedy"),
    [
        (b"models:\n\tnet: {source: net.onnx}\n", ":2: not valid YAML", "indent with spaces"),
        (b"models: {}\ntitle: Pr\xfcfung\n", ":2: cannot be read: it is not UTF-8 text", "iconv -f ENCODING -t UTF-8"),
        (b"models:\n  net: {source: net.onnx\n", "not valid YAML", "check line 2: an unclosed bracket"),
        (b'models:\n  net: {source: "net.onnx}\n', "not valid YAML", "check line 2: an unclosed bracket"),
        (b"models: *x\n", "not valid YAML", "in quotation marks"),
        (
            b"models: {}\ntitle: 'a\0b'\n",
            ":2: not valid YAML: control characters are not allowed",
            "remove the character",
        ),
        ("title: x".encode("utf-16"), ":1: cannot be read: it is not UTF-8 text", "save it as UTF-8"),
        (b"title: x\0\n", ":1: not valid YAML: control characters are not allowed", "remove the character"),
        (b"models: !include other.yaml\n", ":1: not valid YAML", "a config cannot have tags"),
        (b"[models.d]\nsource = 1\n", ":2: not valid YAML", "a key has a colon and a space"),
        (b"title: x\ntitle: y\n", ":2: the key 'title' is set twice", "line 1 has it too; keep one of them"),
        (b'models: {"a\\nb": {source: n.onnx}}\n', r":1: models.a\nb: expected a name of letters", ""),
        (b"models: {}\n---\nmodels: {}\n", ":2: not valid YAML: but found another document", "-c FILE -c FILE"),
        (b"models:\n  d:\n    source: zoo: resnet18\n", ":3: not valid YAML", "a text with a colon and a space"),
        (b'title: "C:\\models"\n', ":1: not valid YAML", "write '\u2026' instead of"),
        (b"models: {d:{source: n.onnx}}\n", ":1: not valid YAML", "write a space after the colon: d: {"),
        (b"models:\n  d:{source: n.onnx}\n", ":2: models.d:{source", "write a space after the colon: d: {"),
        (b"title: 10:22\n", ":1: YAML reads 10:22 as a number in base 60", "put it in quotation marks"),
        (b"title: 2.30\nmodels: {d: {source: n.onnx}}\n", ":1: title: expected a text (got 2.3)", "marks: '2.30'"),
        (b"hello\n", "expected a mapping of keys, found text", "begin with `models:`"),
        (b"- net.onnx\n", "expected a mapping of keys, found a list", "begin with `models:`"),
        (
            b"precisions: [*a]\n",
            ":1: not valid YAML: found undefined alias",
            "in quotation marks; an alias must follow its anchor",
        ),
        (b"title: x\n\xef\xbb\xbfmodels: {}\n", ":2: ", ""),
        (b"models: &m {d: *m}\n", ":1: 'models.d' contains itself", "a value that ends before it"),
        (b"models:\n  d:\n   source: n.onnx\n    seed: 3\n", ":4: not valid YAML", "start in one column"),
        (b"models: {d: {source: n.onnx}}\n~: 3\n", ":2: ~: unknown key", "known keys here"),
        (b"models: {d: {source: n.onnx}}\non: 3\n", ":2: on: unknown key", "known keys here"),
        (
            b"models: {d: {source: n.onnx}}\nFILE: n.onnx\n",
            ":2: FILE: unknown key",
            "it belongs to a model: write models: {NAME: {source: n.onnx}}",
        ),
        (
            b"models: {d: {source: n.onnx}}\nmodel: n.onnx\n",
            ":2: model: unknown key",
            "it belongs to a model: write models: {NAME: {source: n.onnx}}",
        ),
        (
            b"models: {d: {source: n.onnx}}\nmodel: {e: {source: n.onnx}}\n",
            ":2: model: unknown key",
            "did you mean 'models'?",
        ),
        (b"models: {d: {source: n.onnx}}\nbackend: xnnpack\n", ":2: backend: unknown key", "known keys here"),
        (
            "models: {d: {source: n.onnx}}\nprecisi\u043ens: [float32]\n".encode(),
            ":2: precisi\u043ens: unknown key; '\u043e' is cyrillic small letter o",
            "did you mean 'precisions'?",
        ),
        (b"models: {d: {source: nets.py}}\n", "'nets.py': it is Python code", "as in nets:FUNCTION"),
        (b"models: {d: {source: n.onnx, 3: x}}\n", ":1: models.d[3]: unknown key", "known keys here"),
        (b"precisions: [float32]\n", "models: this key is required", "`tvmake init MODEL` writes a config with it"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_invalid_text_is_reported_with_its_line(text: bytes, words: str, remedy: str, tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_bytes(text)
    with pytest.raises(InputError) as caught:
        load([tmp_path / "tvmake.yaml"])
    assert words in str(caught.value)
    assert remedy in str(caught.value)


def test_an_unknown_key_of_a_setting_is_reported_at_the_setting(tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_text(yaml.safe_dump(NET))
    with pytest.raises(InputError, match=r"^--set benchmrk\.repeat=3: benchmrk: unknown key"):
        load_layers([tmp_path / "tvmake.yaml"], {"benchmrk": {"repeat": 3}})


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("benchmark.repeat=0", "benchmark.repeat: expected at least 1 (got 0)"),
        ("benchmark={repeat:3}", "write a space after the colon: repeat: 3"),
    ],
)
def test_a_mistake_of_a_setting_is_reported_at_the_setting(setting: str, words: str, tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_text(yaml.safe_dump({**NET, "precisions": ["float32"]}))
    with pytest.raises(InputError) as caught:
        load_layers([tmp_path / "tvmake.yaml"], overlay([setting]))
    key = re.split(r"[={:]", setting)[0]
    assert str(caught.value).startswith(f"--set {key}") and words in str(caught.value)


def test_a_variables_value_in_a_setting_is_not_shown(tmp_path: Path):
    (tmp_path / "tvmake.yaml").write_text(yaml.safe_dump(NET))
    with pytest.raises(InputError) as caught:
        load_layers([tmp_path / "tvmake.yaml"], overlay(["devices.p.env.TOKEN=12345"]))
    assert "12345" not in str(caught.value)


def written(text: str, tmp_path: Path) -> str:
    file = tmp_path / "tvmake.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load([file])
    return str(caught.value).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models:\n  net: net.onnx", "tvmake.yaml:2: models.net: expected a mapping of keys (got 'net.onnx')\n  write net: {source: net.onnx}"),
        ("models: {net: {source: n.onnx}}\ntargets:\n  kind: llvm\n  mcpu: native", "write targets: {NAME: {kind: llvm}}"),
        ("models: {net: {source: n.onnx}}\ntargets: {cpu: {kind: llvm, march: native}}", "did you mean 'mcpu'?"),
        ("models: {net: {source: n.onnx, inputs: {x: {shape: [true, 3]}}}}", "shape[0]: expected a whole number or a text (got True)"),
        (
            "models: {net: {source: n.onnx}}\ndevices: {d: {via: ssh, host: h, env: {'A=B': c}}}",
            "devices.d.env.A=B: expected the name of a variable: letters, digits and underscores, not a digit first (got 'A=B')",
        ),
        ("models: {net: {source: n.onnx}}\ndevices: {d: {via: ssh, host: h, env: {1: c}}}", "tvmake.yaml:2: devices.d.env: YAML reads the name 1"),
    ],
)  # fmt: skip
def test_typing_errors_are_reported_with_the_likely_intention(text: str, words: str, tmp_path: Path):
    assert words in written(text, tmp_path)


def test_a_target_may_have_the_name_of_a_key():
    assert set(check({**NET, "targets": {"host": "llvm", "kind": {"kind": "llvm"}}}, {}).targets) == {"host", "kind"}


def test_a_single_name_of_a_precision_is_an_error_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "write precisions: [float32]" in refused(precisions="float32")
