"""Builds and measurements of an unfinished choice, so that an interrupted run can resume.

    $TVMAKE_HOME/choices/<key>/content/{measured.jsonl, <network>.tar}

The key is the digest of everything that affects a result: request, networks, samples, code, and the device's state. The file
has a line for each result, with its digest first. Damaged and incomplete lines are ignored.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.requests.choosing import ChoosePrecisionRequest
from tvmake.errors import MachineError
from tvmake.frontend.model_files import python_file
from tvmake.storage.directories import cache_directory
from tvmake.storage.disk import append
from tvmake.storage.files import canonical_json, digest_bytes, digest_file

FILE = "measured.jsonl"

DIGEST_CHARACTERS = 64

Model = TypeVar("Model", bound=BaseModel)


def choices_root() -> Path:
    """``$TVMAKE_HOME/choices``, or in the user's cache."""
    return cache_directory("choices")


def key_of(request: ChoosePrecisionRequest, inputs: Sequence[Path | None], code: str, device: Fingerprint) -> str:
    """The key of a choice.

    Args:
        inputs: the input files, in a fixed order.
        code: digest of the code.
        device: the device that measures.
    """
    metrics = [metric.use for metric in (request.goals.metrics or {}).values()]
    passes = [step.use for step in (*request.transform.passes, *request.build.passes)]
    users = [Path(python_file(use)) for use in (*metrics, *passes)]
    content = [
        request.model_dump(mode="json"),
        [None if file is None else digest_file(file) for file in inputs],
        [digest_file(file) if file.is_file() else None for file in users],
        code,
        device.model_dump(mode="json"),
    ]
    return digest_bytes(canonical_json(content).encode())


class Kept:
    """Results of an unfinished choice, by subject (a list of JSON values).

    Args:
        directory: directory of the results and packages.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self._file = directory / FILE
        self._found: dict[str, Any] = {}
        self._is_writable = True
        lines = self._file.read_bytes().split(b"\n") if self._file.is_file() else []
        for line in lines:
            digest, text = line[:DIGEST_CHARACTERS], line[DIGEST_CHARACTERS + 1 :]
            if digest_bytes(text).encode() == digest:
                subject, result = json.loads(text)
                self._found[canonical_json(subject)] = result
        self.count = len(self._found)
        """Number of results from an earlier run."""

    def find(self, *subject: Any) -> Any:
        """The result for a subject; None if there is none."""
        return self._found.get(canonical_json(subject))

    def find_model(self, kind: type[Model], *subject: Any) -> Model | None:
        """The result for a subject as a model; None if there is none."""
        try:
            return kind.model_validate(self.find(*subject))
        except ValidationError:
            return None

    def add(self, result: Any, *subject: Any) -> None:
        """Store a result on disk before returning. If it cannot be written, print a warning and continue."""
        self._found[canonical_json(subject)] = result
        if not self._is_writable:
            return
        text = canonical_json([subject, result]).encode()
        try:
            append(self._file, digest_bytes(text).encode() + b" " + text + b"\n")
        except MachineError as error:
            self._is_writable = False
            problem = f"{error.where}: {error.problem}"
            print(
                f"warning: {problem}; further measurements are lost if this run is interrupted",
                file=sys.stderr,
            )

    def package(self, network: str) -> Path:
        """Path of a network's package."""
        return self.directory / f"{network}.tar"
