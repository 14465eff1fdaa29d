"""The demo as one script: the same TVM calls, in one process, without cache, files between steps or checks.

    python benchmarks/straight_line.py [demo|eight] [--fold numpy]

What a person would write by hand; ``cold_demo.py`` compares the pipeline's wall time with it. Constants are folded by
TVM's FoldConstant, as a hand-written script would; ``--fold numpy`` uses tvmake's folding instead, for a comparison
of the pipeline alone.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
ALL = ("float32", "float16", "float16_acc32")
WORK: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "demo": [("digits.onnx", ALL), ("zoo:mobilenet_v2", ("float32",))],
    "eight": [
        ("digits.onnx", ALL),
        ("digits.pt2", ALL),
        ("zoo:mobilenet_v2", ("float32",)),
        ("zoo:squeezenet1_1", ("float32",)),
    ],
}


def from_onnx(path: Path) -> tuple[Any, dict, Callable, list[np.ndarray]]:
    """Relax, parameters, a reference and its inputs for an ONNX file."""
    import onnx
    import onnxruntime
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx as convert

    module = convert(onnx.load(path), keep_params_in_input=True)
    module, params = relax.frontend.detach_params(module)
    names = [var.name for var in module["main"].params[1:]]
    session = onnxruntime.InferenceSession(path)
    inputs = digits()
    return module, dict(zip(names, params["main"], strict=True)), lambda x: session.run(None, {"image": x})[0], inputs


def from_program(program: Any, inputs: list[np.ndarray]) -> tuple[Any, dict, Callable, list[np.ndarray]]:
    """The same for a torch.export program."""
    import torch
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program

    module = from_exported_program(program, keep_params_as_input=True, unwrap_unit_return_tuple=True)
    module, params = relax.frontend.detach_params(module)
    names = [var.name for var in module["main"].params[1:]]
    network = program.module()

    def reference(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network(torch.from_numpy(x)).numpy()

    return module, dict(zip(names, params["main"], strict=True)), reference, inputs


def read(source: str) -> tuple[Any, dict, Callable, list[np.ndarray]]:
    """Import a source."""
    if source.endswith(".onnx"):
        return from_onnx(ROOT / "resources" / source)
    import torch

    if source.endswith(".pt2"):
        return from_program(torch.export.load(ROOT / "resources" / source), digits())
    from tvmake.frontend.options import ImportOptions
    from tvmake.frontend.zoo import models as zoo

    random = np.random.default_rng(0)
    images = [random.uniform(-2, 2, (1, 3, 224, 224)).astype("float32") for _ in range(16)]
    return from_program(zoo.export(source, ImportOptions(source=source)), images)


def digits() -> list[np.ndarray]:
    """The held-out digits, scaled."""
    with np.load(ROOT / "resources" / "digits-test.npz") as file:
        images = file["images"].astype("float32").reshape(-1, 1, 1, 8, 8) / 16
    return list(images)


def compile_and_run(
    module: Any, params: dict, precision: str, reference: Callable, inputs: list, fold: str, directory: Path
) -> None:
    """Fold, convert, build, export, load, compare, time."""
    import tvm
    from tvm import relax

    passes = relax.transform
    folding = [passes.CanonicalizeBindings(), passes.FoldConstant(), passes.DeadCodeElimination()]
    module = passes.BindParams("main", params)(module)
    module = tvm.transform.Sequential([passes.FoldBatchnormToConv2D(), passes.DecomposeOpsForInference()])(module)
    module = settle(module, fold, folding)
    if precision != "float32":
        mixed = passes.ToMixedPrecision("float16" if precision == "float16" else "float32")
        module = settle(tvm.transform.Sequential([passes.ConvertToDataflow(), mixed])(module), fold, folding)
    from tvmake.frontend.relax_fixes import lift_constants

    module, weights = lift_constants(module)
    target = tvm.target.Target({"kind": "llvm", "mcpu": str(tvm.target.codegen.llvm_get_system_cpu())})
    with target:
        module = relax.backend.cpu_generic.get_default_pipeline(target)(module)
    library = directory / "mod.so"
    relax.build(module, target=target, relax_pipeline=None).export_library(str(library))
    tvm.runtime.save_param_dict_to_file(weights, str(directory / "mod.params"))

    loaded = list(tvm.runtime.load_param_dict_from_file(str(directory / "mod.params")).values())
    vm = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    worst = 0.0
    for x in inputs:
        got = vm["main"](tvm.runtime.tensor(x), *loaded).numpy()
        worst = max(worst, float(np.abs(got - reference(x)).max()))
    samples = []
    vm.set_input("main", tvm.runtime.tensor(inputs[0]), *loaded)
    for _ in range(3 + 20):
        began = time.perf_counter()
        vm.invoke_stateful("main")
        samples.append((time.perf_counter() - began) * 1000)
    print(f"{precision}: p50 {np.median(samples[3:]):.3f} ms, worst error {worst:.2g}")


def settle(module: Any, fold: str, folding: list) -> Any:
    """Fold constants one way or the other."""
    import tvm

    if fold == "numpy":
        from tvmake.transform.fold_constants import evaluate_constants

        return evaluate_constants(module)
    return tvm.transform.Sequential(folding)(module)


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=WORK, nargs="?", default="demo")
    parser.add_argument("--fold", choices=["tvm", "numpy"], default="tvm")
    arguments = parser.parse_args()
    import torch  # noqa: F401  # before TVM, as its importer needs
    import tvm.relax.backend.cpu_generic  # noqa: F401

    with tempfile.TemporaryDirectory() as temporary:
        for source, precisions in WORK[arguments.work]:
            module, params, reference, inputs = read(source)
            for precision in precisions:
                print(source, end=" ")
                # A library that is loaded already is not read again: each needs a path of its own.
                directory = Path(tempfile.mkdtemp(dir=temporary))
                compile_and_run(module, params, precision, reference, inputs, arguments.fold, directory)


if __name__ == "__main__":
    main()
