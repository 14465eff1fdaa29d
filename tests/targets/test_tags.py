"""The list of target tags that configs are checked against, and `tvmake targets`, against TVM itself."""

import json
from typing import get_args

import pytest
import tvm

from tvmake.cli.machine.targets import targets
from tvmake.config.target import TargetConfig
from tvmake.errors import InputError
from tvmake.targets.catalogue.entries import catalogue
from tvmake.targets.catalogue.tags import known_tags
from tvmake.targets.listing import known_processors, target_kinds, target_tags
from tvmake.targets.options import TargetKind
from tvmake.targets.resolve import tvm_target


def test_the_list_of_tags_is_tvms():
    assert list(known_tags()) == sorted(str(tag) for tag in tvm.target.list_tags())


def test_every_kind_a_config_may_name_is_a_kind_of_tvm():
    assert set(get_args(TargetKind)) <= {str(kind) for kind in tvm.target.Target.list_kinds()}


def test_every_tag_makes_a_tvm_target():
    for tag in known_tags():
        assert tvm.target.Target(TargetConfig(tag=tag).tvm_attributes()).kind.name


def test_a_kind_without_a_generator_is_distinguished():
    generates = {kind["kind"]: kind["generates"] for kind in target_kinds()}
    assert generates["llvm"] and generates["opencl"] and generates["cuda"]
    assert not generates["vulkan"]  # the wheel is built without it


def test_opencl_runs_here_with_the_runtime_that_tvmake_compiles():
    runs = {kind["kind"]: kind["runs"] for kind in target_kinds()}
    assert runs["opencl"] and not runs["vulkan"]


def test_targets_lists_attributes_of_a_tag_and_its_host(capsys):
    targets("jetson-orin-nano", as_json=True)
    (tag,) = json.loads(capsys.readouterr().out)["tags"]
    assert tag["kind"] == "cuda"
    assert tag["attributes"]["arch"] == "sm_87"
    assert tag["host"]["attributes"]["mtriple"] == "aarch64-linux-gnu"


def test_targets_filters_by_attribute_too(capsys):
    targets("cortex-a72", as_json=True)
    found = {tag["tag"] for tag in json.loads(capsys.readouterr().out)["tags"]}
    assert "arm/rasp4b64" in found
    assert len(found) < len(target_tags())


def test_targets_prints_one_line_a_tag(capsys):
    targets("qcom/adreno", as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("qcom/adreno") for line in lines) == sum(
        tag.startswith("qcom/adreno") for tag in known_tags()
    )


def test_a_filter_that_matches_nothing_says_so():
    with pytest.raises(InputError, match="no target kind, processor or tag contains this"):
        targets("no-such-chip", as_json=False)


def test_every_processor_of_the_catalogue_makes_a_tvm_target_with_its_limits():
    for name, entry in catalogue().items():
        target = tvm_target(TargetConfig(tag=name), f"targets.{name}")
        assert target.kind.name == entry.kind
        for key, value in entry.attributes.items():
            if key not in ("keys", "mattr"):
                assert str(target.attrs[key]) == str(value), (name, key)
        if "keys" in entry.attributes:
            assert list(target.keys) == entry.attributes["keys"]


def test_targets_shows_processors_with_their_limits_and_sources(capsys):
    targets("adreno-730-texture", as_json=True)
    (entry,) = json.loads(capsys.readouterr().out)["processors"]
    assert entry["name"] == "adreno-7xx-texture" and "adreno-730-texture" in entry["members"]
    assert entry["images"] == {"spatial": 16384, "layers": 2048, "base_alignment": 64}
    assert entry["float16"] and entry["source"]


def test_targets_prints_every_family(capsys):
    targets(None, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    for entry in known_processors():
        assert any(line.startswith(f"{entry['name']} ") for line in lines), entry["name"]
