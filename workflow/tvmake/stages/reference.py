"""Reference: what the original model answers, in its own framework, on the inputs a package will be judged by."""

from collections.abc import Iterable, Iterator
from itertools import tee
from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.signature import Signature
from tvmake.config.requests.referencing import ReferenceRequest
from tvmake.validate.dataset import Dataset, Sample, load_dataset
from tvmake.validate.reference import answers, open_reference
from tvmake.validate.reference_set import ReferenceSample, ReferenceSetInfo, write_reference_set
from tvmake.validate.runtime import Runtime
from tvmake.validate.samples import random_samples


def reference(signature: Path, request: ReferenceRequest, destination: Path) -> ReferenceSetInfo:
    """Run the source model and write inputs, outputs and labels to ``destination``.

    Raises:
        InputError: the dataset does not fit the model, or the model's framework refuses an input.
        MachineError: the model's framework is not installed.
    """
    known = stage_json.load(Signature, signature)
    dataset = load_dataset(request.dataset, known, dims=request.dims) if request.dataset else None
    runtime = open_reference(request.model.source, request.model, known)
    drawn = random_samples(known, request.samples, request.seed, request.dims)
    samples: Iterable[Sample] = dataset if dataset is not None else (Sample(inputs, None) for inputs in drawn)
    info = ReferenceSetInfo(
        signature=known,
        runtime=runtime.name,
        data="dataset" if dataset is not None else "random",
        seed=request.dataset.seed if request.dataset else request.seed,
        label_names=_names(dataset),
    )
    return write_reference_set(destination, info, _answered(samples, runtime, known))


def _names(dataset: Dataset | None) -> list[str]:
    return dataset.label_names if dataset is not None else []


def _answered(samples: Iterable[Sample], runtime: Runtime, known: Signature) -> Iterator[ReferenceSample]:
    asked, kept = tee(samples)
    for sample, outputs in zip(kept, answers(runtime, known, (sample.inputs for sample in asked)), strict=True):
        yield ReferenceSample(sample.inputs, outputs, sample.labels)
