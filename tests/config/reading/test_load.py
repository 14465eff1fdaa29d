"""Reading config files: overlays, every mistake at once with its file, line and key."""

import contextlib
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from snakemake.utils import update_config

from tvmake.config.benchmark import BenchmarkOptions
from tvmake.config.dataset import DatasetConfig
from tvmake.config.model import ImportOptions
from tvmake.config.reading.load import check, load, load_layers, merge, read_yaml
from tvmake.config.root import Config
from tvmake.config.target import TargetConfig
from tvmake.errors import ErrorList, InputError, TvmakeError

MINIMAL = "models: {net: {source: net.onnx}}\n"

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text("abc", max_size=3)
values = st.recursive(
    scalars | st.lists(scalars, max_size=2), lambda below: st.dictionaries(st.sampled_from("klmn"), below, max_size=3)
)
mappings = st.dictionaries(st.sampled_from("klmn"), values, max_size=4)


@pytest.fixture
def write(tmp_path):
    def write_file(text: str, name: str = "tvmake.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def mistakes(*paths: Path) -> list[InputError]:
    with pytest.raises(TvmakeError) as caught:
        load(paths)
    error = caught.value
    return list(error.errors) if isinstance(error, ErrorList) else [error]


# --- overlays ----------------------------------------------------------------------------------------------------


@given(mappings)
def test_an_empty_overlay_changes_nothing(base):
    assert merge(base, {}) == base


@given(mappings, mappings)
def test_an_overlay_keeps_the_keys_it_does_not_name_and_wins_where_it_does(base, over):
    result = merge(base, over)
    assert result.keys() == base.keys() | over.keys()
    for key in result:
        if key not in over or (over[key] == {} and key in base):
            assert result[key] == base[key]
        elif isinstance(over[key], dict):
            below = base.get(key)
            assert result[key] == merge(below if isinstance(below, dict) else {}, over[key])
        else:
            assert result[key] == over[key]


@given(mappings, mappings)
def test_laying_an_overlay_twice_is_laying_it_once(base, over):
    assert merge(merge(base, over), over) == merge(base, over)


@given(mappings, mappings)
def test_files_merge_as_snakemake_merges_its_configfiles(base, over):
    expected = yaml.safe_load(yaml.safe_dump(base))
    update_config(expected, over)
    assert merge(base, over) == expected


@given(mappings, mappings)
def test_merging_leaves_its_arguments_alone(base, over):
    before = yaml.safe_dump([base, over])
    merge(base, over)
    assert yaml.safe_dump([base, over]) == before


FULL = {
    "models": {
        "a": {"source": "a.onnx", "dims": {"N": 2}, "goals": {"top1": 0.5, "rtol": None}},
        "b": {"source": "zoo:resnet18", "dataset": {"path": "x.npz", "limit": None, "preprocess": {"mean": [1, 2, 3]}}},
    },
    "targets": {"cpu": {"mcpu": "native"}, "gpu": {"kind": "opencl", "host": {"mtriple": "aarch64-linux-gnu"}}},
    "benchmark": {"profile": "mlperf-like", "repeat": 5},
    "variants": {"exclude": [{"model": "b", "target": "gpu"}]},
}


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        return [leaf for key, below in value.items() for leaf in leaves(below, (*path, key))]
    return [(path, value)]


@given(st.data())
def test_a_config_cut_into_files_at_any_keys_is_the_same_config(data):
    first, second = {}, {}
    for path, value in leaves(FULL):
        place = data.draw(st.sampled_from([first, second]))
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    assert check(merge(first, second), {}) == check(FULL, {})


def test_null_removes_a_key_of_an_earlier_file(write):
    base = write("models: {a: {source: a.onnx, opset: 17}, b: {source: b.onnx}}\nbenchmark: {repeat: 7}\n", "base.yaml")
    over = write("models: {b: null, a: {opset: null}}\nbenchmark: null\n", "over.yaml")
    config = load([base, over])
    assert list(config.models) == ["a"]
    assert config.models["a"].opset is None
    assert config.benchmark == BenchmarkOptions()


def test_null_stays_where_it_is_a_value_of_its_own(write):
    config = load(
        [write("models: {a: {source: a.onnx, goals: {rtol: null}, dataset: {path: x.npz, limit: null, labels: null}}}")]
    )
    model = config.models["a"]
    assert model.goals.model_fields_set == {"rtol"}
    assert (model.dataset.limit, model.dataset.labels) == (None, None)
    assert DatasetConfig(path="x.npz").limit is not None


def test_null_is_passed_on_to_a_factory(write):
    config = load([write("models: {a: {source: 'm:f', trusted: true, arguments: {weights: null}}}")])
    assert config.models["a"].arguments == {"weights": None}


# --- former keys -------------------------------------------------------------------------------------------------


def test_a_former_key_is_read_with_a_note_that_says_where_and_what_it_is_called_now(write):
    path = write(MINIMAL + "tuning:\n  passes: 3\ntargets: {cpu: {tuning: {passes: 4}}}\n")
    notes: list[str] = []
    config = load_layers([path], {}, notes.append)
    assert (config.tuning.rounds, config.targets["cpu"].tuning.rounds) == (3, 4)
    assert notes == [
        f"{path}:3: tuning.passes is now called tuning.rounds",
        f"{path}:4: targets.cpu.tuning.passes is now called targets.cpu.tuning.rounds",
    ]


def test_a_former_key_and_its_present_name_together_are_refused_beside_other_mistakes(write):
    path = write(MINIMAL + "tuning: {passes: 3, rounds: 3}\nbuild: {opt_level: 9}\n")
    twice, other = mistakes(path)
    assert str(twice) == (
        f"{path}:2: tuning.passes is the former name of tuning.rounds, and both are given\n  keep tuning.rounds"
    )
    assert "build.opt_level" in str(other)


def test_null_under_a_former_key_removes_it_from_an_earlier_file(write):
    base = write(MINIMAL + "tuning: {passes: 3}\n", "base.yaml")
    assert load([base, write("tuning: {passes: null}\n")]).tuning.rounds == 2
    assert load([base, write("tuning: {passes: null, rounds: 5}\n")]).tuning.rounds == 5


def test_mistakes_under_a_former_key_are_found_on_its_line(write):
    (mistake,) = mistakes(write(MINIMAL + "tuning:\n  trials: 1\n  passes: 99\n"))
    assert mistake.where.endswith(":4") and "tuning.rounds" in mistake.problem


@pytest.mark.parametrize(
    "text", ["tuning: 3", "targets: {cpu: null}", "targets: [llvm]", "targets: {cpu: {tuning: 1}}"]
)
def test_former_keys_are_looked_for_in_whatever_there_is(write, text: str):
    with contextlib.suppress(TvmakeError):
        load([write(MINIMAL + text)])


def test_lists_replace_as_a_whole(write):
    base = write(
        "models: {a: {source: a.onnx}}\nprecisions: {float32: {}, float16: {}}\nbuild: {dump: [ll, asm]}\n", "base.yaml"
    )
    over = write("precisions: [float16_acc32]\nbuild: {dump: [tir]}\n", "over.yaml")
    config = load([base, over])
    assert list(config.precisions) == ["float16_acc32"]
    assert config.build.dump == ["tir"]


def test_the_last_layer_needs_no_file(write):
    config = load_layers([write(MINIMAL + "benchmark: {repeat: 7, number: 2}")], {"benchmark": {"repeat": 9}})
    assert (config.benchmark.repeat, config.benchmark.number) == (9, 2)


# --- values that arrive as text ------------------------------------------------------------------------------------


def test_values_given_as_text_mean_what_they_spell(write):
    given_as_text = {
        "benchmark": {"repeat": "9", "min_duration_s": "1.5", "profile_ops": "true"},
        "models": {
            "net": {"opset": "17", "dims": {"N": "4"}, "inputs": {"x": {"shape": ["N", "3"], "range": ["0", "1"]}}}
        },
    }
    config = load_layers([write(MINIMAL)], given_as_text)
    model = config.models["net"]
    assert (config.benchmark.repeat, config.benchmark.min_duration_s, config.benchmark.profile_ops) == (9, 1.5, True)
    assert (model.opset, model.dims, model.inputs["x"].shape) == (17, {"N": 4}, ["N", 3])
    assert model.inputs["x"].range == (0.0, 1.0)


@given(st.integers(1, 10**6))
def test_a_number_and_its_text_give_equal_configs(number):
    def config(value):
        return check({"models": {"a": {"source": "a.onnx"}}, "benchmark": {"repeat": value}}, {})

    assert config(number) == config(str(number))


# --- spellings -----------------------------------------------------------------------------------------------------


def test_precisions_as_a_list_and_as_a_mapping_are_the_same(write):
    listed = load([write(MINIMAL + "precisions: [float32, float16]")])
    mapped = load([write(MINIMAL + "precisions: {float32: {}, float16: {}}")])
    assert listed == mapped
    assert [precision.base for precision in mapped.precisions.values()] == ["float32", "float16"]


def test_a_precision_of_your_own_names_its_base(write):
    config = load([write(MINIMAL + "precisions: {careful: {base: float16, never: [nn.softmax]}}")])
    assert config.precisions["careful"].base == "float16"


def test_targets_as_a_list_are_named_by_their_kind(write):
    config = load([write(MINIMAL + "targets: [llvm, opencl]")])
    assert config.targets == {"llvm": TargetConfig(kind="llvm"), "opencl": TargetConfig(kind="opencl")}


@pytest.mark.parametrize("axis", ["precisions", "targets"])
def test_a_list_of_details_is_refused_in_one_line(write, axis):
    (mistake,) = mistakes(write(MINIMAL + f"{axis}: [{{kind: llvm}}]"))
    assert mistake.where.endswith("tvmake.yaml:2")
    assert mistake.problem == f"{axis}: a list holds names only"


@pytest.mark.parametrize("axis", ["precisions", "targets"])
@pytest.mark.parametrize("nothing", ["[]", "{}"])
def test_an_axis_without_entries_is_refused(write, axis, nothing):
    (mistake,) = mistakes(write(MINIMAL + f"{axis}: {nothing}"))
    assert mistake.problem == f"{axis}: there is none"


def test_a_config_without_models_points_to_init(write):
    (mistake,) = mistakes(write("models: {}"))
    assert "tvmake init" in mistake.remedy


@pytest.mark.parametrize(
    ("text", "name", "remedy"),
    [
        ("models: {d: }", "models", "nothing is said of d; write models: {d: {source: FILE}}"),
        (MINIMAL + "targets: {g: }", "targets", "nothing is said of g; write targets: {g: {kind: llvm}}"),
        (MINIMAL + "precisions: {float32: , float16: }", "precisions",
         "nothing is said of float32, float16; write precisions: {float32: {}}"),
    ],
)  # fmt: skip
def test_names_with_nothing_after_their_colons_are_shown_as_they_are_written(write, text, name, remedy):
    (mistake,) = mistakes(write(text))
    assert (mistake.problem, mistake.remedy) == (f"{name}: there is none", remedy)


@pytest.mark.parametrize(
    ("text", "key", "remedy"),
    [
        ("models: {net: {source: net.onnx, arguments: {a: 1}}}", "models.net.arguments", "leave them out"),
        (MINIMAL + "export: {self_test: {inputs: dataset}}", "export.self_test", "give the model one (`dataset`), or write inputs: random"),
        (MINIMAL + "benchmark: {baseline: false}\nvalidation: {goals: {speedup: 2}}", "benchmark.baseline",
         "take out the goal `speedup` of models.net, or measure the baseline"),
        ("models: {net: {source: net.onnx, precisions: [float16]}}", "models.net.precisions",
         "did you mean 'float32'? Or add float16 to `precisions`"),
    ],
)  # fmt: skip
def test_what_would_have_no_effect_or_miss_what_it_needs_is_refused(write, text, key, remedy):
    (mistake,) = mistakes(write(text))
    assert (mistake.problem.partition(": ")[0], mistake.remedy) == (key, remedy)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("net.onnx", "onnx"),
        ("a.b/Net.ONNX", "onnx"),
        ("net.pt2", "pt2"),
        ("net.tflite", "tflite"),
        ("zoo:resnet18", "zoo"),
        ("package.module:make", "factory"),
        ("net.pth", None),
        ("package.module:2", None),
    ],
)
def test_the_format_is_told_from_the_source(source, kind):
    assert ImportOptions(source=source).source_format() == kind


