"""Building with tuning records: other kernels, the same results, and an accurate report."""

import copy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.codegen.conftest import Transformed
from tests.networks.unpacked import build_unpacked
from tests.tune.replayed import best_set, has_code, kernels, traces
from tvmake.artifact import stage_json
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.module_files import load_module
from tvmake.artifact.weights.tensors import load_params
from tvmake.codegen.lowering import fused_module, packs_weights
from tvmake.codegen.options import PassOptions
from tvmake.codegen.scheduling.apply import apply_best
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.device.local.worker import LoadedPackage
from tvmake.errors import InputError
from tvmake.records.best import BestSet
from tvmake.records.workload import workload
from tvmake.storage.files import digest_file
from tvmake.targets.resolve import tvm_target

CPU = TargetConfig(kind="llvm", mcpu="x86-64-v3")
OPENCL = TargetConfig(kind="opencl")


def fused(net: Transformed, target: "tvm.target.Target") -> "tvm.IRModule":
    return fused_module(load_module(net.module), target, [], PassOptions(), 1, packs_weights(target))


def request(target: TargetConfig = CPU, **options: object) -> BuildRequest:
    return BuildRequest(model="net", precision="float32", target_name="t", target=target, **options)


@dataclass(frozen=True)
class Built:
    directory: Path

    @property
    def manifest(self) -> Manifest:
        return stage_json.load(Manifest, self.directory / "mod.json")

    def outputs(self, *inputs: np.ndarray) -> list[np.ndarray]:
        package = LoadedPackage(self.directory, self.manifest)
        package.set_inputs(list(inputs))
        package.run()
        return package.outputs()


