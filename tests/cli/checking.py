"""Commands in a directory, and ``tvmake check`` of a config of one model, as a user would run them."""

import os
import shutil
import subprocess
from pathlib import Path

import yaml

from tests.workflow import preloaded
from tests.workflow.project import ROOT


def tvmake(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command in a fork of a process that has loaded tvmake."""
    return preloaded.run([*arguments], directory, dict(os.environ), warm=True)


def checked(directory: Path, model: dict[str, object], kind: str = "llvm") -> "subprocess.CompletedProcess[str]":
    """Run ``tvmake check`` for one model."""
    config = {"models": {"m": model}, "targets": {"target": {"kind": kind}}}
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(config))
    return tvmake(directory, "check")


def check_of(directory: Path, change: dict[str, object], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``tvmake check`` for a valid config of the digits with some keys replaced, given as ``models.digits.source``."""
    for name in ("digits.onnx", "digits-test.npz"):
        shutil.copy(ROOT / "resources" / name, directory)
    config: dict = {"models": {"digits": {"source": "digits.onnx", "dataset": {"path": "digits-test.npz"}}}}
    for key, value in change.items():
        *parents, last = key.split(".")
        section = config
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return tvmake(directory, "check", *arguments)