# --- mistakes ------------------------------------------------------------------------------------------------------


def test_every_mistake_is_reported_at_once_with_its_file_line_and_key(write):
    base = write("models:\n  net:\n    source: net.onnx\n    opsett: 17\ntargets:\n  cpu: {kind: lvm}\n", "base.yaml")
    over = write("benchmark:\n  repeat: 0\nbuild:\n  dump:\n    - ll\n    - asn\n", "over.yaml")
    found = {(Path(m.where).name, m.problem.partition(":")[0]): m.remedy for m in mistakes(base, over)}
    assert found == {
        ("base.yaml:4", "models.net.opsett"): "did you mean 'opset'?",
        ("base.yaml:6", "targets.cpu.kind"): "did you mean 'llvm'?",
        ("over.yaml:2", "benchmark.repeat"): None,
        ("over.yaml:6", "build.dump[1]"): "did you mean 'asm'?",
    }


def test_every_broken_reference_is_reported_at_once(write):
    text = """
models:
  best: {source: net.onnx}
  net: {source: net.bin, targets: [cpux]}
targets:
  cpu: {kind: llvm}
  gpu: {kind: opencl, device: fone}
devices:
  phone: {via: local}
variants:
  exclude:
    - {precision: float8}
"""
    found = {(Path(m.where).name, m.problem.partition(":")[0]): m.remedy for m in mistakes(write(text))}
    assert found == {
        ("tvmake.yaml:3", "models.best"): "choose another one",
        ("tvmake.yaml:4", "models.net.source"): None,
        ("tvmake.yaml:4", "models.net.targets"): "did you mean 'cpu'?",
        ("tvmake.yaml:7", "targets.gpu.device"): "did you mean 'phone'?",
        ("tvmake.yaml:12", "variants.exclude[0].precision"): "did you mean 'float32'?",
    }


