"""Packages with dynamic dimensions, against ONNX Runtime and packages built for one size, in one interleaved run.

    python benchmarks/dynamic_dimensions.py --libraries DIR --threads 1 2 --results dynamic.jsonl
    python benchmarks/dynamic_dimensions.py --networks encoder decoder --threads 1
    python benchmarks/dynamic_dimensions.py --profile resnet18 3 --libraries DIR
    python benchmarks/dynamic_dimensions.py --table --results dynamic.jsonl

Each network of benchmarks/dynamic_networks.py is exported to ONNX with its dynamic dimensions and built for this machine's CPU, without
records: once with dynamic dimensions, and once for each of its sizes. At each size the dynamic package, the fixed one and ONNX Runtime alternate,
from NumPy arrays to NumPy arrays, in a process of its own for each network and number of threads. A row has minima and medians in ms, the
spread (interquartile range over median), the largest error against ONNX Runtime (relative to the largest output), and the processor
seconds of both builds. What fails is a row with its reason. Rows that --results has for the same sources are not measured again.

Exports and packages are kept in ``--cache``, packages by a digest of tvmake's sources. ``--fixed-checkout`` lets another checkout build the
fixed packages, which edits of this one then leave alone.

With ``--threads 1`` times are processor time of that thread, which other work on the machine hardly changes; with more threads they are
the time that passes. ``--profile`` prints each kernel's time in the dynamic package beside the fixed one's.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from building import ROOT, Build, BuildFailure, Checkout, export_file, run_python
from comparing import machine, onnxruntime_session, race, race_clock
from dynamic_networks import NETWORKS, VOCABULARY

TURNS = 5
TURN_S = 0.5
MOST_RUNS = 100
TOLERANCE = 1e-4
"""Largest error that is right, relative to the largest output."""
CACHE = Path.home() / ".cache" / "tvmake-benchmarks"
HERE = Path(__file__).parent

Arrays = dict[str, np.ndarray]


def label(size: Sequence[int]) -> str:
    """A size as rows and ``--profile`` have it: ``4x61``."""
    return "x".join(map(str, size))


def draw_inputs(manifest: Mapping[str, Any], dims: Mapping[str, int]) -> Arrays:
    """Seeded inputs of a package at a size, by name."""
    generator = np.random.default_rng(0)
    inputs = {}
    for name, shape, dtype in input_shapes(manifest, dims):
        is_real = dtype == "float32"
        inputs[name] = (
            generator.standard_normal(shape, dtype="float32")
            if is_real
            else generator.integers(0, VOCABULARY, shape).astype(dtype)
        )
    return inputs


def input_shapes(manifest: Mapping[str, Any], dims: Mapping[str, int]) -> Iterator[tuple[str, list[int], str]]:
    """Name, shape at a size and element type of each input of a package."""
    for value in manifest["signature"]["inputs"]:
        yield (
            value["name"],
            [dims[extent] if isinstance(extent, str) else extent for extent in value["shape"]],
            value["dtype"],
        )


def read_manifest(package: Path | str) -> dict[str, Any]:
    """A package's mod.json."""
    manifest: dict[str, Any] = json.loads((Path(package) / "mod.json").read_text())
    return manifest


def open_package(directory: str) -> Any:
    """A package in this process."""
    from tvmake.artifact.package import verify_directory
    from tvmake.device.local.worker import LoadedPackage

    return LoadedPackage(Path(directory), verify_directory(Path(directory), directory))


