"""Random networks through import, build and run, compared with their framework.

    python benchmarks/random_networks.py --networks 500 --targets llvm adreno-730-texture --results random.jsonl
    python benchmarks/random_networks.py --case 17 --targets llvm          # prints the network and what becomes of it
    python benchmarks/random_networks.py --case 17 --targets llvm --shrink # the smallest network with the same outcome
    python benchmarks/random_networks.py --results random.jsonl --table

With ``--dynamic`` networks have one to three dynamic dimensions and are run at three sizes: the smallest, odd ones and the bounds.
Networks are those of the seeds from ``--seed`` on, from PyTorch or, with ``--source onnx``, ONNX files against ONNX Runtime. Each is
tried in a process of its own, within limits of time and memory; what is in ``--results`` already is not tried again.

==========  =====================================================================================================
right       the outputs are those of the framework, within the goals of the precision
refused     tvmake says that it cannot, and why
unjudged    rounding at this precision alone moves the outputs beyond the goals, or ONNX Runtime refuses the network
failed      TVM's importer or code generator fails, which tvmake reports
wrong       other outputs, or two runs that differ
crashed     anything else
timeout     it takes over ten minutes
==========  =====================================================================================================

Exits with 1 where a network is wrong, crashed or timed out. Networks of nnsmith 0.1.0 are not among them: PyTorch 2.13's exporter
to ONNX fails at the checks that its networks carry, and its operators are few beside those here.
"""

import argparse
import json
import os
import sys
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks")]
os.environ.setdefault("TVM_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from random_graphs import onnx_kinds
from random_graphs.drawing import KINDS, drawn
from random_graphs.dynamic import drawn_dynamic, suits_onnx, suits_torch
from random_graphs.network import Network
from random_graphs.shrinking import shrunk
from random_graphs.trying import ORDER, Outcome, Subject, of_onnx, of_torch, tried

SOURCES = {"torch": (KINDS, of_torch, suits_torch), "onnx": (onnx_kinds.KINDS, of_onnx, suits_onnx)}

BAD = ("wrong", "crashed", "timeout")


def table(rows: list[dict[str, str]]) -> str:
    """Counts by source, target and precision, and the causes of what is not right, the most frequent first."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    causes: Counter[tuple[str, str]] = Counter()
    for row in rows:
        counts.setdefault((row["source"], row["target"], row["precision"]), Counter())[row["outcome"]] += 1
        if row["outcome"] != "right":
            causes[row["outcome"], row["cause"][:120]] += 1
    lines = [f"| source | target | precision | {' | '.join(ORDER)} |", f"|{'---|' * (3 + len(ORDER))}"]
    lines += [
        f"| {' | '.join(key)} | {' | '.join(str(count[name]) for name in ORDER)} |"
        for key, count in sorted(counts.items())
    ]
    lines += ["", "| outcome | cause | networks |", "|---|---|---|"]
    lines += [f"| {outcome} | {cause} | {count} |" for (outcome, cause), count in causes.most_common() if cause]
    return "\n".join(lines)


def warm_up() -> None:
    """Load what exporting, importing and building load when first used, for all processes that are forked later."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from random_graphs.network import Input, Step
    from random_graphs.trying import outcome

    subject = of_torch(Network((Input((1, 3, 5, 5)),), (Step("relu", (0,)),), (1,)), KINDS)
    outcome(subject, subject.imported(), "llvm", "float32")


def subject_of(source: str, network: Network) -> Subject:
    """A network as tvmake gets it from a source."""
    kinds, subject, _ = SOURCES[source]
    return subject(network, kinds)


def network_of(seed: int, arguments: argparse.Namespace) -> Network:
    """A seed's network."""
    kinds, _, suits = SOURCES[arguments.source]
    return drawn_dynamic(seed, kinds, suits) if arguments.dynamic else drawn(seed, kinds)


def attempts(seed: int, arguments: argparse.Namespace) -> list[Outcome]:
    """What becomes of a seed's network."""
    network = network_of(seed, arguments)
    return tried(partial(subject_of, arguments.source, network), arguments.targets, arguments.precisions)


def shrink(seed: int, arguments: argparse.Namespace) -> Network:
    """The smallest network with the outcome of the seed's network, on the first target where it is not right."""
    kinds, _, _ = SOURCES[arguments.source]
    network = network_of(seed, arguments)
    first = next(
        (attempt for attempt in attempts(seed, arguments) if attempt.outcome not in ("right", "unjudged")), None
    )
    if first is None:
        return network

    def shows(candidate: Network) -> bool:
        (found,) = tried(partial(subject_of, arguments.source, candidate), [first.target], [first.precision])
        is_same = first.outcome == "wrong" or found.cause[:40] == first.cause[:40]
        return found.outcome == first.outcome and is_same

    return shrunk(network, kinds, shows)


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=SOURCES, default="torch")
    parser.add_argument("--dynamic", action="store_true", help="one to three dynamic dimensions, at three sizes")
    parser.add_argument("--seed", type=int, default=0, help="of the first network")
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--targets", nargs="+", default=["llvm"], help="tags of the catalogue, or llvm, opencl, cuda")
    parser.add_argument("--precisions", nargs="+", default=["float32"])
    parser.add_argument("--results", type=Path, help="a line for each network, target and precision")
    parser.add_argument("--case", type=int, nargs="+", help="these seeds alone, printed")
    parser.add_argument("--shrink", action="store_true", help="print the smallest network with the same outcome")
    parser.add_argument("--table", action="store_true", help="print a table of --results, and try nothing")
    arguments = parser.parse_args()
    is_kept = arguments.results is not None and arguments.results.is_file()
    rows = [json.loads(line) for line in arguments.results.read_text().splitlines()] if is_kept else []
    if arguments.table:
        print(table(rows))
        return int(any(row["outcome"] in BAD for row in rows))
    warm_up()
    done = {(row["source"], row["seed"], row["target"], row["precision"]) for row in rows}
    source = f"{arguments.source}, dynamic" if arguments.dynamic else arguments.source
    wanted = {(tag, precision) for tag in arguments.targets for precision in arguments.precisions}
    for seed in arguments.case or range(arguments.seed, arguments.seed + arguments.networks):
        if arguments.shrink:
            print(shrink(seed, arguments), flush=True)
            continue
        if arguments.case:
            print(network_of(seed, arguments))
        elif {(source, seed, *one) for one in wanted} <= done:
            continue
        for found in attempts(seed, arguments):
            row = {"source": source, "seed": seed, **vars(found)}
            rows.append(row)
            if arguments.results is not None:
                with arguments.results.open("a") as results:
                    results.write(json.dumps(row) + "\n")
            if arguments.case or found.outcome != "right":
                print(f"{seed} on {found.target} at {found.precision}: {found.outcome} {found.cause}", flush=True)
    print(json.dumps({"counts": Counter(row["outcome"] for row in rows)}))
    return int(any(row["outcome"] in BAD for row in rows))


if __name__ == "__main__":
    sys.exit(main())