def test_a_value_is_blamed_on_the_file_that_set_it_last(write):
    base = write("models: {net: {source: net.onnx}}\nbenchmark: {repeat: 5}\n", "base.yaml")
    over = write("\n\nbenchmark: {repeat: -5}\n", "over.yaml")
    (mistake,) = mistakes(base, over)
    assert mistake.where == f"{over}:3"


def test_input_names_with_brackets_stay_readable(write):
    (mistake,) = mistakes(write("models: {net: {source: net.onnx, inputs: {'x[0]:1': {shape: [0]}}}}"))
    assert mistake.problem.startswith("models.net.inputs.x[0]:1.shape[0]: ")


@given(st.sampled_from([name for name in BenchmarkOptions.model_fields if len(name) > 5]), st.data())
def test_a_key_with_a_letter_missing_gets_the_right_one_suggested(key, data):
    cut = data.draw(st.integers(0, len(key) - 1))
    typo = key[:cut] + key[cut + 1 :]
    assume(typo not in BenchmarkOptions.model_fields)
    with pytest.raises(InputError) as caught:
        check({"models": {"a": {"source": "a.onnx"}}, "benchmark": {typo: 1}}, {})
    assert caught.value.problem == f"benchmark.{typo}: unknown key"
    assert caught.value.remedy == f"did you mean '{key}'?"


