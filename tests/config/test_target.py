"""Targets by name and in older syntax, and their errors."""

import pytest
from pydantic import TypeAdapter, ValidationError

from tvmake.config.reading.load import check
from tvmake.config.target import TargetConfig
from tvmake.errors import ErrorList, InputError
from tvmake.targets.catalogue.entries import catalogue
from tvmake.targets.catalogue.tags import known_tags

NET = {"net": {"source": "net.onnx"}}


def target(written):
    return TypeAdapter(TargetConfig).validate_python(written)


def mistake(targets, **more):
    with pytest.raises(InputError) as caught:
        check({"models": NET, "targets": targets, **more}, {})
    return caught.value


# --- the catalogue ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", catalogue())
def test_every_entry_has_a_source_and_explicit_limits(name):
    entry = catalogue()[name]
    assert entry.source and entry.what
    if entry.is_gpu:
        limits = [
            entry.attributes[key]
            for key in ("max_num_threads", "max_shared_memory_per_block", "thread_warp_size", "max_threads_per_block")
        ]
        assert all(isinstance(limit, int) and limit > 0 for limit in limits)


@pytest.mark.parametrize("family", ["adreno-5xx", "adreno-6xx", "adreno-7xx", "adreno-8xx", "adreno"])
def test_adreno_comes_with_buffers_textures_and_clml(family):
    keys = {mode: set(catalogue()[f"{family}-{mode}"].attributes["keys"]) for mode in ("buffer", "texture", "clml")}
    assert keys["texture"] - keys["buffer"] == {"texture"}
    assert keys["clml"] - keys["buffer"] == {"clml"}


def test_a_member_of_a_family_has_the_familys_limits_so_that_code_and_records_are_the_same():
    assert target("adreno-730-texture").tvm_attributes() == target("adreno-7xx-texture").tvm_attributes()
    assert catalogue()["adreno-730-texture"].same_as == "adreno-7xx-texture"


def test_no_catalogue_name_is_also_a_tag_of_tvm():
    assert not set(catalogue()) & set(known_tags())


# --- a line of text -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("adreno-730-texture", {"tag": "adreno-730-texture"}),
        ("llvm", {"kind": "llvm"}),
        ("qcom/adreno-opencl", {"tag": "qcom/adreno-opencl"}),
        ("opencl -device=adreno", {"tag": "adreno-texture"}),
        ("opencl --device=mali", {"tag": "mali-bifrost"}),
        ("opencl -max_num_threads=128", {"kind": "opencl", "attributes": {"max_num_threads": 128}}),
        ("cuda -arch=sm_80", {"kind": "cuda", "arch": "sm_80"}),
        ("llvm -mtriple=aarch64-linux-android", {"kind": "llvm", "mtriple": "aarch64-linux-android"}),
        ("llvm -mcpu=skylake -mattr=+avx2,+fma", {"kind": "llvm", "mcpu": "skylake", "mattr": ["+avx2", "+fma"]}),
        ("aarch64-linux-gnu", {"kind": "llvm", "mtriple": "aarch64-linux-gnu"}),
        (
            '{"kind": "llvm", "mcpu": "zen5", "num-cores": 4}',
            {"kind": "llvm", "mcpu": "zen5", "attributes": {"num-cores": 4}},
        ),
        ('{"kind": "opencl", "host": {"kind": "llvm"}}', {"kind": "opencl", "host": {"kind": "llvm"}}),
        ("opencl, clml, llvm", {"tag": "adreno-clml", "host": {"kind": "llvm"}}),
        ("opencl -device=adreno, clml", {"tag": "adreno-clml"}),
        ("adreno-740-buffer, clml", {"tag": "adreno-740-clml"}),
        (
            "opencl -device=adreno, llvm -mtriple=aarch64-linux-android -mattr=+neon,+dotprod",
            {
                "tag": "adreno-texture",
                "host": {"kind": "llvm", "mtriple": "aarch64-linux-android", "mattr": ["+neon", "+dotprod"]},
            },
        ),
    ],
)
def test_older_spellings_are_understood(written, same):
    assert target(written) == target(same)


@pytest.mark.parametrize("key", ["kind", "tag"])
def test_an_older_spelling_under_a_key_is_understood_and_refined(key):
    got = target({key: "opencl -device=adreno -max_num_threads=128", "device": "phone", "attributes": {"model": "s"}})
    assert got.tag == "adreno-texture" and got.device == "phone"
    assert got.attributes == {"max_num_threads": 128, "model": "s"}


def test_a_host_may_be_a_triple_or_a_name():
    assert target({"tag": "adreno-730-buffer", "host": "aarch64-linux-android"}).host.triple == "aarch64-linux-android"
    assert target({"tag": "adreno-730-buffer", "host": "cortex-a76-android"}).host.triple == "aarch64-linux-android"


def test_a_limit_that_is_set_holds_for_all_of_tvms_names_of_it():
    attributes = target("adreno-730-buffer -max_num_threads=64").tvm_attributes()
    assert attributes["max_num_threads"] == attributes["max_threads_per_block"] == 64


