"""The CPU of this machine: the features of its model, without hidden ones."""

import tvm

from tvmake.config.target import TargetConfig
from tvmake.targets.cpu import native
from tvmake.targets.cpu.native import hidden_features, native_attributes, native_cpu
from tvmake.targets.resolve import tvm_target

WHOLE = ["avx", "avx2", "fma", "f16c", "bmi2", "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"]
"""Linux' names of a Cascade Lake's vector features."""


def info(flags: list[str]) -> str:
    return f"processor\t: 0\nmodel name\t: any\nflags\t\t: fpu sse sse4_1 {' '.join(flags)}\nbugs\t\t: spectre_v1\n"


def test_nothing_is_hidden_of_a_processor_that_shows_all():
    assert hidden_features("cascadelake", info(WHOLE)) == []


def test_features_hidden_by_a_virtual_machine_have_llvms_names():
    shown = [flag for flag in WHOLE if not flag.startswith("avx512")]
    assert hidden_features("cascadelake", info(shown)) == [
        "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "avx512vnni"
    ]  # fmt: skip
    assert hidden_features("sapphirerapids", info(WHOLE))[:3] == ["amx-bf16", "amx-int8", "amx-tile"]


def test_nothing_counts_as_hidden_without_flags():
    assert hidden_features("cascadelake", "processor\t: 0\nFeatures\t: asimd\n") == []


def test_code_for_this_machine_does_without_what_is_hidden(monkeypatch, tmp_path):
    hiding = tmp_path / "cpuinfo"
    hiding.write_text(info(["avx", "avx2", "fma", "f16c"]))
    monkeypatch.setattr(native, "INFO", hiding)
    monkeypatch.setattr(native, "native_cpu", lambda: "cascadelake")
    target = tvm_target(TargetConfig(kind="llvm", mcpu="native", mattr=["+avx512vnni"]), "targets.t")
    has = tvm.target.codegen.target_has_features
    assert has("avx2", target)
    assert not has("avx512f", tvm_target(TargetConfig(kind="llvm", mcpu="native"), "targets.t"))
    assert has("avx512vnni", target), "what the user asks for holds"


def test_a_named_cpu_is_taken_at_its_word():
    target = tvm_target(TargetConfig(kind="llvm", mcpu="sapphirerapids"), "targets.t")
    assert tvm.target.codegen.target_has_features("amx-tile", target)
    assert native_attributes()["mcpu"] == native_cpu()
