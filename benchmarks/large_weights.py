"""Peak memory of every stage, and disk space, for a network whose weights are large, in several precisions.

    python benchmarks/large_weights.py [--gib 0.69] [--precisions float32 float16 int8_weights int4_weights]

The network is a chain of matmuls of 4096×4096 in float32, as ONNX with external data: once in the form that kernels take (`plain`), and
once with transposed weights, as PyTorch's linear layers have them (`transposed`). Figures are multiples of the weights in float32;
processes without any need about 110 MB, with TVM 200 to 300 MB.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
from comparing import environment, machine, processor_time
from onnx import helper, numpy_helper

SIDE = 4096
MB = 10**6

PRECISIONS = ["float32", "float16", "int8_weights", "int4_weights"]

CONFIG = """
models: {chain: {source: chain.onnx}}
precisions: [PRECISIONS]
targets: {cpu: {kind: llvm, mcpu: native}}
devices: {local: {}}
benchmark: {baseline: false}
"""


def write_chain(path: Path, count: int, transposed: bool) -> None:
    """Write the network and its weights."""
    random, nodes, tensors, value = np.random.default_rng(0), [], [], "x"
    for number in range(count):
        weights = random.standard_normal((SIDE, SIDE), dtype=np.float32) * 0.015
        tensors.append(numpy_helper.from_array(weights, f"w{number}"))
        nodes.append(helper.make_node("Gemm", [value, f"w{number}"], [f"h{number}"], transB=int(transposed)))
        nodes.append(helper.make_node("Relu", [f"h{number}"], [f"r{number}"]))
        value = f"r{number}"
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, SIDE]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location=path.name + ".data")


def peaks_mb(logs: Path, precision: str) -> dict[str, float]:
    """The peak memory of each stage for a precision, from the last lines of the logs."""
    peaks: dict[str, float] = {}
    for log in [*sorted((logs / "chain").glob("*.log")), *sorted((logs / "chain" / precision).rglob("*.log"))]:
        for line in log.read_text().splitlines():
            if line.startswith('{"stage"'):
                usage = json.loads(line)
                peaks[log.stem] = usage["peak_memory_mb"] * 1.048576
    return peaks


def disk_mb(*directories: Path) -> float:
    """The space of all files; links count once."""
    files = [file for directory in directories for file in [directory, *directory.rglob("*")] if file.is_file()]
    return sum({(about := file.stat()).st_ino: about.st_blocks * 512 for file in files}.values()) / MB


def run_seconds(package: Path, directory: Path) -> float:
    """Processor time of `tvmake run` for a package that ran before."""
    return processor_time(["tvmake", "run", str(package), "--fill", "random"], directory, environment())


def measure(directory: Path, count: int, transposed: bool, precisions: list[str]) -> dict[str, dict[str, float]]:
    """Make the packages of a network; returns figures by precision."""
    write_chain(directory / "chain.onnx", count, transposed)
    (directory / "c.yaml").write_text(CONFIG.replace("PRECISIONS", ", ".join(precisions)))
    os.environ["TVMAKE_HOME"] = str(directory / "home")
    command = ["tvmake", "make", "-c", "c.yaml"]
    subprocess.run(command, cwd=directory, env=environment(), check=True, stdout=subprocess.DEVNULL)
    results = directory / "results" / "chain"
    figures = {}
    for precision in precisions:
        package = results / precision / "cpu" / "package.tar"
        figures[precision] = {
            **{f"{stage}, MB": peak for stage, peak in peaks_mb(directory / "logs", precision).items()},
            "results, MB": disk_mb(results / "model.params", results / precision),
            "package, MB": disk_mb(package),
            "run again, s": min(run_seconds(package, directory) for _ in range(3)),
        }
    return figures


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float, default=0.69, help="size of the weights")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    arguments = parser.parse_args()
    count = max(1, round(arguments.gib * 2**30 / SIDE / SIDE / 4))
    weights = count * SIDE * SIDE * 4 / MB
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for form in ("plain", "transposed"):
        with tempfile.TemporaryDirectory() as temporary:
            figures[form] = measure(Path(temporary), count, form == "transposed", arguments.precisions)
        print(f"{form}, {weights:.0f} MB of weights ({machine()})")
        print(f"  {'':<18}" + "".join(f"{precision:>20}" for precision in figures[form]))
        for name in next(iter(figures[form].values())):
            values = [figures[form][precision].get(name, 0) for precision in figures[form]]
            texts = [f"{value:.0f} ({value / weights:4.2f} ×)" if "MB" in name else f"{value:.1f}" for value in values]
            print(f"  {name:<18}" + "".join(f"{text:>20}" for text in texts), flush=True)
    print(json.dumps({"title": "large weights", "unit": "MB", "figures": figures, "where": machine()}))


if __name__ == "__main__":
    main()