@pytest.mark.parametrize(
    ("written", "problem", "remedy"),
    [
        ("adreno-730-textur", "no such target", "did you mean 'adreno-730-texture'?"),
        ("opencl -device=adrena", "is unknown", "did you mean 'adreno'?"),
        ("opencl -zzz=3", "no such option '-zzz'", "options are device, keys, mcpu,"),
        (
            "llvm -mtriple=foo-bar-baz",
            "LLVM knows no processor 'foo'",
            "triples are x86_64-linux-gnu, aarch64-linux-gnu,",
        ),
        ("opencl -max_num_thread=3", "no such option '-max_num_thread'", "did you mean 'max_num_threads'?"),
        ("opencl 3", "is not an option", "options are written -name=value"),
        ("cuda, clml", "clml is for Adreno", "write 'opencl -device=adreno, clml' or adreno-clml"),
        ("llvm, opencl", "the second target is the device's host", "name llvm there"),
        ("opencl, llvm, c", "more than a device and its host", "write two targets instead"),
        ("", "a target is missing", "name one, such as adreno-730-texture or llvm"),
        ('{"kind": "llvm"', "not valid JSON", 'write a target as {"kind": "llvm"}'),
        ('{"mcpu": "zen5"}', "names no kind", 'write {"kind": "llvm", …}'),
        ("llvm -mcpu='x", "a quotation mark is missing", "close it"),
        ({"tag": "cortex-a75-linus"}, "no such target tag", "did you mean 'cortex-a75-linux'?"),
        ({"kind": "llvm", "host": "cpu"}, "no such target 'cpu'", "write llvm, or {kind: llvm, mcpu: native}"),
        (
            {"kind": "opencl", "host": "aarch64"},
            "no such target 'aarch64'",
            "write its triple, such as aarch64-linux-gnu",
        ),
        ({"kind": "llvm", "host": "nowhere"}, "no such target 'nowhere'", "`tvmake targets` lists all targets"),
    ],
)
def test_mistakes_have_a_remedy(written, problem, remedy):
    error = mistake({"t": written})
    assert problem in error.problem and remedy in error.remedy


def test_a_list_names_targets_of_the_catalogue_too():
    config = check({"models": NET, "targets": ["llvm", "adreno-730-texture"]}, {})
    assert config.targets["adreno-730-texture"].tag == "adreno-730-texture"


# --- impossible targets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written", ["cuda-sm75", "opencl-nvidia", "llvm", {"kind": "cuda", "arch": "sm_75"}, {"kind": "cuda"}]
)
def test_tf32_is_refused_for_targets_without_it(written):
    error = mistake({"any": written}, precisions=["float32", "tf32"])
    assert error.problem == (
        "targets.any: precision 'tf32': TF32 needs an NVIDIA GPU from sm_80 on, and a target of kind cuda with its architecture (`arch:`)"
    )
    assert "variants.exclude" in error.remedy


@pytest.mark.parametrize("written", ["cuda-sm80", "cuda-sm90", {"kind": "cuda", "arch": "sm_89"}, "nvidia/nvidia-a100"])
def test_tf32_is_accepted_for_targets_with_tf32_tensor_cores(written):
    assert check({"models": NET, "targets": {"any": written}, "precisions": ["tf32"]}, {})


def test_float16_is_refused_for_targets_without_it():
    targets = {"any": "opencl-generic", "phone": "adreno-730-buffer"}
    error = mistake(targets, precisions=["float32", "float16"])
    assert error.problem == "targets.any: precision 'float16': 'opencl-generic' does not compute in float16"
    left = {"exclude": [{"precision": "float16", "target": "any"}]}
    assert check({"models": NET, "targets": targets, "precisions": ["float32", "float16"], "variants": left}, {})


def test_every_impossible_combination_is_reported_at_once():
    with pytest.raises(ErrorList) as caught:
        check(
            {
                "models": NET,
                "targets": ["opencl-generic", "opencl-pocl"],
                "precisions": ["float16", "float16_acc32"],
            },
            {},
        )
    assert len(caught.value.errors) == 4


def test_textures_are_refused_for_targets_without_images():
    error = mistake({"t": {"tag": "opencl-generic", "attributes": {"keys": ["opencl", "gpu", "texture"]}}})
    assert "no images" in error.problem


@pytest.mark.parametrize("version", [2.31, "3.0", "2"])
def test_a_glibc_version_is_text_such_as_2_31(version):
    with pytest.raises(ValidationError):
        TargetConfig(mtriple="aarch64-linux-gnu", glibc=version)


def test_a_cpu_of_the_catalogue_runs_here_only_with_this_machines_architecture():
    assert target("x86-64-v3").runs_on == "local"
    assert target("cortex-a76-linux").runs_on is None
    assert target("adreno-730-texture").runs_on is None


def test_an_nvidia_gpu_named_by_its_kind_has_the_limits_of_its_architecture():
    named = TargetConfig(kind="cuda", arch="sm_90").tvm_attributes()
    assert named == TargetConfig(tag="cuda-sm90").tvm_attributes()
    assert TargetConfig(kind="cuda").tvm_attributes()["max_threads_per_block"] == 1024
    assert "arch" not in TargetConfig(kind="cuda").tvm_attributes()
    fewer = TargetConfig(kind="cuda", arch="sm_90", attributes={"max_num_threads": 256}).tvm_attributes()
    assert fewer["max_num_threads"] == fewer["max_threads_per_block"] == 256
