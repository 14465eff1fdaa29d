"""Inputs, the reference's outputs and labels in one file, made once a model and read by every validation of it.

A ``.npz`` that numpy opens: ``input/<name>/<number>`` and ``output/<name>/<number>`` (names percent-encoded, numbers
from 00000), ``labels/<number>`` where there are labels, and ``reference_set.json`` with what they mean. Members are
stored uncompressed, in order, with fixed time stamps: equal content is equal bytes, whatever zlib is installed.
"""

import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from tvmake.artifact.files import atomic_path
from tvmake.artifact.signature import Signature
from tvmake.errors import InputError

DESCRIPTION = "reference_set.json"


class ReferenceSetInfo(BaseModel):
    """What a reference set holds. ``samples`` counts calls of the model, ``labelled`` the images with labels."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    signature: Signature
    runtime: str
    data: Literal["dataset", "random"]
    seed: int
    label_names: list[str] = []
    samples: int = 0
    labelled: int = 0


@dataclass(frozen=True)
class ReferenceSample:
    """One call: inputs and reference outputs by their names in the source, labels int64 [batch] or None."""

    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    labels: np.ndarray | None


def write_reference_set(
    destination: Path, info: ReferenceSetInfo, samples: Iterable[ReferenceSample]
) -> ReferenceSetInfo:
    """Write samples as they come, atomically; returns ``info`` with the counts filled in.

    Raises:
        InputError: there are no samples.
        MachineError: the disk is full or cannot be written.
    """
    count = labelled = 0
    with atomic_path(destination) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for count, sample in enumerate(samples, 1):
            for kind, tensors in (("input", sample.inputs), ("output", sample.outputs)):
                for name, array in tensors.items():
                    _write_array(archive, _member(kind, name, count - 1), array)
            if sample.labels is not None:
                _write_array(archive, _member("labels", None, count - 1), sample.labels)
                labelled += len(sample.labels)
        if not count:
            raise InputError(
                str(destination), "there are no samples to compare", "raise `samples`, or the dataset's `limit`"
            )
        info = info.model_copy(update={"samples": count, "labelled": labelled})
        archive.writestr(_entry(DESCRIPTION), info.model_dump_json(indent=1).encode())
    return info


class ReferenceSet:
    """A reference set on disk; iterating reads one sample at a time."""

    def __init__(self, path: Path):
        """Open ``path``.

        Raises:
            InputError: there is no such file, or it is not a reference set of this version.
        """
        self.path = Path(path)
        try:
            with zipfile.ZipFile(self.path) as archive:
                self.info = ReferenceSetInfo.model_validate_json(archive.read(DESCRIPTION))
        except FileNotFoundError:
            raise InputError(str(path), "no such file", "run the reference stage") from None
        except (zipfile.BadZipFile, KeyError, ValidationError, OSError) as error:
            raise InputError(
                str(path),
                f"not a reference set ({type(error).__name__})",
                "delete it and run the reference stage again",
            ) from None

    def __len__(self) -> int:
        return self.info.samples

    def __iter__(self) -> Iterator[ReferenceSample]:
        with zipfile.ZipFile(self.path) as archive:
            members = set(archive.namelist())
            for number in range(len(self)):
                labels = _member("labels", None, number)
                yield ReferenceSample(
                    {spec.name: self._read(archive, "input", spec.name, number) for spec in self.info.signature.inputs},
                    {
                        spec.name: self._read(archive, "output", spec.name, number)
                        for spec in self.info.signature.outputs
                    },
                    self._read(archive, "labels", None, number) if labels in members else None,
                )

    def _read(self, archive: zipfile.ZipFile, kind: str, name: str | None, number: int) -> np.ndarray:
        member = _member(kind, name, number)
        try:
            # zipfile checks the member's CRC as it is read to the end.
            array = np.lib.format.read_array(io.BytesIO(archive.read(member)), allow_pickle=False)
        except (KeyError, zipfile.BadZipFile, ValueError, EOFError) as error:
            raise InputError(
                str(self.path), f"{member} cannot be read ({error})", "delete it and run the reference stage again"
            ) from None
        return _viewed(array, kind, name, self.info.signature)


def _member(kind: str, name: str | None, number: int) -> str:
    parts = [kind, *([quote(name, safe="")] if name is not None else []), f"{number:05d}.npy"]
    return "/".join(parts)


def _entry(name: str) -> zipfile.ZipInfo:
    # ZipInfo's own default is 1980-01-01; the mode is fixed because the umask is not part of the content.
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o644 << 16
    return entry


def _write_array(archive: zipfile.ZipFile, member: str, array: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
    archive.writestr(_entry(member), buffer.getvalue())


def _viewed(array: np.ndarray, kind: str, name: str | None, signature: Signature) -> np.ndarray:
    """Numpy's format keeps the bytes of bfloat16 and 8-bit floats but not their type."""
    if array.dtype.kind != "V":
        return array
    from tvmake.validate.samples import numpy_dtype

    specs = signature.inputs if kind == "input" else signature.outputs
    return array.view(numpy_dtype(next(spec for spec in specs if spec.name == name)))
