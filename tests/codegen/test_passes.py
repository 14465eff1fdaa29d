"""TVM's pass options: known settings and names, their effect, and records of each pass."""

import time
from importlib import resources
from itertools import pairwise

import pytest
from pydantic import ValidationError

from tests.codegen.conftest import Transformed
from tvmake.artifact.module_files import load_module
from tvmake.codegen.generating import lower_and_generate
from tvmake.codegen.options import BuildOptions, pass_names
from tvmake.codegen.passes import PassRecord, PassTimes
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.errors import InputError
from tvmake.targets.resolve import tvm_target

CPU = TargetConfig(kind="llvm", mcpu="x86-64-v3")
OPENCL = TargetConfig(kind="opencl")


def record(
    net: Transformed, target: TargetConfig = CPU, times: PassTimes | None = None, **options: object
) -> PassRecord:
    request = BuildRequest(
        model="net", precision="float32", target_name="t", target=target, build=BuildOptions(**options)
    )
    found = PassRecord()
    lower_and_generate(load_module(net.module), tvm_target(target, "targets.t"), request, 1, record=found, times=times)
    return found


@pytest.mark.parametrize("target", [CPU, OPENCL], ids=["cpu", "opencl"])
def test_the_catalogue_has_every_pass_that_a_build_runs(static_net: Transformed, target: TargetConfig):
    whole = {"_pipeline", "run"}  # of passes, under the name of the function that makes them
    inner = {"FuseTIRInner", "ExpandTupleArgumentsInner"}  # parts of one that switch nothing by themselves
    assert set(record(static_net, target).names) - whole - inner <= pass_names()


def test_the_catalogue_is_sorted_and_has_no_name_twice():
    names = resources.files("tvmake.codegen").joinpath("passes.txt").read_text().split()
    assert names == sorted(set(names), key=names.index) and len(names) == len(pass_names())


def test_a_disabled_pass_does_not_run(static_net: Transformed):
    assert "tirx.StorageRewrite" in record(static_net).names
    assert "tirx.StorageRewrite" not in record(static_net, disabled_passes=["tirx.StorageRewrite"]).names


def test_a_setting_reaches_the_pass_that_reads_it(static_net: Transformed):
    def last(**options: object) -> str:
        return [*record(static_net, schedule_rules=True, **options).texts.values()][-1]

    assert "T.Broadcast" in last()
    assert "T.Broadcast" not in last(pass_config={"tirx.disable_vectorize": True})


def test_every_pass_that_changed_the_module_leaves_it_as_text(static_net: Transformed):
    texts = record(static_net).texts
    names = [*texts]
    assert names[0] == "passes/000-transformed.py"
    assert names == sorted(names)
    assert any(name.endswith("-FuseOps.py") for name in names)
    assert all("@I.ir_module" in text for text in texts.values())
    following = list(texts.values())
    assert all(before != after for before, after in pairwise(following))


def test_each_pass_is_timed_without_those_that_it_runs_itself(static_net: Transformed):
    times = PassTimes()
    began = time.perf_counter()
    record(static_net, times=times)
    took = time.perf_counter() - began
    assert {"FuseOps", "tirx.StorageRewrite", "sequential"} <= times.seconds.keys()
    assert 0 < sum(times.seconds.values()) < took
    assert all(seconds >= 0 for seconds in times.seconds.values())
    *_, last = times.lines()
    assert last.endswith("ms  all passes")


def test_leaving_out_a_pass_that_is_needed_names_it(static_net: Transformed):
    with pytest.raises(InputError) as refused:
        record(static_net, disabled_passes=["VMShapeLower", "LowerAllocTensor", "CallTIRRewrite"])
    assert "CallTIRRewrite" in str(refused.value)


MISTAKES = {
    "an unknown pass": ({"disabled_passes": ["tirx.StorageRewrit"]}, "did you mean 'tirx.StorageRewrite'?"),
    "no pass at all": ({"disabled_passes": ["zzz"]}, "build.dump: [passes]"),
}


@pytest.mark.parametrize(("options", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_before_anything_runs(options: dict[str, object], words: str):
    with pytest.raises(ValidationError) as refused:
        BuildOptions(**options)
    assert words in str(refused.value)


WRONG_SETTINGS = {
    "unknown": ({"tir.disable_vectorize": True}, "did you mean 'tirx.disable_vectorize'?"),
    "far from all": ({"zzz": True}, "list_configs()` lists them"),
    "a number as a group": ({"tirx.UnrollLoop": 16}, "to have type tirx.transform.UnrollLoopConfig"),
    "an unknown field": ({"tirx.UnrollLoop": {"steps": 16}}, "does not have field `steps`"),
}


@pytest.mark.parametrize(("settings", "words"), WRONG_SETTINGS.values(), ids=WRONG_SETTINGS)
def test_a_setting_that_tvm_lacks_is_refused_before_the_build(
    static_net: Transformed, settings: dict[str, object], words: str
):
    with pytest.raises(InputError, match=r"^build\.pass_config: ") as refused:
        record(static_net, pass_config=settings)
    assert words in str(refused.value)
