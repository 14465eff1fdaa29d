"""Configs for `tvmake check`: errors are reported, and no code that they name runs."""

import json
import random
import shutil
from pathlib import Path

from .cases import Case
from .mutate import CODE, TEXTS, dumps, mutate_bytes, mutate_json

ROOT = Path(__file__).resolve().parents[2]

CONFIG = """
models:
  digits: &digits
    source: digits.onnx
    dataset: {path: digits-test.npz, limit: 16, preprocess: {scale: 0.0625, resize: [8, 8]}, label_names: [a, b]}
    goals: {top1: 0.9, top1_drop: 0.1}
    dims: {batch: 1}
  again: {<<: *digits, precisions: [float32]}
precisions: [float32, float16]
targets:
  cpu: {kind: llvm, mcpu: native, tuning: {trials_per_kernel: 4}}
  phone: {tag: qcom/adreno-opencl, host: {mtriple: aarch64-linux-gnu}, device: phone}
devices:
  phone: {via: rpc, tracker: "127.0.0.1:9190", key: phone, timeout_s: 60}
  board: {via: ssh, host: board, threads: 2, env: {SECRET: value}}
variants:
  exclude: [{target: phone, precision: float16}]
tuning: {trials: 64, rounds: 2}
benchmark: {repeat: 3, warmup: 1}
cache: {where: cache}
results: results
"""

TAGS = (
    f"!!python/object/apply:os.mkdir [it_ran]\n{CONFIG}",
    f"x: !!python/object/new:eval [{json.dumps(CODE)}]\n{CONFIG}",
    "a: &a [x, x]\n" + "".join(f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)),
    "{" * 20_000,
    "- " * 20_000,
    "a: " + "[" * 70 + "]" * 70,
    "? " * 5000,
    "models: !include /etc/passwd",
    "&a [*a]",
    "models: &m {digits: *m}",
    "--- a\n--- b\n",
    "%YAML 9.9\n---\n" + CONFIG,
    CONFIG + "\nmodels: {}\n",
    CONFIG.replace("64", "1" * 5000),
    CONFIG.replace("64", "1_0" * 400),
    CONFIG.replace("60", "1:1:1:1:1"),
    CONFIG.replace("0.1", "1e" + "9" * 400),
    "\ufeff" + CONFIG,
)  # fmt: skip


class Configs:
    """Bytes, values and structures of a config; the files that it names are there."""

    preload = (
        "yaml",
        "tvmake.cli.app",
        "tvmake.config.reading.load",
        "tvmake.plan.plan",
        "tvmake.frontend.inspect",
        "rich.table",
    )

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        for name in ("digits.onnx", "digits-test.npz"):
            shutil.copy(ROOT / "resources" / name, samples)

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        import yaml

        for file in samples.iterdir():
            shutil.copy(file, directory)
        how = chance.choice(("bytes", "values", "values", "values", "text", "structure"))
        match how:
            case "bytes":
                data = mutate_bytes(CONFIG.encode(), chance)
            case "values":
                data = dumps(mutate_json(yaml.safe_load(CONFIG), chance))
            case "text":
                lines = CONFIG.splitlines()
                at = chance.randrange(len(lines))
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)] + chance.choice(TEXTS)
                data = "\n".join(lines).encode(errors="surrogatepass")
            case _:
                data = chance.choice(TAGS).encode()
        (directory / "tvmake.yaml").write_bytes(data)
        # All mistakes are told at once.
        return Case(how, [["check", "--files"]], lambda: None, most_errors=100)
