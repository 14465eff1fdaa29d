"""Packages in 8 bits against the same networks in float32 and in ONNX Runtime, in one interleaved run for each network.

    python benchmarks/int8_latency.py resources/digits.onnx zoo:resnet18 trained:mobilenet_v2 --libraries DIR --trained DIR

Subjects: tvmake at float32, tvmake at int8 (its own calibration), tvmake on the file that ONNX Runtime's static quantiser
wrote (QDQ, unsigned activations, signed weights with a scale for each channel), and ONNX Runtime on that file and on the
float one. Nothing is tuned. Networks of the zoo have drawn weights, whose norms are calibrated first; their inputs are drawn.
"trained:" ones are the zoo's, trained on handwritten digits first (trained_networks.py), calibrated on images that they were
trained on, and judged by others: "top1" is how many of those each subject names right.
"sqnr" is how far outputs are from our float32, "equal" and "within_1" how much of the QDQ file's output is ONNX Runtime's to
the step, and "ORT …" the same for ONNX Runtime with and without its own optimisations: networks with drawn weights make much
of the last bit. torch's exporter to ONNX needs onnxscript, below --libraries.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from comparing import ROOT, environment, machine

SAMPLES = 16
TRAINED_SAMPLES = 100
TURNS = 5
TURN_S = 1.0
MOST_RUNS = 2000

Run = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Subject:
    """A network in float32 and images for it."""

    path: Path
    """ONNX, of one image."""
    calibrating: np.ndarray
    fresh: np.ndarray
    """Images to compare outputs on."""
    labels: np.ndarray | None = None
    """Of the fresh ones."""


def float_network(name: str, directory: Path, kept: Path | None) -> Subject:
    """The network, and images for it.

    Args:
        kept: where trained networks are.
    """
    if name.startswith("trained:"):
        from trained_networks import trained

        one = trained(name.removeprefix("trained:"), kept or directory)
        return Subject(one.path, one.seen[:TRAINED_SAMPLES], one.held_out, one.labels)
    if name.endswith("digits.onnx"):
        with np.load(ROOT / "resources" / "digits-test.npz") as found:
            images = found["images"][:, None].astype(np.float32) * 0.0625
        return Subject(Path(name), images[:SAMPLES], images[SAMPLES : 10 * SAMPLES])
    import torch

    from tvmake.frontend.options import ImportOptions
    from tvmake.frontend.zoo import models as zoo

    torch.manual_seed(0)
    network = zoo.network(name, ImportOptions(source=name))
    inputs = torch.nn.functional.interpolate(torch.randn(2 * SAMPLES, 3, 28, 28), (224, 224), mode="bilinear")
    network.train()
    with torch.no_grad():
        for batch in inputs.split(8):
            network(batch)
    network.eval()
    path = directory / "float.onnx"
    torch.onnx.export(network, (inputs[:1],), str(path), verbose=False, external_data=False, input_names=["x"])
    return Subject(path, inputs[:SAMPLES].numpy(), inputs[SAMPLES:].numpy())


def quantized(source: Path, images: np.ndarray, directory: Path) -> Path:
    """The file that ONNX Runtime's static quantiser makes."""
    from onnxruntime import InferenceSession
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared, result = directory / "prepared.onnx", directory / "qdq.onnx"
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    name = InferenceSession(str(source)).get_inputs()[0].name

    class Reader(CalibrationDataReader):
        rows: Iterator[np.ndarray] = iter(images)

        def get_next(self) -> dict[str, np.ndarray] | None:
            row = next(self.rows, None)
            return None if row is None else {name: row[None]}

    quantize_static(
        str(prepared), str(result), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    return result


def package(source: Path, precision: str, images: np.ndarray) -> tuple[Run, dict[str, Any]]:
    """What runs a package of an ONNX file for this machine, and its figures."""
    import tvm

    from tvmake.artifact import stage_json
    from tvmake.artifact.module_files import save_module
    from tvmake.artifact.weights.tensors import save_params
    from tvmake.codegen.link import generate
    from tvmake.codegen.lowering import lower
    from tvmake.codegen.options import BuildOptions, PassOptions
    from tvmake.codegen.weights import packed_weights
    from tvmake.config.dataset import DatasetConfig, Preprocessing
    from tvmake.config.requests.calibrating import CalibrateRequest
    from tvmake.config.target import TargetConfig
    from tvmake.frontend.onnx import importer
    from tvmake.frontend.options import ImportOptions
    from tvmake.quantize.precision import PrecisionConfig
    from tvmake.stages.model.calibrate import calibrate
    from tvmake.targets.resolve import tvm_target
    from tvmake.transform.graph import transform
    from tvmake.transform.options import TransformRequest

    imported = importer.read(source, ImportOptions(source=str(source)))
    wanted, ranges = PrecisionConfig(base=precision), None
    with tempfile.TemporaryDirectory() as root:
        directory = Path(root)
        if precision == "int8":
            save_module(imported.module, directory / "module")
            save_params(imported.params, directory / "params")
            stage_json.save(imported.signature, directory / "signature")
            np.savez(directory / "data.npz", images=images)
            dataset = DatasetConfig(
                path=str(directory / "data.npz"), labels=None, preprocess=Preprocessing(scale=1, layout="NCHW")
            )
            request = CalibrateRequest(model="network", precision=wanted, dataset=dataset)
            files = (directory / name for name in ("module", "params", "signature"))
            ranges = calibrate(*files, request, directory / "calibration.json")
        module, params = transform(imported.module, imported.params, TransformRequest(precision=wanted), ranges)
        target = tvm_target(TargetConfig(kind="llvm", mcpu="native"), "targets.cpu")
        began = time.perf_counter()
        lowered = lower(module, target, [], PassOptions(), 1)
        executable = generate(lowered.final, target, BuildOptions(), "targets.cpu")
        names = [str(parameter.name) for parameter in lowered.fused["main"].params[1:]]
        weights = packed_weights(params, lowered.packings, names) if lowered.packings else params
        figures = {
            "build_s": round(time.perf_counter() - began, 1),
            "weights_bytes": sum(value.numpy().nbytes for value in weights.values()),
        }
        executable.export_library(str(directory / "mod.so"))
        runner = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(directory / "mod.so")), tvm.cpu())
    arguments = list(weights.values())

    def run(value: np.ndarray) -> np.ndarray:
        outputs = runner["main"](tvm.runtime.tensor(value), *arguments)
        return (outputs if isinstance(outputs, tvm.runtime.Tensor) else outputs[0]).numpy()

    return run, figures


