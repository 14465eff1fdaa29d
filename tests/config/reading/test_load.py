"""Read configs, and report all mistakes together with file, line and key."""

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.config.reading.mistakes import MINIMAL, mistakes
from tvmake.config.benchmark import BenchmarkOptions
from tvmake.config.reading.load import check, load, load_layers
from tvmake.config.root import Config
from tvmake.config.target import TargetConfig
from tvmake.errors import InputError, TvmakeError
from tvmake.frontend.options import ImportOptions

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text("abc", max_size=3)
values = st.recursive(
    scalars | st.lists(scalars, max_size=2), lambda below: st.dictionaries(st.sampled_from("klmn"), below, max_size=3)
)
mappings = st.dictionaries(st.sampled_from("klmn"), values, max_size=4)


def test_values_in_text_form_are_parsed(write):
    texts = {
        "benchmark": {"repeat": "9", "min_duration_s": "1.5", "profile_ops": "true"},
        "models": {
            "net": {"opset": "17", "dims": {"N": "4"}, "inputs": {"x": {"shape": ["N", "3"], "range": ["0", "1"]}}}
        },
    }
    config = load_layers([write(MINIMAL)], texts)
    model = config.models["net"]
    assert (config.benchmark.repeat, config.benchmark.min_duration_s, config.benchmark.profile_ops) == (9, 1.5, True)
    assert (model.opset, model.dims, model.inputs["x"].shape) == (17, {"N": 4}, ["N", 3])
    assert model.inputs["x"].range == (0.0, 1.0)


@settings(max_examples=25)
@given(st.integers(1, 10**6))
def test_a_number_and_its_text_give_equal_configs(number):
    def config(value):
        return check({"models": {"a": {"source": "a.onnx"}}, "benchmark": {"repeat": value}}, {})

    assert config(number) == config(str(number))


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
    assert mistake.problem == f"{axis}: a list can only have names"


@pytest.mark.parametrize("axis", ["precisions", "targets"])
@pytest.mark.parametrize("nothing", ["[]", "{}"])
def test_an_axis_without_entries_is_refused(write, axis, nothing):
    (mistake,) = mistakes(write(MINIMAL + f"{axis}: {nothing}"))
    assert mistake.problem == f"{axis}: none is given"


def test_a_config_without_models_points_to_init(write):
    (mistake,) = mistakes(write("models: {}"))
    assert "tvmake init" in mistake.remedy


@pytest.mark.parametrize(
    ("text", "key", "remedy"),
    [
        ("models: {a: , b: {source: b.onnx}}", "models.a", "write models: {a: {source: FILE}}, or leave it out"),
        (MINIMAL + "targets: {g: , h: {kind: llvm}}", "targets.g", "write targets: {g: {kind: llvm}}, or leave it out"),
        (MINIMAL + "precisions: {float32: , float16: {}}", "precisions.float32",
         "write precisions: {float32: {}}, or leave it out"),
    ],
)  # fmt: skip
def test_a_name_without_a_value_beside_others_is_not_ignored_silently(write, text, key, remedy):
    (mistake,) = mistakes(write(text))
    assert (mistake.problem, mistake.remedy) == (f"{key}: has no value", remedy)


def test_an_explicit_null_is_allowed_for_files_that_are_also_overlays(write):
    assert list(load([write(MINIMAL + "targets: {g: null, h: {kind: llvm}}")]).targets) == ["h"]


def test_a_name_without_a_value_in_a_later_file_removes_the_entry(write):
    first = write(MINIMAL + "targets: {g: {kind: llvm}, h: {kind: llvm}}", "first.yaml")
    assert list(load([first, write("targets: {g: , x: }", "second.yaml")]).targets) == ["h"]


@pytest.mark.parametrize(
    ("text", "key", "remedy"),
    [
        ("models: {net: {source: net.onnx, arguments: {a: 1}}}", "models.net.arguments", "leave them out"),
        (MINIMAL + "export: {self_test: {inputs: dataset}}", "export.self_test", "give the model one (`dataset`), or write inputs: random"),
        (MINIMAL + "benchmark: {baseline: false}\nvalidation: {goals: {speedup: 2}}", "benchmark.baseline",
         "remove the goal `speedup` of models.net, or measure the baseline"),
        ("models: {net: {source: net.onnx, precisions: [float16]}}", "models.net.precisions",
         "did you mean 'float32'? Or add float16 to `precisions`"),
    ],
)  # fmt: skip
def test_options_without_effect_or_with_missing_requirements_are_refused(write, text, key, remedy):
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
def test_the_source_determines_the_format(source, kind):
    assert ImportOptions(source=source).source_format() == kind


