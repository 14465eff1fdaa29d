"""Compare the packages of two checkouts: mod.so and mod.params byte by byte, mod.json by key, without versions.

    python benchmarks/compare_packages.py --base ../base --libraries DIR
    python benchmarks/compare_packages.py zoo:resnet18 network.onnx --base ../base --targets haswell adreno-730-texture cuda-sm90

Builds the demo's network and those of benchmarks/networks/untuned.txt (or the ones given: names, ONNX files or lists) with the checkout that
this script is in, or ``--checkout``, and with ``--base``. A target is a tag that ``tvmake targets`` lists, or LLVM's name of an x86-64
processor, so that one machine covers several. Packages are kept in ``--cache`` by a digest of each checkout's sources. Prints a line for each
pair; exits with 1 if any differs, or builds with one checkout alone.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from breadth import LIBRARIES, networks
from building import ROOT, Build, BuildFailure, Checkout
from dynamic_dimensions import CACHE

from tvmake.targets.catalogue.entries import catalogue

DEFAULT_NETWORKS = [str(ROOT / "resources" / "digits.onnx"), str(ROOT / "benchmarks" / "networks" / "untuned.txt")]
DEFAULT_TARGETS = ["skylake-avx512", "haswell", "cortex-a76-linux"]
BYTES = ("mod.so", "mod.params")
LISTED = 5
"""Differing keys of a mod.json that are printed."""


def target_keys(name: str) -> dict[str, Any]:
    """A target's keys in a config: a processor of the catalogue or a tag of TVM's, or else LLVM's name of a CPU."""
    is_tag = name in catalogue() or "/" in name
    return {"tag": name} if is_tag else {"kind": "llvm", "mcpu": name}


def network_build(name: str, target: Mapping[str, Any]) -> Build:
    """What is built of a network as benchmarks/breadth.py names it."""
    if name.partition(":")[0] in LIBRARIES:
        return Build("breadth_networks:network", target, arguments={"name": name})
    return Build(name, target)


def differences(ours: Path, base: Path) -> list[str]:
    """The files that differ between two packages; of mod.json the keys."""
    found = [name for name in BYTES if (ours / name).read_bytes() != (base / name).read_bytes()]
    manifests = (json.loads((directory / "mod.json").read_text()) for directory in (ours, base))
    keys = list(differing_keys(*manifests))
    more = f" and {len(keys) - LISTED} more" if len(keys) > LISTED else ""
    return [*found, *([f"mod.json ({', '.join(keys[:LISTED])}{more})"] if keys else [])]


def differing_keys(ours: Any, base: Any, path: str = "") -> Iterator[str]:
    """The paths of keys in two JSON documents whose values differ; keys of versions are left out."""
    if isinstance(ours, dict) and isinstance(base, dict):
        for key in sorted(ours.keys() | base.keys()):
            if "version" not in key:
                yield from differing_keys(ours.get(key), base.get(key), f"{path}.{key}" if path else key)
    elif isinstance(ours, list) and isinstance(base, list) and len(ours) == len(base):
        for number, pair in enumerate(zip(ours, base, strict=True)):
            yield from differing_keys(*pair, f"{path}[{number}]")
    elif ours != base:
        yield path


def compare(builds: Sequence[Build], checkouts: Sequence[Checkout], kept: Path) -> list[tuple[str, str]]:
    """For each build of one network: the outcome in a word, and what differs."""
    results = [checkout.build_all(builds, kept) for checkout in checkouts]
    return [_outcome(ours, base) for ours, base in zip(*results, strict=True)]


def _outcome(ours: Path | BuildFailure, base: Path | BuildFailure) -> tuple[str, str]:
    if isinstance(ours, Path) and isinstance(base, Path):
        found = differences(ours, base)
        is_different = any(name in found for name in BYTES)
        return "different" if is_different else "described otherwise" if found else "equal", ", ".join(found)
    if isinstance(ours, BuildFailure):
        return "unbuilt" if isinstance(base, BuildFailure) else "different", str(ours)
    return "different", f"not built by the base: {base}"


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=DEFAULT_NETWORKS)
    parser.add_argument("--base", type=Path, required=True, help="the checkout to compare with")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="the checkout to compare; this one by default")
    parser.add_argument("--targets", nargs="+", default=DEFAULT_TARGETS)
    parser.add_argument("--libraries", type=Path, help="a directory with timm and torchvision")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"a directory for packages; {CACHE} by default")
    parser.add_argument("--jobs", type=int, default=1, help="networks at a time")
    options = parser.parse_args()
    checkouts = (Checkout(options.checkout, options.libraries), Checkout(options.base, options.libraries))
    counts: Counter[str] = Counter()
    names = list(networks(options.networks))
    jobs = ([network_build(name, target_keys(target)) for target in options.targets] for name in names)
    with ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda builds: compare(builds, checkouts, options.cache), jobs)
        for name, outcomes in zip(names, results, strict=True):
            for target, (outcome, detail) in zip(options.targets, outcomes, strict=True):
                counts[outcome] += 1
                print(f"{outcome:<20} {name} {target} {detail}".rstrip(), flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