def largest_errors(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> tuple[float, float]:
    """The largest absolute error, and the largest relative to its output's largest value; infinite if shapes differ."""
    absolute = relative = 0.0
    for output, wanted in zip(outputs, expected, strict=True):
        if output.shape != wanted.shape:
            return float("inf"), float("inf")
        if wanted.size:
            error = float(np.nan_to_num(np.abs(output.astype(float) - wanted), nan=np.inf).max())
            absolute, relative = max(absolute, error), max(relative, error / max(float(np.abs(wanted).max()), 1e-30))
    return absolute, relative


def race_network(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One row for each size of a network, in this process."""
    session = onnxruntime_session(job["file"], job["threads"])
    dynamic, manifest = open_package(job["dynamic"]), read_manifest(job["dynamic"])
    for size, fixed in job["sizes"]:
        row: dict[str, Any] = {"size": label(size)}
        try:
            inputs = draw_inputs(manifest, NETWORKS[job["network"]].dims(size))
            expected, values = session.run(None, inputs), list(inputs.values())
            row["absolute_error"], row["relative_error"] = largest_errors(dynamic.outputs_of(values), expected)
            subjects: dict[str, Callable[[], Any]] = {"dynamic": lambda values=values: dynamic.outputs_of(values)}
            if fixed:
                package = open_package(fixed)
                row["fixed_relative_error"] = largest_errors(package.outputs_of(values), expected)[1]
                subjects["fixed"] = lambda package=package, values=values: package.outputs_of(values)
            subjects["onnxruntime"] = lambda inputs=inputs: session.run(None, inputs)
            times = race(subjects, race_clock(job["threads"]), job["turns"], TURN_S, MOST_RUNS)
            row["min_ms"] = {name: round(min(found), 4) for name, found in times.items()}
            row["median_ms"] = {name: round(statistics.median(found), 4) for name, found in times.items()}
            row["spread"] = {name: round(spread(found), 3) for name, found in times.items()}
        except Exception as error:  # noqa: BLE001  # whatever a package fails with is the row's reason
            row["problem"] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[-1][:200]}"
        yield row


def spread(times: Sequence[float]) -> float:
    """The interquartile range over the median."""
    lower, middle, upper = statistics.quantiles(times, n=4)
    return (upper - lower) / middle


class Runner:
    """Builds networks and has them raced."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.checkout = Checkout(ROOT, options.libraries)
        self.sources = self.checkout.digest + ("-bounds" if options.bounds else "")
        self.fixed_checkout = Checkout(options.fixed_checkout or ROOT, options.libraries)

    def file(self, name: str) -> Path:
        """The ONNX file of a network."""
        return export_file(name, self.checkout, self.options.cache)

    def dynamic(self, name: str) -> Path:
        """The package of a network with its dynamic dimensions."""
        network = NETWORKS[name]
        bounds = {dimension: {"max": size} for dimension, size in network.dims(network.largest).items()}
        dims = bounds if self.options.bounds else {}
        return self.checkout.build(Build(str(self.file(name)), dims=dims), self.options.cache)

    def fixed(self, name: str, size: Sequence[int]) -> Path:
        """The package of a network for one size."""
        found = input_shapes(read_manifest(self.dynamic(name)), NETWORKS[name].dims(size))
        shapes = {own: shape for own, shape, _ in found}
        return self.fixed_checkout.build(Build(str(self.file(name)), shapes=shapes), self.options.cache)

    def profile(self, name: str, size: Sequence[int]) -> str:
        """The time of each kernel at a size, beside the fixed package's."""
        threads = self.options.threads[0]
        job = {"network": name, "dims": NETWORKS[name].dims(size), "threads": threads}
        job["packages"] = [str(self.dynamic(name)), str(self.fixed(name, size))]
        env = self.checkout.environment(TVM_NUM_THREADS=str(threads))
        return run_python([str(HERE / "kernel_times.py"), json.dumps(job)], env)

    def rows(self, name: str, threads: int) -> Iterator[dict[str, Any]]:
        """The rows of a network."""
        network = NETWORKS[name]
        head = {"network": name, "threads": threads, "sources": self.sources}
        notes: dict[str, dict[str, Any]] = {}
        try:
            dynamic = self.dynamic(name)
            sizes: list[tuple[Sequence[int], str]] = []
            for size in network.sizes:
                note: dict[str, Any] = {"build_s": {"dynamic": self.checkout.seconds(dynamic)}}
                notes[label(size)] = note
                fixed = ""
                if not self.options.no_fixed:
                    try:
                        package = self.fixed(name, size)
                        note["build_s"]["fixed"] = self.checkout.seconds(package)
                        fixed = str(package)
                    except BuildFailure as error:
                        note["no_fixed"] = str(error)
                sizes.append((size, fixed))
            job = {"network": name, "file": str(self.file(name)), "dynamic": str(dynamic), "sizes": sizes}
            job |= {"threads": threads, "turns": self.options.turns}
            env = self.checkout.environment(TVM_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
            for line in run_python([__file__, "--race", json.dumps(job)], env).splitlines():
                row = json.loads(line)
                yield {**head, **row, **notes[row["size"]]}
        except BuildFailure as error:
            yield {**head, "size": "all", "problem": str(error)}


def ratio(row: Mapping[str, Any], peer: str) -> float | None:
    """The dynamic package's minimum over a peer's."""
    found = row.get("min_ms", {})
    return found["dynamic"] / found[peer] if peer in found else None


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The latest rows as Markdown, with the geometric means of the ratios."""
    lines = [
        "| network | size | threads | dynamic ms | spread | × fixed | × ONNX Runtime | relative error | build × fixed |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    latest = {(row["network"], row["threads"], row["size"]): row for row in rows}
    for name in dict.fromkeys(row["network"] for row in rows):
        for threads in sorted({row["threads"] for row in rows if row["network"] == name}):
            own = [row for row in latest.values() if (row["network"], row["threads"]) == (name, threads)]
            own = [row for row in own if row["sources"] == own[-1]["sources"]]
            lines += [_line(row) for row in own]
            means = []
            for peer in ("fixed", "onnxruntime"):
                ratios = [found for row in own if (found := ratio(row, peer)) is not None]
                means.append(f"{statistics.geometric_mean(ratios):.2f}, at most {max(ratios):.2f}" if ratios else "–")
            lines.append(f"| **{name}** | geometric mean | {threads} | | | {means[0]} | {means[1]} | | |")
    return "\n".join([*lines, "", machine()])


def _line(row: Mapping[str, Any]) -> str:
    cells = [row["network"], row["size"], str(row["threads"])]
    if "problem" in row:
        return f"| {' | '.join([*cells, row['problem']])} | | | | | |"
    ratios = [ratio(row, peer) for peer in ("fixed", "onnxruntime")]
    builds = row["build_s"]
    cells += [f"{row['min_ms']['dynamic']:.3f}", f"{row['spread']['dynamic'] * 100:.0f} %"]
    cells += ["–" if found is None else f"{found:.2f}" for found in ratios]
    cells.append(f"{row['relative_error']:.0e}" + (" **wrong**" if row["relative_error"] > TOLERANCE else ""))
    cells.append(f"{builds['dynamic'] / builds['fixed']:.2f}" if "fixed" in builds else row.get("no_fixed", "–")[:80])
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--results", type=Path, default=Path("dynamic.jsonl"))
    parser.add_argument("--table", action="store_true", help="only print what --results has")
    parser.add_argument("--profile", nargs=2, metavar=("NETWORK", "SIZE"), help="such as: encoder 4x61")
    parser.add_argument(
        "--bounds", action="store_true", help="build with the largest size of each dimension as its bound"
    )
    parser.add_argument(
        "--cache", type=Path, default=CACHE, help=f"a directory for exports and packages; {CACHE} by default"
    )
    parser.add_argument("--libraries", type=Path, help="a directory with timm and torchvision")
    parser.add_argument("--fixed-checkout", type=Path, help="the checkout of tvmake that builds the fixed packages")
    parser.add_argument("--no-fixed", action="store_true", help="race against ONNX Runtime alone")
    parser.add_argument("--race", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.race:
        for row in race_network(options.race):
            print(json.dumps(row), flush=True)
        return
    runner = Runner(options)
    if options.profile:
        name, size = options.profile
        try:
            print(runner.profile(name, [int(extent) for extent in size.replace("×", "x").split("x")]), end="")
        except BuildFailure as error:
            sys.exit(f"error: {name}: {error}")
        return
    rows = [json.loads(line) for line in options.results.read_text().splitlines()] if options.results.exists() else []
    if not options.table:
        known = {(row["network"], row["threads"]) for row in rows if row["sources"] == runner.sources}
        for name in options.networks:
            for threads in options.threads:
                if (name, threads) in known:
                    continue
                for row in runner.rows(name, threads):
                    rows.append(row)
                    with options.results.open("a") as results:
                        results.write(json.dumps(row) + "\n")
                    print(json.dumps(row), file=sys.stderr)
    print(table(rows))


if __name__ == "__main__":
    main()
