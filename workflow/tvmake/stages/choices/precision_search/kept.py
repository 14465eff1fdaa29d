"""What was built and measured for a choice that has not come to its end, so that one that is interrupted goes on where it was.

    $TVMAKE_HOME/choices/<key>/content/{measured.jsonl, <network>.tar}

The key is the digest of all that can change a figure: request, networks, samples, code, and the device as it is. The file has
a line for everything that was found, with its digest before it; lines that are damaged or cut short are left out.
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
    """What a choice goes by.

    Args:
        inputs: the files that it is made from, each in its place.
        code: the digest of the code that makes it.
        device: who measures.
    """
    metrics = [metric.use for metric in (request.goals.metrics or {}).values()]
    passes = [one.use for one in (*request.transform.passes, *request.build.passes)]
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
    """Findings by what they are of, which is a list of JSON values.

    Args:
        directory: where they and the packages are.
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
                subject, found = json.loads(text)
                self._found[canonical_json(subject)] = found
        self.count = len(self._found)
        """Findings of an earlier run."""

    def find(self, *subject: Any) -> Any:
        """What is known of a subject; None where nothing is."""
        return self._found.get(canonical_json(subject))

    def find_model(self, kind: type[Model], *subject: Any) -> Model | None:
        """The same as a model."""
        try:
            return kind.model_validate(self.find(*subject))
        except ValidationError:
            return None

    def add(self, found: Any, *subject: Any) -> None:
        """Keep a finding; it is on the disk when this returns. Where it cannot be written, a warning says so, and the work goes on."""
        self._found[canonical_json(subject)] = found
        if not self._is_writable:
            return
        text = canonical_json([subject, found]).encode()
        try:
            append(self._file, digest_bytes(text).encode() + b" " + text + b"\n")
        except MachineError as error:
            self._is_writable = False
            problem = f"{error.where}: {error.problem}"
            print(
                f"warning: {problem}; what is measured from here on is measured again if this ends early",
                file=sys.stderr,
            )

    def package(self, network: str) -> Path:
        """Where a network's package lies, or will."""
        return self.directory / f"{network}.tar"
