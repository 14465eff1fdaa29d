"""Stages are discovered, ordered by the data flow, and checked for consistency."""

import importlib.util
import inspect
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.patience import HANG_S
from tvmake.errors import InputError
from tvmake.stages import registry
from tvmake.stages.descriptor import Input, Output, Stage
from tvmake.stages.registry import artifacts, goal_stages, maker, stage_named, stages

ORDER = [
    ("import", "transform"), ("transform", "choose_layout"), ("choose_layout", "extract"), ("calibrate", "choose_precision"), ("choose_precision", "extract"),
    ("extract", "budget"),
    ("budget", "tune"), ("tune", "pick_best"), ("pick_best", "build"), ("build", "export"), ("export", "deploy"),
    ("deploy", "validate"), ("reference", "benchmark"), ("validate", "report"),
]  # fmt: skip


def stage(name: str, reads: tuple[str, ...] = (), makes: tuple[str, ...] = ()) -> Stage:
    return Stage(
        name=name,
        summary="",
        function=print,
        inputs=tuple(Input(artifact) for artifact in reads),
        outputs=tuple(Output(artifact, "{results}", artifact) for artifact in makes),
        logs=(),
    )


def test_stages_are_in_the_order_that_data_flows():
    names = list(stages())
    assert all(names.index(first) < names.index(second) for first, second in ORDER)
    assert goal_stages() == set(names)


def test_planning_loads_no_tvm_torch_or_numpy():
    program = (
        "import sys; from tvmake.plan.plan import Plan; from tvmake.plan import outputs, resources;"
        "from tvmake.stages.registry import stages; stages();"
        "print([name for name in ('tvm', 'torch', 'numpy', 'snakemake') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("described", stages().values(), ids=lambda described: described.name)
def test_a_function_takes_exactly_what_its_descriptor_names(described: Stage):
    taken = inspect.signature(described.function).parameters
    given = {entry.parameter for entry in described.inputs if entry.parameter}
    given |= {output.parameter for output in described.outputs} | {
        log.parameter for log in described.logs if log.parameter
    }
    given |= {parameter.name for parameter in described.parameters}
    given |= {"request"} if described.request_model else set()
    given |= {"frozen", "variant"} if described.takes_lock else set()
    assert set(taken) == given
    assert len(described.rule_names) == len(described.kinds)
    assert stage_named(described.name) is described


@pytest.mark.parametrize("described", stages().values(), ids=lambda described: described.name)
def test_preloaded_modules_exist(described: Stage):
    assert [name for name in described.preload if importlib.util.find_spec(name) is None] == []


def test_files_inside_directories_have_the_directorys_stage():
    assert maker("workloads/{workload}.json") is maker("round/workloads") is stages()["budget"]
    assert maker("config.resolved.yaml") is None and "config.resolved.yaml" in artifacts()


def test_an_unknown_stage_is_named_with_those_there_are():
    with pytest.raises(InputError, match="no such stage\n  there are: import, "):
        stage_named("bild")
    with pytest.raises(InputError, match="no such stage"):
        stage_named("descriptor")


def test_stages_that_make_no_sense_together_are_refused():
    ordered = registry._sort_by_inputs
    assert [found.name for found in ordered([stage("b", ("x",)), stage("a", (), ("x",))])] == ["a", "b"]
    with pytest.raises(ValueError, match="stages a and b both make 'x'"):
        list(ordered([stage("a", (), ("x",)), stage("b", (), ("x",))]))
    with pytest.raises(ValueError, match="stage a reads 'x', which no stage makes"):
        list(ordered([stage("a", ("x",))]))
    with pytest.raises(ValueError, match="read from each other: a, b"):
        list(ordered([stage("a", ("y",), ("x",)), stage("b", ("x",), ("y",))]))
    with pytest.raises(ValueError, match="two stages have the same name"):
        list(ordered([stage("a"), stage("a")]))


def test_what_an_earlier_round_left_does_not_order_stages():
    first = stage("first", ("late",), ("early",))
    first = replace(first, inputs=tuple(replace(entry, is_of_earlier_round=True) for entry in first.inputs))
    found = [entry.name for entry in registry._sort_by_inputs([stage("second", ("early",), ("late",)), first])]
    assert found == ["first", "second"]


def test_no_two_artifacts_of_a_job_have_the_same_option():
    for described in stages().values():
        for kind in described.kinds:
            names = sorted(output.parameter for output in kind.outputs)
            assert all(one != other for one, other in pairwise(names))
