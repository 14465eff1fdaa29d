"""What a package tests itself by: a few samples of the reference set."""

import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tvmake.artifact.manifest import SelfTest
from tvmake.artifact.tensor_file import member, write_array
from tvmake.config import export
from tvmake.config.validation import Goals
from tvmake.validate.reference.stored import ReferenceSample, ReferenceSet

MB = 10**6


def write_self_test(reference: Path, wanted: export.SelfTest, goals: Goals, destination: Path) -> SelfTest:
    """Write as many samples as are wanted and fit; nothing where there are none. Returns what the manifest says of them.

    Args:
        goals: what each sample has to reach.

    Raises:
        InputError: the reference set is damaged.
    """
    known = ReferenceSet(reference)
    is_dataset = wanted.inputs == "dataset" and known.info.data == "dataset"
    chosen, why_not = _fitting(known if is_dataset else known.made(), wanted)
    if chosen:
        with zipfile.ZipFile(destination, "w", zipfile.ZIP_STORED) as archive:
            for number, sample in enumerate(chosen):
                for kind, tensors in (("input", sample.inputs), ("output", sample.outputs)):
                    for name, array in tensors.items():
                        write_array(archive, member(kind, name, number), array)
    return SelfTest(
        samples=len(chosen),
        inputs="dataset" if is_dataset else "random",
        reference=known.info.runtime,
        goals={name: float(value) for name, value in goals.of_errors if value is not None},
        why_not=why_not or ("" if chosen else known.info.why_not_made),
    )


def _fitting(
    samples: ReferenceSet | Iterator[ReferenceSample], wanted: export.SelfTest
) -> tuple[list[ReferenceSample], str]:
    """The first samples, as many as fit, and why there are fewer."""
    chosen: list[ReferenceSample] = []
    total = 0
    for sample in islice(samples, wanted.samples):
        size = sum(array.nbytes for tensors in (sample.inputs, sample.outputs) for array in tensors.values())
        if total + size > wanted.max_mb * MB:
            return chosen, f"a sample has {size / MB:.3g} MB, and export.self_test.max_mb is {wanted.max_mb:g}"
        chosen.append(sample)
        total += size
    return chosen, ""
