"""Which of the reference's samples a package computes worst."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.artifact.tensor_file import member, read_array
from tvmake.config.requests.running import ValidateRequest
from tvmake.config.validation import Goals
from tvmake.debug.departure import difference
from tvmake.debug.sample_goals import missed_goals, of_samples
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest
from tvmake.storage.temporary import temporary_directory
from tvmake.validate.numerics import Comparison
from tvmake.validate.reference.stored import ReferenceSample, ReferenceSet
from tvmake.validate.verdict import MissedGoal


@dataclass(frozen=True)
class WorstSample:
    """The sample with the largest error, of those that miss the goals where any does."""

    number: int
    sample: ReferenceSample
    outputs: Sequence[np.ndarray]
    """What the package gives for it."""
    missed: list[MissedGoal]
    """By the package, over all samples, of the goals that one sample can miss."""
    missed_with_labels: list[MissedGoal]
    """Likewise of all goals, accuracies among them."""


def worst_sample(
    package: Path, validating: ValidateRequest, reference: Path, signature: Signature, goals: Goals
) -> WorstSample:
    """Run a package on its device for every sample of the reference.

    Raises:
        InputError: the reference is damaged.
        DeviceError: the device cannot be reached, or was lost.
    """
    known = ReferenceSet(reference)
    device = connect(validating.device_name, validating.device)
    deployment = device.push(package)
    worst: tuple[tuple[bool, float], int, ReferenceSample, list[np.ndarray]] | None = None
    together, labelled = Comparison(of_samples(goals)), Comparison(goals)
    with temporary_directory("tvmake-debug-") as directory:
        outputs = Path(directory) / "outputs.npz"
        device.execute(deployment, RunRequest(samples=len(known), steps=known.info.steps), reference, outputs)
        with zipfile.ZipFile(outputs) as archive:
            for number, sample in enumerate(known):
                got = [
                    read_array(archive, member("output", spec.name, number), spec.dtype) for spec in signature.outputs
                ]
                error = max(difference(want, have) for want, have in zip(sample.outputs.values(), got, strict=True))
                named = dict(zip(sample.outputs, got, strict=True))
                together.add(sample.outputs, named)
                labelled.add(sample.outputs, named, sample.labels)
                rank = (bool(missed_goals(sample.outputs, got, goals)), error)
                if worst is None or rank > worst[0]:
                    worst = rank, number, sample, got
    assert worst is not None  # a reference set has at least one sample
    return WorstSample(*worst[1:], together.report().missed, labelled.report().missed)
