"""Build: hermetic, for every target that the wheel generates code for, with an accurate manifest."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import tvm

from tests.codegen.conftest import Transformed
from tests.networks.unpacked import build_unpacked
from tvmake.artifact.manifest import Manifest
from tvmake.codegen.generating import lower_and_generate
from tvmake.codegen.link import generate
from tvmake.codegen.options import BuildOptions
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.errors import InputError, MachineError
from tvmake.storage.files import digest_file

from tvm import relax  # isort: skip


def request(target: TargetConfig | None = None, **options: object) -> BuildRequest:
    return BuildRequest(
        model="net",
        precision="float32",
        target_name="t",
        target=target or TargetConfig(),
        build=BuildOptions(**options),
    )


def built(net: Transformed, directory: Path, asked: BuildRequest | None = None) -> Path:
    return build_unpacked(net.module, net.params, net.signature, asked or request(), directory)


def manifest(directory: Path) -> Manifest:
    return Manifest.model_validate_json((directory / "mod.json").read_bytes())


BUILD_ELSEWHERE = """
import sys
from pathlib import Path
ballast = [object() for _ in range(int(sys.argv[1]))]
from tvmake.config.requests.building import BuildRequest
from tvmake.stages.package.build import build
paths = [Path(argument) for argument in sys.argv[3:]]
while paths:
    sources, outputs, paths = paths[:3], paths[3:7], paths[7:]
    build(*sources, BuildRequest.model_validate_json(sys.argv[2]), *outputs)
