"""Reference: run the original model in its own framework on the inputs that packages are judged by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmake.artifact import paths
from tvmake.artifact.dims import sample_sizes
from tvmake.config.requests.referencing import ReferenceRequest, SelfTestRequest
from tvmake.stages.descriptor import Input, Log, Output, Stage
from tvmake.stages.user_files import user_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tvmake.artifact.signature import Signature
    from tvmake.artifact.source import SourceRecord
    from tvmake.stages.context import JobContext
    from tvmake.validate.continuation import Continuation
    from tvmake.validate.reference.stored import ReferenceSample, ReferenceSetInfo


def reference(signature: Path, source: Path, request: ReferenceRequest, reference: Path) -> ReferenceSetInfo:
    """Run the source model and write inputs, outputs and labels to ``reference``.

    Args:
        source: record of the imported source (a ``SourceRecord``).

    Raises:
        InputError: the dataset does not fit the model, the framework refuses an input, one of their files changes
            meanwhile, the model changed since the import, or a factory returns other weights than for the import.
        MachineError: the model's framework is not installed.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.signature import Signature
    from tvmake.artifact.source import SourceRecord
    from tvmake.frontend.model_files import model_files
    from tvmake.storage.plain_files import unchanged

    known = stage_json.load(Signature, signature)
    read = [*model_files(request.model), *([request.dataset.path] if request.dataset else [])]
    with unchanged(Path(name) for name in read if Path(name).is_file()):
        return _write(request, known, stage_json.load(SourceRecord, source), reference)


def _write(request: ReferenceRequest, known: Signature, imported: SourceRecord, reference: Path) -> ReferenceSetInfo:
    from tvmake.validate.continuation import continuation
    from tvmake.validate.dataset import Sample, load_dataset
    from tvmake.validate.reference.run import open_imported, with_outputs
    from tvmake.validate.reference.stored import ReferenceSetInfo, write_reference_set
    from tvmake.validate.samples import random_samples

    dataset = load_dataset(request.dataset, known, dims=request.dims) if request.dataset else None
    runtime = open_imported(request.model, known, imported)
    drawn = random_samples(known, request.samples, request.seed, request.dims, request.shapes, request.steps)
    own = None
    if dataset is None:
        own = continuation(known, request.samples, request.steps, request.dims, request.shapes)
    inputs = own.samples(drawn) if own else drawn
    samples: Iterable[Sample] = dataset if dataset is not None else (Sample(arrays, None) for arrays in inputs)
    info = ReferenceSetInfo(
        signature=known,
        runtime=runtime.name,
        data="dataset" if dataset is not None else "random",
        seed=request.dataset.seed if request.dataset else request.seed,
        label_names=dataset.label_names if dataset is not None else [],
        truth=request.dataset.truth if request.dataset else [],
        steps=request.steps,
        continued=own.steps if own else 0,
    )
    return write_reference_set(
        reference, info, _note_outputs(with_outputs(runtime, known, samples, request.steps), own)
    )


def _note_outputs(samples: Iterable[ReferenceSample], own: Continuation | None) -> Iterator[ReferenceSample]:
    """The samples, each of which determines the next one of a continuation."""
    for sample in samples:
        if own is not None:
            own.note(sample.outputs)
        yield sample


def reference_request(job: JobContext) -> ReferenceRequest:
    """The inputs of the original model."""
    model, validation = job.model_config, job.validation
    # With a dataset no samples are drawn, so samples and seed would only cause needless reruns.
    drawn: dict[str, Any] = {"samples": validation.samples, "seed": validation.seed, "shapes": model.shapes}
    drawn = {} if model.dataset else drawn
    return ReferenceRequest(
        model=job.import_options,
        dims=sample_sizes(model.dims, validation.dims),
        dataset=model.dataset,
        steps=validation.steps,  # a source may keep states without the config
        **drawn,
    )


def runtime_modules(request: ReferenceRequest | SelfTestRequest) -> tuple[str, ...]:
    """The modules that run models of the request's format."""
    from tvmake.frontend.formats import RUNTIMES, modules_by_options

    kind = str(request.model.source_format())
    return (*([RUNTIMES[kind]] if kind in RUNTIMES else []), *modules_by_options(request.model))


STAGE = Stage(
    name="reference",
    summary="Run the original model in its own framework.",
    function=reference,
    inputs=(
        Input(files=lambda job: [*job.model_files, *job.dataset_files]),
        Input("signature.json", "signature"),
        Input("source.json", "source"),
    ),
    # Not hermetic: other frameworks compute it.
    outputs=(Output("reference.npz", paths.MODEL, "reference", "Inputs, labels and outputs to write (npz)."),),
    logs=(Log("{model}/reference.log"),),
    request_model=ReferenceRequest,
    request=reference_request,
    subject=lambda arguments: arguments["request"].model.source,
    code=runtime_modules,
    reads=lambda arguments: user_files(model=arguments["request"].model, dataset=arguments["request"].dataset),
    memory_mb=1500,
    minutes=60,
    server="model",
)
