"""Files between stages, for the stages that read them; in a project without records of what made them."""

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .cases import Case
from .mutate import dumps, mutate_bytes, mutate_json

ROOT = Path(__file__).resolve().parents[2]

CONFIG: dict[str, Any] = {
    "models": {"digits": {"source": "digits.onnx", "dataset": {"path": "digits-test.npz", "limit": 4}}},
    "precisions": ["float32"],
    "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}},
}

STEPS = {
    "transform": ("digits/model.json", "digits/model.params", "digits/signature.json"),
    "build": ("digits/float32/module.json", "digits/float32/module.params"),
    "export": (
        "digits/float32/cpu/mod.so",
        "digits/float32/cpu/mod.json",
        "digits/float32/cpu/packing.json",
        "digits/float32/module.params",
    ),
    "attest": ("digits/float32/cpu/package.tar", "digits/source.json"),
    "validate": ("digits/reference.npz",),
    "report": ("digits/float32/cpu/numerics.json", "digits/float32/cpu/latency.json", "digits/float32/cpu/mod.json"),
}
"""Stages, and the results that they read."""


class Intermediates:
    """Bytes of all, and values of what is JSON."""

    preload = ("tvmake.process.tvm_import", "tvmake.cli.app", "tvmake.stages.registry", "tvmake.validate.numerics")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        import yaml

        for name in ("digits.onnx", "digits-test.npz"):
            shutil.copy(ROOT / "resources" / name, samples)
        (samples / "tvmake.yaml").write_text(yaml.safe_dump(CONFIG))
        scripts = Path(sys.executable).parent
        done = subprocess.run(
            [scripts / "tvmake", "make", "--cores", "1"],
            cwd=samples,
            env={**os.environ, "TVMAKE_HOME": str(samples / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"the sound project could not be made:\n{done.stderr[-3000:]}")
        records = (samples / ".snakemake" / "metadata").rglob("*")
        commands = [json.loads(file.read_bytes())["shellcmd"] for file in records if file.is_file()]
        (samples / "commands.json").write_text(json.dumps(dict(map(words_of, filter(None, commands)))))

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        for name in ("digits.onnx", "digits-test.npz", "tvmake.yaml", "results"):
            copy = shutil.copytree if (samples / name).is_dir() else shutil.copy
            copy(samples / name, directory / name)
        stage = chance.choice(list(STEPS))
        name = chance.choice(STEPS[stage])
        file = directory / "results" / name
        content = file.read_bytes()
        is_json = file.suffix == ".json" and chance.random() < 0.7
        file.write_bytes(dumps(mutate_json(json.loads(content), chance)) if is_json else mutate_bytes(content, chance))
        command = json.loads((samples / "commands.json").read_text())[stage]
        what = f"{stage} of {name} {'values' if is_json else 'bytes'}"
        return Case(what, [command], lambda: None, ("results/", ".snakemake/", "logs/"))


def words_of(shell_command: str) -> tuple[str, list[str]]:
    """The stage of a rule's command, and its words without a shell: the report's options come through a pipe."""
    before, _, command = shell_command.partition(" > ")[0].rpartition(" | ")
    words = shlex.split(command)[1:]
    if before:
        words[words.index("--options") + 1] = shlex.split(before)[2]
    return words[1], words