def test_a_key_far_from_any_gets_the_known_ones_listed(write):
    (mistake,) = mistakes(write(MINIMAL + "build: {zzz: 1}"))
    assert mistake.remedy == (
        "known keys here: opt_level, pass_config, disabled_passes, exec_mode, cuda_graph, schedule_rules, dump"
    )


def test_a_target_tag_close_to_a_known_one_gets_it_suggested(write):
    (mistake,) = mistakes(write(MINIMAL + "targets: {phone: {tag: qcom/adreno-opencl-textures}}"))
    assert "targets.phone.tag" in mistake.problem
    assert "did you mean 'qcom/adreno-opencl-texture'?" in mistake.remedy


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("models: {}\nmodels: {}\n", 2, "models"),
        ("models:\n  net: {source: a.onnx}\n  net: {source: b.onnx}\n", 3, "models.net"),
        ("models: {net: {source: a.onnx, source: b.onnx}}\n", 1, "models.net.source"),
    ],
)
def test_a_key_given_twice_is_refused(write, text, line, key):
    (mistake,) = mistakes(write(text))
    assert mistake.where.endswith(f"tvmake.yaml:{line}")
    assert mistake.problem == f"the key '{key}' is given twice"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("models: [", "not valid YAML"),
        ("models: 'a\n", "not valid YAML"),
        ("\tmodels: 1", "not valid YAML"),
        ("- models", "expected a mapping of keys, found a list"),
        ("models: &m {net: *m}", "contains itself"),
        ("models: !!python/object:os.system {}", "not valid YAML"),
    ],
)
def test_what_is_no_config_is_refused_in_one_line(write, text, problem):
    (mistake,) = mistakes(write(text))
    assert problem in mistake.problem
    assert "\n" not in mistake.problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("models: 3", "models: expected a mapping of names (got 3)"),
        ("models: {net: net.onnx}", "models.net: expected a mapping of keys (got 'net.onnx')"),
        ("models: {net: {source: 5}}", "models.net.source: expected a text (got 5)"),
        (MINIMAL + "build: {dump: ll}", "build.dump: expected a list (got 'll')"),
        (MINIMAL + "benchmark: {repeat: many}", "benchmark.repeat: expected a whole number (got 'many')"),
        (
            MINIMAL + "transform: {fold_batch_norm: maybe}",
            "transform.fold_batch_norm: expected true or false (got 'maybe')",
        ),
        (
            MINIMAL + "transform: {passes: [nopass]}",
            "transform.passes[0]: expected package.module:function (got 'nopass')",
        ),
        ("models: {net: {source: a.onnx, targets: []}}", "models.net.targets: expected at least one entry (got [])"),
    ],
)
def test_a_wrong_kind_of_value_is_told_in_the_words_of_a_config_file(write, text, problem):
    (mistake,) = mistakes(write(text))
    assert mistake.problem == problem