Builder = Callable[..., Built]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Builds a package into a directory of its own, the same one once."""
    packages: dict[tuple[str, ...], Built] = {}

    def build_package(net: Transformed, best: BestSet | None = None, asked: BuildRequest | None = None) -> Built:
        asked = asked or request()
        key = (str(net.module), best.model_dump_json() if best else "", asked.model_dump_json())
        if key not in packages:
            directory = tmp_path_factory.mktemp("build")
            records = directory / "best.json" if best else None
            if best and records:
                stage_json.save(best, records)
            build_unpacked(net.module, net.params, net.signature, asked, directory, records)
            packages[key] = Built(directory)
        return packages[key]

    return build_package


@pytest.fixture(scope="module")
def target() -> "tvm.target.Target":
    return tvm_target(CPU, "t")


@pytest.fixture(scope="module")
def best(tunable_net: Transformed, target) -> BestSet:
    return best_set(fused(tunable_net, target), target)


def test_records_change_the_kernels_and_pack_the_weights_but_keep_the_results(
    tunable_net: Transformed, best: BestSet, package: Builder
):
    plain, tuned = package(tunable_net), package(tunable_net, best)
    inputs = np.random.default_rng(1).standard_normal((1, 8, 16, 16)).astype("float32")
    np.testing.assert_allclose(tuned.outputs(inputs)[0], plain.outputs(inputs)[0], rtol=1e-4, atol=1e-4)
    before, after = ({kernel.name: kernel for kernel in built.manifest.kernels} for built in (plain, tuned))
    assert before.keys() == after.keys()
    changed = {name for name in before if before[name].sha256 != after[name].sha256}
    assert changed == {name for name, kernel in after.items() if kernel.is_tuned} != set()
    digests = {kernel.record.digest for kernel in best.kernels}
    assert {kernel.record_sha256 for kernel in after.values() if kernel.is_tuned} == digests
    assert all(kernel.record_sha256 is None for kernel in before.values())


def test_packed_weights_represent_the_original_ones_and_are_described(
    tunable_net: Transformed, best: BestSet, package: Builder
):
    tuned = package(tunable_net, best)
    said = tuned.manifest.parameters
    packed = [parameter for parameter in said if "_packed" in parameter.name]
    assert len(packed) >= 3
    weights = load_params(tuned.directory / "mod.params")
    assert list(weights) == [parameter.name for parameter in said]
    assert all(weights[parameter.name].shape == parameter.shape for parameter in said)
    originals = load_params(tunable_net.params)
    assert {parameter.name.partition("_packed")[0] for parameter in said} == originals.keys()
    for parameter in packed:
        values = weights[parameter.name].numpy()
        original = originals[parameter.name.partition("_packed")[0]].numpy()
        # The same values in another order; unused space in a padded layout is zero.
        kept = np.sort(values[values != 0])
        np.testing.assert_array_equal(kept, np.sort(original[original != 0].ravel()))


BUILD_ELSEWHERE = """
import sys
from pathlib import Path
ballast = [object() for _ in range(int(sys.argv[1]))]
from tvmake.config.requests.building import BuildRequest
from tvmake.stages.package.build import build
paths = [Path(argument) for argument in sys.argv[3:]]
build(*paths[:3], BuildRequest.model_validate_json(sys.argv[2]), *paths[3:])
"""


@pytest.mark.long
def test_building_with_records_in_fresh_processes_gives_the_same_bytes(
    tunable_net: Transformed, best: BestSet, tmp_path: Path
):
    stage_json.save(best, tmp_path / "best.json")
    digests = set()
    for number, name in enumerate(["a", "a-rather-longer-directory-name"]):
        directory = tmp_path / name
        directory.mkdir()
        paths = [tunable_net.module, tunable_net.params, tunable_net.signature]
        paths += [directory / part for part in ("mod.so", "mod.json", "packing.json", "sources")]
        command = [sys.executable, "-c", BUILD_ELSEWHERE, str(number * 777), request().model_dump_json()]
        command += [*map(str, paths), str(tmp_path / "best.json")]
        subprocess.run(command, check=True, cwd=directory, env={"PYTHONHASHSEED": str(number), "PATH": "/usr/bin:/bin"})
        digests.add(tuple(digest_file(directory / part) for part in ("mod.so", "mod.json", "packing.json")))
    assert len(digests) == 1


def test_a_build_without_records_takes_schedules_from_rules(tunable_net: Transformed, package: Builder):
    one = package(tunable_net)
    assert {kernel.scheduled for kernel in one.manifest.kernels} == {"rule"}
    assert one.manifest.records_sha256 is None
    assert one.manifest.coverage.tuned == 0 and one.manifest.coverage.time_share == 0
    assert set(one.manifest.coverage.misses.values()) == {"tuning is off"}


def test_the_manifest_names_the_records_file_among_what_the_package_was_made_from(
    tunable_net: Transformed, best: BestSet, package: Builder
):
    tuned = package(tunable_net, best)
    digest = digest_file(tuned.directory / "best.json")
    assert tuned.manifest.records_sha256 == digest
    sources = tuned.manifest.provenance["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert {"name": "best.json", "digest": {"sha256": digest}} in sources


def without_record(best: BestSet, name: str, **changes: object) -> BestSet:
    return best.model_copy(
        update={
            "kernels": tuple(
                kernel.model_copy(update=changes) if kernel.name == name else kernel for kernel in best.kernels
            )
        }
    )


def with_trace(best: BestSet, name: str, trace: object) -> BestSet:
    (kernel,) = [kernel for kernel in best.kernels if kernel.name == name]
    assert kernel.record
    return without_record(best, name, record=kernel.record.model_copy(update={"trace": trace}))


def crashing(trace: list) -> list:
    """A trace with a loop split into pieces of zero, by which TVM divides."""
    broken = copy.deepcopy(trace)
    broken[1] = [[index, [0] * len(value) if isinstance(value, list) else value] for index, value in broken[1]]
    return broken


def test_kernels_without_a_record_that_applies_are_misses_with_a_reason(
    tunable_net: Transformed, best: BestSet, target
):
    module = fused(tunable_net, target)
    name = max(best.kernels, key=lambda kernel: kernel.flops).name
    (trace,) = [kernel.record.trace for kernel in best.kernels if kernel.name == name]
    (foreign,) = traces(workload(kernels(module)["max_pool2d"], target))
    cases = {
        "none of 16 candidates worked": without_record(best, name, record=None, reason="none of 16 candidates worked"),
        "it was not tuned": without_record(best, name, workload="0" * 64),
        "Cannot find a block": with_trace(best, name, foreign),
        "not a trace": with_trace(best, name, {"surprise": 1}),
        "SIGFPE": with_trace(best, name, crashing(trace)),
        "tvm-0.1": best.model_copy(update={"generation": "tvm-0.1"}),
        "another target": best.model_copy(update={"target": "{}"}),
    }
    for reason, records in cases.items():
        applied = apply_best(module, target, records)
        assert reason in applied.misses[name], reason
        assert name not in applied.tuned
        assert tvm_ffi.structural_equal(applied.module[name], module[name])
        others = {kernel.name for kernel in best.kernels} - {name}
        assert applied.tuned.keys() == (set() if reason in ("tvm-0.1", "another target") else others)


def test_a_build_with_some_misses_works_and_says_what_share_is_covered(
    tunable_net: Transformed, best: BestSet, package: Builder
):
    heaviest = max(best.kernels, key=lambda kernel: kernel.flops)
    partly = package(tunable_net, without_record(best, heaviest.name, record=None, latency_ms=None, reason="no luck"))
    said = partly.manifest.coverage
    assert (said.tuned, said.tunable) == (len(best.kernels) - 1, len(best.kernels))
    assert said.misses == {heaviest.name: "no luck"}
    assert 0 < said.time_share < 1
    untunable = {kernel.name for kernel in partly.manifest.kernels} - {kernel.name for kernel in best.kernels}
    assert said.not_tunable.keys() == untunable
    inputs = np.random.default_rng(1).standard_normal((1, 8, 16, 16)).astype("float32")
    expected = package(tunable_net).outputs(inputs)[0]
    np.testing.assert_allclose(partly.outputs(inputs)[0], expected, rtol=1e-4, atol=1e-4)


def test_a_build_that_covers_less_than_is_demanded_fails_and_lists_the_misses(
    tunable_net: Transformed, best: BestSet, package: Builder
):
    package(tunable_net, best, request(require_coverage=1.0))
    heaviest = max(best.kernels, key=lambda kernel: kernel.flops)
    lacking = without_record(best, heaviest.name, record=None, latency_ms=None, reason="no luck")
    with pytest.raises(InputError, match=rf"{heaviest.name} \(no luck\)") as caught:
        package(tunable_net, lacking, request(require_coverage=0.99))
    assert caught.value.where == "net/float32/t" and "tuning.trials" in str(caught.value.remedy)
    with pytest.raises(InputError, match="tuning is off"):
        package(tunable_net, None, request(require_coverage=0.5))


def test_on_a_gpu_records_come_first_and_default_schedules_serve_the_rest(tunable_net: Transformed, package: Builder):
    target = tvm_target(OPENCL, "t")
    module = fused(tunable_net, target)
    assert all("layout_free_buffers" not in function.attrs for function in kernels(module).values())
    miss = next(name for name in kernels(module) if "matmul" in name)
    some = best_set(module, target, without={miss})
    tuned, plain = package(tunable_net, some, request(OPENCL)), package(tunable_net, None, request(OPENCL))
    assert tuned.manifest.coverage.misses == {miss: "none of 16 candidates worked"}
    assert tuned.manifest.coverage.tuned == len(some.kernels) - 1 > 0
    assert digest_file(tuned.directory / "mod.params") == digest_file(tunable_net.params)
    assert digest_file(tuned.directory / "mod.so") != digest_file(plain.directory / "mod.so")


def test_a_schedule_for_another_kind_of_target_is_a_miss(tunable_net: Transformed, best: BestSet, target):
    gpu = tvm_target(OPENCL, "t")
    modules = {gpu: fused(tunable_net, gpu), target: fused(tunable_net, target)}
    sets = {one: best_set(module, one) for one, module in modules.items()}
    for one, other, said in ((gpu, target, "not for a GPU"), (target, gpu, "is for a GPU")):
        # Targets compute convolutions in different layouts; a matmul is the same kernel for both.
        foreign = next(kernel.record for kernel in sets[other].kernels if "matmul" in kernel.name and kernel.record)
        swapped = [kernel.model_copy(update={"record": foreign}) for kernel in sets[one].kernels]
        applied = apply_best(modules[one], one, sets[one].model_copy(update={"kernels": tuple(swapped)}))
        assert not applied.tuned
        assert any(said in reason for reason in applied.misses.values())


def test_a_record_without_code_costs_its_kernel_the_schedule_and_not_the_build(
    tunable_net: Transformed, package: Builder
):
    target = tvm_target(OPENCL, "t")
    module = fused(tunable_net, target)
    best = best_set(module, target)
    name = next(name for name in kernels(module) if "conv2d" in name)
    own = workload(kernels(module)[name], target)
    codeless = next(trace for trace in traces(own, 16) if not has_code(own, trace))
    (kernel,) = [kernel for kernel in with_trace(best, name, codeless).kernels if kernel.name == name]
    built = package(tunable_net, with_trace(best, name, codeless), request(OPENCL))
    assert built.manifest.coverage.misses.keys() == {name}
    reason = built.manifest.coverage.misses[name]
    assert reason.startswith(f"there is no code for its record {kernel.record.digest[:12]}: ")
    assert built.manifest.coverage.tuned == len(best.kernels) - 1
    with pytest.raises(InputError, match=f"{name} .there is no code for its record"):
        package(tunable_net, with_trace(best, name, codeless), request(OPENCL, require_coverage=1.0))
