"""TVM's pass options: known settings and names, their effect, and records of each pass."""

import time
from importlib import resources
from itertools import pairwise

import pytest
import tvm
from pydantic import ValidationError

from tests.codegen.conftest import Transformed
from tvmake.artifact.module_files import load_module
from tvmake.codegen.generating import lower_and_generate
from tvmake.codegen.known_passes import ELSEWHERE, GROUPS, NUMBERS, SWITCHES, pass_names
from tvmake.codegen.options import BuildOptions
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


def test_the_catalogue_has_every_pass_setting_of_tvm():
    configs = tvm.transform.PassContext.list_configs()
    types = {str(name): str(entry["type"]) for name, entry in configs.items()}
    assert {name for name, kind in types.items() if kind == "bool"} - ELSEWHERE.keys() == SWITCHES
    assert {name for name, kind in types.items() if kind in ("int", "ir.IntImm")} == NUMBERS
    assert GROUPS.keys() == {name for name, kind in types.items() if kind.endswith("Config")}
    assert SWITCHES | NUMBERS | GROUPS.keys() | ELSEWHERE.keys() == types.keys()


@pytest.mark.parametrize("group", GROUPS)
def test_the_catalogue_has_every_field_of_a_setting(group: str):
    with tvm.transform.PassContext(config={group: {}}) as context:
        fields = repr(context.config[group]).partition("(")[2]
    assert {field.partition("=")[0].strip() for field in fields.rstrip(")").split(",")} == GROUPS[group]


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
    "an unknown setting": ({"pass_config": {"tir.disable_vectorize": True}}, "did you mean 'tirx.disable_vectorize'?"),
    "a switch": ({"pass_config": {"tirx.disable_vectorize": 3}}, "expected true or false (got 3)"),
    "a number": ({"pass_config": {"tirx.vtcm_capacity": True}}, "expected a whole number (got True)"),
    "a group": ({"pass_config": {"tirx.UnrollLoop": 16}}, "expected a mapping with auto_max_depth"),
    "a field": ({"pass_config": {"tirx.UnrollLoop": {"steps": 16}}}, "has no 'steps'; it has auto_max_depth"),
    "another key's": ({"pass_config": {"relax.backend.use_cuda_graph": True}}, "set build.cuda_graph instead"),
    "an unknown pass": ({"disabled_passes": ["tirx.StorageRewrit"]}, "did you mean 'tirx.StorageRewrite'?"),
    "no pass at all": ({"disabled_passes": ["zzz"]}, "build.dump: [passes]"),
}


@pytest.mark.parametrize(("options", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_before_anything_runs(options: dict[str, object], words: str):
    with pytest.raises(ValidationError) as refused:
        BuildOptions(**options)
    assert words in str(refused.value)