@pytest.mark.parametrize("axis", ["models", "targets", "precisions"])
def test_names_that_one_directory_would_hold_on_other_systems_are_refused_with_both_places(write, axis):
    entry = {"models": "{source: n.onnx}", "targets": "{kind: llvm}", "precisions": "{base: float32}"}[axis]
    least = "" if axis == "models" else MINIMAL
    found = mistakes(write(f"{least}{axis}:\n  Net: {entry}\n  other: {entry}\n  net: {entry}\n"))
    line = len(least.splitlines()) + 2
    for error, (number, name, other) in zip(found, ((line, "Net", "net"), (line + 2, "net", "Net")), strict=True):
        assert error.where.endswith(f"tvmake.yaml:{number}")
        assert error.problem.startswith(f"{axis}.{name}: differs from '{other}' in upper and lower case only")


def test_a_name_of_the_results_own_is_refused_in_capitals_too(write):
    (mistake,) = mistakes(write("models: {Best: {source: n.onnx}}\n"))
    assert mistake.problem == "models.Best: the name is used by results/best"


def test_a_misspelt_file_that_is_there_is_named(write):
    path = write(MINIMAL)
    (mistake,) = mistakes(path.with_suffix(".yml"))
    assert mistake.remedy == f"did you mean '{path}'?"


def test_configs_of_other_programs_are_told_by_their_names(write):
    (mistake,) = mistakes(write("[models.net]\n", "config.toml"))
    assert mistake.problem == "is TOML, where YAML is expected"
    load([write('{"models": {"net": {"source": "net.onnx"}}}', "config.json")])


def test_a_missing_file_points_to_init(tmp_path):
    (mistake,) = mistakes(tmp_path / "none.yaml")
    assert mistake.problem == "no such config file"
    assert "tvmake init" in mistake.remedy


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"\x08\x07\xff\xfe")
    assert mistakes(path)[0].problem == "cannot be read: it is not UTF-8 text"


def test_a_model_is_no_config(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"\x08\x07")
    (mistake,) = mistakes(tmp_path / "model.onnx")
    assert mistake.problem == "is a model, where a config is expected"
    assert f"`tvmake compile {tmp_path / 'model.onnx'}`" in mistake.remedy


@given(st.text(max_size=60))
def test_any_text_is_read_as_a_mapping_or_refused_with_an_input_error(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        assert isinstance(read_yaml(path, {}), dict)
    except InputError as error:
        assert error.where.startswith(str(path))


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(Config.model_fields)), junk))
def test_any_values_give_a_config_or_errors_that_name_a_key(values):
    try:
        check(values, {})
    except TvmakeError as error:
        for single in getattr(error, "errors", [error]):
            assert single.problem.partition(": ")[0]
            assert single.exit_code == 1


def test_a_pipe_is_no_config_and_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "tvmake.yaml")
    with pytest.raises(InputError, match="cannot be read: it is a pipe, not a file"):
        read_yaml(tmp_path / "tvmake.yaml", {})


def test_a_network_that_the_zoo_does_not_have_is_refused_by_line(tmp_path):
    file = tmp_path / "tvmake.yaml"
    file.write_text("models:\n  a: {source: 'zoo:lenet'}\ntargets: {cpu: {kind: llvm}}\n")
    with pytest.raises(InputError, match=r"tvmake.yaml:2: models.a.source: the zoo has no network 'lenet'") as caught:
        load_layers([file], {})
    assert "there are: inception_v3, " in caught.value.remedy
