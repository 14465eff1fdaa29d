"""Merged config files."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from snakemake.utils import update_config

from tests.config.reading.mistakes import MINIMAL, mistakes
from tvmake.config.benchmark import BenchmarkOptions
from tvmake.config.dataset import DatasetConfig
from tvmake.config.reading.load import check, load, load_layers, merge
from tvmake.errors import InputError

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text("abc", max_size=3)
values = st.recursive(
    scalars | st.lists(scalars, max_size=2), lambda below: st.dictionaries(st.sampled_from("klmn"), below, max_size=3)
)
mappings = st.dictionaries(st.sampled_from("klmn"), values, max_size=4)


@given(mappings)
def test_an_empty_overlay_changes_nothing(base):
    assert merge(base, {}) == base


@given(mappings, mappings)
def test_an_overlay_replaces_the_keys_it_names_and_keeps_all_others(base, over):
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
def test_merging_an_overlay_twice_equals_merging_it_once(base, over):
    assert merge(merge(base, over), over) == merge(base, over)


@given(mappings, mappings)
def test_files_merge_as_snakemake_merges_its_configfiles(base, over):
    expected = yaml.safe_load(yaml.safe_dump(base))
    update_config(expected, over)
    assert merge(base, over) == expected


@given(mappings, mappings)
def test_merging_does_not_change_its_arguments(base, over):
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
        mapping = data.draw(st.sampled_from([first, second]))
        for key in path[:-1]:
            mapping = mapping.setdefault(key, {})
        mapping[path[-1]] = value
    assert check(merge(first, second), {}) == check(FULL, {})


def test_null_removes_a_key_of_an_earlier_file(write):
    base = write("models: {a: {source: a.onnx, opset: 17}, b: {source: b.onnx}}\nbenchmark: {repeat: 7}\n", "base.yaml")
    over = write("models: {b: null, a: {opset: null}}\nbenchmark: null\n", "over.yaml")
    config = load([base, over])
    assert list(config.models) == ["a"]
    assert config.models["a"].opset is None
    assert config.benchmark == BenchmarkOptions()


@pytest.mark.parametrize(
    "over", ["precisions: [float32]", "targets: {gpu: null}", "models: {b: null}"], ids=["precision", "target", "model"]
)
def test_an_exclusion_of_what_a_later_file_removes_has_no_effect(write, over):
    base = write(
        "models: {a: {source: a.onnx}, b: {source: b.onnx}}\nprecisions: [float16, float32]\n"
        "targets: {cpu: {kind: llvm}, gpu: {kind: opencl}}\n"
        "variants: {exclude: [{model: b, precision: float16, target: gpu}]}\n",
        "base.yaml",
    )
    config = load([base, write(over, "over.yaml")])
    assert len(config.combinations()) == 4
    mistyped = write("variants: {exclude: [{precision: float61}]}", "over.yaml")
    with pytest.raises(InputError, match=r"variants.exclude\[0\].precision: no 'float61'"):
        load([base, mistyped])


def test_an_option_may_remove_what_a_file_excludes(write):
    base = write(
        "models: {a: {source: a.onnx}}\nprecisions: [float16, float32]\nvariants: {exclude: [{precision: float16}]}"
    )
    assert load_layers([base], {"precisions": ["float32"]}).combinations() == (("a", "float32", "cpu"),)


def test_null_stays_for_keys_that_accept_it(write):
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


def test_an_error_names_the_file_that_set_the_value_last(write):
    base = write("models: {net: {source: net.onnx}}\nbenchmark: {repeat: 5}\n", "base.yaml")
    over = write("\n\nbenchmark: {repeat: -5}\n", "over.yaml")
    (mistake,) = mistakes(base, over)
    assert mistake.where == f"{over}:3"