def onnxruntime(source: Path, threads: int, *, is_optimized: bool = True) -> Run:
    """What runs a file in ONNX Runtime."""
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    if not is_optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda value: session.run(None, {name: value})[0]


def output_step(source: Path) -> float | None:
    """The scale of a QDQ file's result; None if that is not a dequantised tensor."""
    import onnx

    made = onnx.load(str(source))
    last = next(node for node in made.graph.node if node.output[0] == made.graph.output[0].name)
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    return float(values[last.input[1]].reshape(-1)[0]) if last.op_type == "DequantizeLinear" else None


def measured(name: str, threads: int, kept: Path | None) -> dict[str, Any]:
    """One network's figures: minima and medians in ms, bytes of weights, and how far outputs are from each other."""
    with tempfile.TemporaryDirectory() as directory:
        network = float_network(name, Path(directory), kept)
        source, images = network.path, network.calibrating
        qdq = quantized(source, images, Path(directory))
        subjects: dict[str, Run] = {}
        row: dict[str, Any] = {"network": name, "threads": threads, "machine": machine()}
        for subject, file, precision in (
            ("tvmake float32", source, "float32"), ("tvmake int8", source, "int8"), ("tvmake QDQ", qdq, "float32")
        ):  # fmt: skip
            subjects[subject], row[subject] = package(file, precision, images)
        subjects["ORT float32"], subjects["ORT QDQ"] = onnxruntime(source, threads), onnxruntime(qdq, threads)
        step, other = output_step(qdq), onnxruntime(qdq, threads, is_optimized=False)
    fresh = [image[None] for image in network.fresh]
    outputs = {
        subject: np.concatenate([run(image) for image in fresh]).astype(np.float64) for subject, run in subjects.items()
    }
    reference = outputs["tvmake float32"]
    for subject, found in outputs.items():
        noise = float(((found - reference) ** 2).sum())
        row[f"sqnr {subject}"] = round(10 * math.log10(float((reference**2).sum()) / max(noise, 1e-300)), 1)
        if network.labels is not None:
            row[f"top1 {subject}"] = round(float(np.mean(found.argmax(1) == network.labels)), 4)
    if step is not None:
        unoptimized = np.concatenate([other(image) for image in fresh])
        for prefix, found in (("", outputs["tvmake QDQ"]), ("ORT ", unoptimized)):
            steps = np.rint(np.abs(found - outputs["ORT QDQ"]) / step)
            row[f"{prefix}equal"], row[f"{prefix}within_1"] = float(np.mean(steps == 0)), float(np.mean(steps <= 1))
    times: dict[str, list[float]] = {subject: [] for subject in subjects}
    for _ in range(TURNS):
        for subject, run in subjects.items():
            run(fresh[0])
            until, runs = time.perf_counter() + TURN_S, 0
            while runs < 2 or (runs < MOST_RUNS and time.perf_counter() < until):
                began = time.perf_counter()
                run(fresh[0])
                times[subject].append((time.perf_counter() - began) * 1e3)
                runs += 1
    row["min_ms"] = {subject: round(min(values), 4) for subject, values in times.items()}
    row["median_ms"] = {subject: round(statistics.median(values), 4) for subject, values in times.items()}
    return row


def table(rows: list[dict[str, Any]]) -> None:
    """The figures as Markdown."""
    subjects = list(rows[0]["min_ms"])
    print(
        "| network | " + " | ".join(f"{subject} ms" for subject in subjects) + " | int8 / float32 | QDQ / ORT | bytes |"
    )
    print("|---" * (len(subjects) + 4) + "|")
    for row in rows:
        least = row["min_ms"]
        cells = [row["network"], *(f"{least[subject]:.3f}" for subject in subjects)]
        cells.append(f"{least['tvmake int8'] / least['tvmake float32']:.2f}")
        cells.append(f"{least['tvmake QDQ'] / least['ORT QDQ']:.2f}")
        cells.append(f"{row['tvmake int8']['weights_bytes'] / row['tvmake float32']['weights_bytes']:.3f}")
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    """Measure each network in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--libraries", type=Path, help="a directory with onnxscript")
    parser.add_argument("--trained", type=Path, help="where trained networks are, and are kept")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one, options.threads, options.trained)))
        return
    paths = [str(Path(__file__).parent), *([str(options.libraries.resolve())] if options.libraries else [])]
    env = environment(PYTHONPATH=os.pathsep.join(paths), TVM_NUM_THREADS=str(options.threads))
    rows = []
    for name in options.networks:
        command = [sys.executable, __file__, "--one", name, "--threads", str(options.threads)]
        command += ["--trained", str(options.trained)] if options.trained else []
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr[-3000:]}")
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps(rows[-1]), file=sys.stderr)
    table(rows)


if __name__ == "__main__":
    main()