def test_every_mistake_is_reported_at_once_with_its_file_line_and_key(write):
    base = write("models:\n  net:\n    source: net.onnx\n    opsett: 17\ntargets:\n  cpu: {kind: lvm}\n", "base.yaml")
    over = write("benchmark:\n  repeat: 0\nbuild:\n  dump:\n    - ll\n    - asn\n", "over.yaml")
    remedies = {(Path(m.where).name, m.problem.partition(":")[0]): m.remedy for m in mistakes(base, over)}
    assert remedies == {
        ("base.yaml:4", "models.net.opsett"): "did you mean 'opset'?",
        ("base.yaml:6", "targets.cpu.kind"): "did you mean 'llvm'?",
        ("over.yaml:2", "benchmark.repeat"): None,
        ("over.yaml:6", "build.dump[1]"): "did you mean 'asm'?",
    }


OF_ANOTHER_PROGRAM = "if the file was converted for another program, give the model that it was converted from"


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
    remedies = {(Path(m.where).name, m.problem.partition(":")[0]): m.remedy for m in mistakes(write(text))}
    assert remedies == {
        ("tvmake.yaml:3", "models.best"): "choose another one",
        ("tvmake.yaml:4", "models.net.source"): OF_ANOTHER_PROGRAM,
        ("tvmake.yaml:4", "models.net.targets"): "did you mean 'cpu'?",
        ("tvmake.yaml:7", "targets.gpu.device"): "did you mean 'phone'?",
        ("tvmake.yaml:12", "variants.exclude[0].precision"): "did you mean 'float32'?",
    }


def test_input_names_with_brackets_stay_readable(write):
    (mistake,) = mistakes(write("models: {net: {source: net.onnx, inputs: {'x[0]:1': {shape: [-1]}}}}"))
    assert mistake.problem.startswith("models.net.inputs.x[0]:1.shape[0]: ")


@settings(max_examples=25)
@given(st.sampled_from([name for name in BenchmarkOptions.model_fields if len(name) > 5]), st.data())
def test_a_key_with_a_missing_letter_gets_the_right_suggestion(key, data):
    cut = data.draw(st.integers(0, len(key) - 1))
    typo = key[:cut] + key[cut + 1 :]
    assume(typo not in BenchmarkOptions.model_fields)
    with pytest.raises(InputError) as caught:
        check({"models": {"a": {"source": "a.onnx"}}, "benchmark": {typo: 1}}, {})
    assert caught.value.problem == f"benchmark.{typo}: unknown key"
    assert caught.value.remedy == f"did you mean '{key}'?"


def test_an_unrecognisable_key_gets_a_list_of_the_known_ones(write):
    (mistake,) = mistakes(write(MINIMAL + "build: {zzz: 1}"))
    assert mistake.remedy == (
        "known keys here: opt_level, pass_config, disabled_passes, exec_mode, cuda_graph, schedule_rules, dump"
    )


def test_a_target_tag_close_to_a_known_one_gets_it_suggested(write):
    (mistake,) = mistakes(write(MINIMAL + "targets: {phone: {tag: qcom/adreno-opencl-textures}}"))
    assert "targets.phone.tag" in mistake.problem
    assert "did you mean 'qcom/adreno-opencl-texture'?" in mistake.remedy


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
def test_a_value_of_the_wrong_type_is_reported_in_yaml_terms(write, text, problem):
    (mistake,) = mistakes(write(text))
    assert mistake.problem == problem


def test_a_reserved_name_is_refused_in_any_case(write):
    (mistake,) = mistakes(write("models: {Best: {source: n.onnx}}\n"))
    assert mistake.problem == "models.Best: the name is used by results/best"


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), below, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from(list(Config.model_fields)), junk))
def test_any_values_give_a_config_or_errors_that_name_a_key(values):
    try:
        check(values, {})
    except TvmakeError as error:
        for single in getattr(error, "errors", [error]):
            assert single.problem.partition(": ")[0]
            assert single.exit_code == 1


def test_a_network_that_the_zoo_does_not_have_is_refused_by_line(tmp_path):
    file = tmp_path / "tvmake.yaml"
    file.write_text("models:\n  a: {source: 'zoo:lenet'}\ntargets: {cpu: {kind: llvm}}\n")
    with pytest.raises(InputError, match=r"tvmake.yaml:2: models.a.source: the zoo has no network 'lenet'") as caught:
        load_layers([file], {})
    assert "there are: inception_v3, " in caught.value.remedy
