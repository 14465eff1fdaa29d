"""Options of a target: which of them determine its code, and what follows from them without TVM."""

import subprocess
import sys

import pytest

from tvmake.config.target import TargetConfig
from tvmake.targets.backends import backend_of
from tvmake.targets.code_kind import foreign_kind, rare_kind
from tvmake.targets.options import TargetOptions
from tvmake.targets.resolve import tvm_target

PHONE = {"tag": "adreno-730-texture", "host": {"mtriple": "aarch64-linux-android"}}


def test_a_config_gives_the_options_that_decide_on_the_code():
    config = TargetConfig.model_validate({**PHONE, "device": "phone", "tuning": {"trials": 8}})
    assert config.options() == TargetOptions.model_validate(PHONE)
    assert config.options().model_dump(exclude_defaults=True) == PHONE
    assert type(config.options().host) is TargetOptions


@pytest.mark.parametrize("kind", ["llvm", "c"])
def test_kernels_of_a_cpu_are_plain_loops_where_its_backend_has_no_rules(kind: str):
    target = TargetOptions(kind=kind)
    has_rules = backend_of(tvm_target(target, "targets.cpu")).has_rules
    assert (target.why_plain_loops(has_rules=True) is None) == has_rules
    assert target.why_plain_loops(has_rules=False)


def test_rules_of_tvm_schedule_the_kernels_of_a_gpu():
    assert TargetOptions(kind="opencl").why_plain_loops(has_rules=False) is None


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ({"kind": "llvm"}, None),
        ({"tag": "adreno-730-texture"}, None),
        ({"kind": "cuda"}, "cuda"),
        ({"tag": "cuda-sm90"}, "cuda"),
        ({"tag": "nvidia/jetson-orin-nano"}, "cuda"),
        ({"kind": "metal"}, "metal"),
    ],
)
def test_code_of_some_kinds_depends_on_more_than_tvm(target: dict[str, str], kind: str | None):
    assert foreign_kind(TargetOptions.model_validate(target), "targets.t") == kind


def test_kinds_without_a_code_generator_in_some_wheels_are_rare():
    assert rare_kind(TargetOptions(kind="metal")) == "metal"
    assert rare_kind(TargetOptions(kind="cuda")) is None


def test_options_of_all_rooms_load_no_tvm_torch_or_numpy():
    modules = [
        f"tvmake.{name}" for name in ("frontend.options", "transform.options", "targets.options", "codegen.options")
    ]
    code = f"import sys, {', '.join(modules)}\nprint({{'tvm', 'torch', 'numpy'}} & sys.modules.keys() or 'light')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "light"
