"""Self-test: a few samples for a model's packages, with the original framework's outputs.

A stage separate from the reference: packages are built without a dataset too, and another dataset or goal
does not change the package.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.artifact.dims import sample_sizes
from tvmake.config.export import SelfTest
from tvmake.config.requests.referencing import SelfTestRequest
from tvmake.stages.descriptor import Input, Log, Output, Stage
from tvmake.stages.model.reference import runtime_modules
from tvmake.stages.package.contents import sample_files
from tvmake.stages.user_files import user_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tvmake.artifact.signature import Signature
    from tvmake.stages.context import JobContext
    from tvmake.validate.dataset import Sample
    from tvmake.validate.reference.stored import ReferenceSample, ReferenceSetInfo
    from tvmake.validate.runtime import Runtime

MB = 10**6


def self_test(signature: Path, source: Path, request: SelfTestRequest, samples: Path) -> ReferenceSetInfo:
    """Run the source model on a few inputs and write them and its outputs to ``samples`` (a reference set).

    If a sample is too large, or the model cannot run here or refuses generated inputs, there are fewer or no samples, and the file
    has the reason. The package is still valid.

    Raises:
        InputError: the model's files change meanwhile, or changed since the import; a factory returns other weights than for the import; the
            dataset, if samples come from it, does not fit the model.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.signature import Signature
    from tvmake.artifact.source import SourceRecord
    from tvmake.errors import MachineError
    from tvmake.frontend.model_files import model_files
    from tvmake.storage.plain_files import unchanged
    from tvmake.validate.reference.run import open_imported
    from tvmake.validate.reference.stored import ReferenceSetInfo, write_reference_set

    known = stage_json.load(Signature, signature)
    imported = stage_json.load(SourceRecord, source)
    info = ReferenceSetInfo(signature=known, runtime="", data="dataset" if request.dataset else "random", seed=0)
    read = [*model_files(request.model), *([request.dataset.path] if request.dataset else [])]
    with unchanged(Path(name) for name in read if Path(name).is_file()):
        try:
            runtime = open_imported(request.model, known, imported)
        except MachineError as error:
            return write_reference_set(samples, info.model_copy(update={"why_not": error.problem}), [])
        chosen, why_not = _choose_samples(request, runtime, known)
    info = info.model_copy(update={"runtime": runtime.name, "why_not": why_not})
    return write_reference_set(samples, info, chosen)


def _choose_samples(request: SelfTestRequest, runtime: Runtime, known: Signature) -> tuple[list[ReferenceSample], str]:
    """The first samples that fit, and why there are fewer than requested."""
    from itertools import islice

    import numpy as np

    from tvmake.errors import InputError
    from tvmake.validate.reference.run import with_outputs

    options = request.self_test
    chosen: list[ReferenceSample] = []
    total = 0
    try:
        for sample in with_outputs(runtime, known, islice(_samples(request, known), options.samples)):
            size = sum(array.nbytes for tensors in (sample.inputs, sample.outputs) for array in tensors.values())
            if total + size > options.max_mb * MB:
                return chosen, f"a sample has {size / MB:.3g} MB, and export.self_test.max_mb is {options.max_mb:g}"
            if any(
                array.size and array.dtype.kind == "f" and np.isnan(array).all() for array in sample.outputs.values()
            ):
                return chosen, "the original gives nothing but NaN for a sample, so nothing could be compared"
            chosen.append(sample)
            total += size
    except InputError as error:
        if request.dataset:
            raise
        return chosen, f"the model refuses made-up inputs ({error.problem})"
    return chosen, ""


def _samples(request: SelfTestRequest, known: Signature) -> Iterable[Sample]:
    from tvmake.validate.dataset import Sample, load_dataset
    from tvmake.validate.samples import random_samples

    if request.dataset is not None:
        return load_dataset(request.dataset, known, dims=request.dims)
    drawn = random_samples(known, request.self_test.samples, dims=request.dims, shapes=request.shapes)
    return (Sample(inputs, None) for inputs in drawn)


def self_test_request(job: JobContext) -> SelfTestRequest:
    """The samples of the model's self-test."""
    model, test = job.model_config, job.export.test or SelfTest()
    return SelfTestRequest(
        model=job.import_options,
        dims=sample_sizes(model.dims, job.validation.dims),
        shapes=model.shapes,
        dataset=model.dataset if test.inputs == "dataset" else None,
        self_test=test,
    )


def dataset_files(job: JobContext) -> list[str]:
    """The dataset's files, if samples come from it."""
    return list(job.dataset_files) if self_test_request(job).dataset else []


STAGE = Stage(
    name="self_test",
    summary="Run the original model on the samples of its packages' self-test.",
    function=self_test,
    inputs=(
        Input(files=lambda job: [*job.model_files, *dataset_files(job)]),
        Input("signature.json", "signature"),
        Input("source.json", "source"),
    ),
    # Not hermetic: other frameworks compute it.
    outputs=(Output("self_test.npz", paths.MODEL, "samples", "Samples and expected outputs to write (npz)."),),
    logs=(Log("{model}/self_test.log"),),
    request_model=SelfTestRequest,
    request=self_test_request,
    subject=lambda arguments: arguments["request"].model.source,
    code=runtime_modules,
    reads=lambda arguments: user_files(model=arguments["request"].model, dataset=arguments["request"].dataset),
    exists=lambda job: bool(sample_files(job)),
    memory_mb=1500,
    minutes=60,
    server="model",
)
