"""Peak memory of import and build for a model of about 100 MB, against TVM's own.

    python benchmarks/memory.py

The model is a ResNet-50 as ONNX (102 MB of weights). The peer is one process that does what a script does with
parameters kept apart: from_onnx, detach, lower, build, export_library, save parameters. Ours is the largest of the
processes behind ``tvmake step import`` and ``tvmake step build``. (``transform`` binds the weights to fold batch norms;
its peak is printed as well, beside TVM's own for the same passes.)
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from comparing import environment, machine

EXPORT = """
import sys, torch
from tvmake.frontend.zoo import models as zoo
network = zoo.seeded_network("resnet50", 0, num_classes=1000)
torch.onnx.export(network, (torch.zeros(1, 3, 224, 224),), sys.argv[1], dynamo=False, opset_version=17,
                  do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE)
"""

PEER = """
import sys
sys.modules["torch"] = None
import tvm
del sys.modules["torch"]
import onnx
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
module = from_onnx(onnx.load(sys.argv[1]), keep_params_in_input=True)
module, params = relax.frontend.detach_params(module)
names = [var.name for var in module["main"].params[1:]]
params = dict(zip(names, params["main"]))
if sys.argv[3] == "transform":
    T = relax.transform
    module = T.BindParams("main", params)(module)
    module = tvm.transform.Sequential([T.FoldBatchnormToConv2D(), T.DecomposeOpsForInference(),
        T.CanonicalizeBindings(), T.FoldConstant(), T.DeadCodeElimination()])(module)
    sys.exit()
target = tvm.target.Target("llvm")
with target:
    module = relax.transform.DecomposeOpsForInference()(module)
    module = relax.backend.cpu_generic.get_default_pipeline(target)(module)
relax.build(module, target=target, relax_pipeline=None).export_library(sys.argv[2] + "/mod.so")
tvm.runtime.save_param_dict_to_file(params, sys.argv[2] + "/mod.params")
"""


def peak_mb(command: list[str], directory: Path) -> float:
    """Peak resident memory in MB of the largest process of a command."""
    pid = os.posix_spawnp(command[0], command, environment(TMPDIR=str(directory)))
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{command[:4]} failed")
    return usage.ru_maxrss / 1024


def main() -> None:
    """See the module's docstring."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        model = directory / "resnet50.onnx"
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", EXPORT, str(model)], check=True, stdout=subprocess.DEVNULL
        )
        print(f"model: {model.stat().st_size / 1e6:.0f} MB")
        files = {
            name: str(directory / name) for name in ("model.json", "model.params", "signature.json", "source.json")
        }
        step = ["tvmake", "step"]
        figures["tvmake import"] = peak_mb(
            [*step, "import", "--options", json.dumps({"source": str(model)}), "--module", files["model.json"],
             "--params", files["model.params"], "--signature", files["signature.json"], "--source", files["source.json"]],
            directory,
        )  # fmt: skip
        made = [str(directory / name) for name in ("module.json", "module.params", "bound.json")]
        figures["tvmake transform"] = peak_mb(
            [*step, "transform", files["model.json"], files["model.params"], files["signature.json"], "--options", "{}",
             "--module", made[0], "--params", made[1], "--bound", made[2]],
            directory,
        )  # fmt: skip
        request = {"model": "resnet50", "precision": "float32", "target_name": "cpu"}
        figures["tvmake build"] = peak_mb(
            [*step, "build", *made, "--options", json.dumps(request), "--lib", str(directory / "mod.so"),
             "--manifest", str(directory / "mod.json"), "--packing", str(directory / "packing.json"), "--sources", str(directory / "sources")],
            directory,
        )  # fmt: skip
        for part in ("build", "transform"):
            figures[f"TVM {part}"] = peak_mb([sys.executable, "-c", PEER, str(model), temporary, part], directory)
    ours = max(figures["tvmake import"], figures["tvmake build"])
    print(f"peak memory ({machine()})")
    for name, value in figures.items():
        print(f"  {name:<20} {value:8.0f} MB")
    print(
        f"  import + build: {ours:.0f} MB, ratio {ours / figures['TVM build']:.2f} to TVM's {figures['TVM build']:.0f} MB"
    )
    print(json.dumps({"title": "peak memory", "unit": "MB", "figures": figures, "where": machine()}))


if __name__ == "__main__":
    main()