"""


@pytest.mark.long
def test_builds_in_fresh_processes_and_directories_give_the_same_bytes(
    static_net: Transformed, dynamic_net: Transformed, tmp_path: Path
):
    digests = set()
    for number, name in enumerate(["a", "a-rather-longer-directory-name", "c"]):
        paths: list[Path] = []
        packages = [tmp_path / name / kind for kind in ("static", "dynamic")]
        for directory, files in zip(packages, (static_net, dynamic_net), strict=True):
            directory.mkdir(parents=True)
            paths += [files.module, files.params, files.signature]
            paths += [directory / part for part in ("mod.so", "mod.json", "packing.json", "sources")]
        command = [
            sys.executable,
            "-c",
            BUILD_ELSEWHERE,
            str(number * 777),
            request().model_dump_json(),
            *map(str, paths),
        ]
        environment = {"PYTHONHASHSEED": str(number), "PATH": "/usr/bin:/bin"}
        subprocess.run(command, check=True, cwd=tmp_path / name, env=environment)
        digests.add(
            tuple(
                digest_file(package / part) for package in packages for part in ("mod.so", "mod.json", "packing.json")
            )
        )
    assert len(digests) == 1


def test_an_operator_that_tvm_computes_in_python_is_refused_by_name():
    x = relax.Var("x", relax.TensorType([tvm.tirx.Var("n", "int64"), 3], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.unique(x, sorted=True))
        builder.emit_func_output(result)
    with pytest.raises(
        InputError, match=r"models\.net: TVM computes relax\.unique in Python, which packages run without"
    ):
        lower_and_generate(builder.get(), tvm.target.Target("llvm"), request(), 1)


def test_the_manifest_tells_signature_parameters_target_kernels_and_origin(static_net: Transformed, tmp_path: Path):
    directory = built(static_net, tmp_path / "b", request(TargetConfig(kind="llvm", mcpu="native")))
    said = manifest(directory)
    assert [(spec.name, spec.shape, spec.dtype) for spec in said.signature.inputs] == [("x", (1, 3, 8, 8), "float32")]
    (weight,) = said.parameters
    held = math.prod(weight.shape)  # packed, with zeros where a vector has more channels
    assert held % (3 * 3 * 3) == 0 and 6 <= held // (3 * 3 * 3) <= 16 and weight.dtype == "float32"
    assert said.target["mcpu"] not in (None, "native")
    assert said.files["mod.so"].sha256 == digest_file(directory / "mod.so")
    assert said.coverage.tuned == 0 and said.coverage.tunable == len(said.coverage.misses)
    assert {*said.coverage.misses, *said.coverage.not_tunable} == {kernel.name for kernel in said.kernels}
    called = {node.call for node in said.graph}
    assert {kernel.name for kernel in said.kernels} <= called
    assert all(kernel.calls >= 1 and len(kernel.sha256) == 64 for kernel in said.kernels)
    assert {"tvmake", "apache-tvm", "apache-tvm-ffi", "llvm", "linker"} <= {part.name for part in said.components}
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in said.provenance["subject"]}
    assert subjects == {name: entry.sha256 for name, entry in said.files.items()}
    inputs = {entry["name"] for entry in said.provenance["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert {"module.json", "module.params", "signature.json"} <= inputs
    assert said.network == {
        "module.json": digest_file(static_net.module),
        "module.params": digest_file(static_net.params),
        "signature.json": digest_file(static_net.signature),
    }


@pytest.mark.parametrize(
    ("target", "suffix", "marker"),
    [
        (TargetConfig(kind="opencl"), "cl", "__kernel void"),
        (TargetConfig(tag="qcom/adreno-opencl"), "cl", "__kernel void"),
        (TargetConfig(kind="cuda", arch="sm_80"), "cu", "__global__"),
    ],
    ids=["opencl", "adreno", "cuda"],
)
def test_gpu_targets_compile_without_the_gpu_and_show_their_kernels(
    static_net: Transformed, tmp_path: Path, target: TargetConfig, suffix: str, marker: str
):
    directory = built(static_net, tmp_path / "b", request(target, dump=["kernels"]))
    kernels = [file for file in (directory / "sources" / "kernels").glob(f"*.{suffix}") if file.stem != "preamble"]
    assert len(kernels) >= 3
    assert all(marker in file.read_text() for file in kernels)
    assert any("conv2d" in file.name for file in kernels)
    # A default schedule is not a tuned one.
    assert manifest(directory).coverage.tuned == 0


@pytest.mark.parametrize("asked", [False, True])
def test_cuda_kernels_become_one_graph_where_that_is_asked_for(static_net: Transformed, tmp_path: Path, asked: bool):
    target = TargetConfig(kind="cuda", arch="sm_80")
    directory = built(static_net, tmp_path / "b", request(target, cuda_graph=asked))
    assert (b"vm.builtin.cuda_graph.run_or_capture" in (directory / "mod.so").read_bytes()) == asked


def test_every_dump_is_written_and_none_when_none_is_asked_for(static_net: Transformed, tmp_path: Path):
    asked = request(dump=["relax", "tir", "ll", "asm"])
    directory = built(static_net, tmp_path / "b", asked)
    texts = {file.name: file.read_text() for file in (directory / "sources").iterdir()}
    assert set(texts) == {"relax.py", "tir.py", "mod.ll", "mod.s"}
    assert "R.call_tir" in texts["relax.py"] and "T.prim_func" in texts["tir.py"]
    assert "define" in texts["mod.ll"] and ".text" in texts["mod.s"]
    assert list((built(static_net, tmp_path / "b") / "sources").iterdir()) == []


def test_code_for_another_cpu_is_built_but_needs_its_compiler(static_net: Transformed, tmp_path: Path):
    absent = TargetConfig(kind="llvm", mtriple="aarch64-linux-gnu", cc="no-such-compiler-g++")
    with pytest.raises(MachineError, match="no-such-compiler-g"):
        built(static_net, tmp_path / "b", request(absent))
    assert list((tmp_path / "b").iterdir()) == []


def test_an_unknown_cpu_is_refused_with_a_hint(static_net: Transformed, tmp_path: Path):
    with pytest.raises(InputError, match="cascadelake") as caught:
        built(static_net, tmp_path / "b", request(TargetConfig(kind="llvm", mcpu="cascadelak")))
    assert caught.value.where == "targets.t.mcpu"


def test_an_unknown_attribute_is_refused(static_net: Transformed, tmp_path: Path):
    with pytest.raises(InputError, match="have no attribute 'wings'") as caught:
        built(static_net, tmp_path / "b", request(TargetConfig(kind="llvm", attributes={"wings": 2})))
    assert caught.value.where == "targets.t.attributes.wings"


def test_a_damaged_module_is_refused(static_net: Transformed, tmp_path: Path):
    bad = tmp_path / "module.json"
    bad.write_text(static_net.module.read_text()[:1000])
    with pytest.raises(InputError, match="damaged"):
        built(Transformed(bad, static_net.params, static_net.signature), tmp_path / "b")
    bad.write_text(json.dumps({"not": "a module"}))
    with pytest.raises(InputError, match="damaged"):
        built(Transformed(bad, static_net.params, static_net.signature), tmp_path / "b")


def test_a_target_that_this_tvm_generates_no_code_for_is_named_with_those_that_it_does():
    target = tvm.target.Target({"kind": "vulkan", "host": {"kind": "llvm"}})
    lowered = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([64], "float32"))
    with lowered.function("main", [x]):
        lowered.emit_func_output(lowered.emit_te(lambda numbers: tvm.te.compute((64,), lambda i: numbers[i] + 1.0), x))
    with pytest.raises(
        InputError, match=r"targets\.v\.kind: TVM .* generates no code for 'vulkan'\n  it does for llvm, "
    ):
        generate(lowered.get(), target, BuildOptions(), "targets.v")
