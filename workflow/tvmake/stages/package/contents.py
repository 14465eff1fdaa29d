"""Options of a package's self-test: its goals, and whether there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvmake.config.requests.building import ExportRequest
from tvmake.config.validation import Goals, default_goals
from tvmake.frontend.checkpoint_files import tokenizer_of

if TYPE_CHECKING:
    from tvmake.stages.context import JobContext


def export_request(job: JobContext) -> ExportRequest:
    """The export options of a variant: its tokenizer, and its self-test's goals or the reason for having no self-test."""
    return job.once(("export request", job.model, job.precision), lambda: _export_request(job))


def tokenizer_files(job: JobContext) -> list[str]:
    """The tokenizer.json in the directory of a language model, if it is packed."""
    file = tokenizer_of(job.model_config.source) if job.export.tokenizer else None
    return [file] if file else []


def _export_request(job: JobContext) -> ExportRequest:
    tokenizer = next(iter(tokenizer_files(job)), None)
    request = _self_test_request(job)
    return request if tokenizer is None else request.model_copy(update={"tokenizer": tokenizer})


def _self_test_request(job: JobContext) -> ExportRequest:
    test = job.export.test
    if test is None:
        return ExportRequest()
    if test.inputs == "random" and job.model_config.dataset and job.precision_config.is_calibrated:
        why_not = (
            "8-bit ranges from a dataset do not fit made-up inputs; export.self_test.inputs: dataset takes its samples"
        )
        return ExportRequest(why_not=why_not)
    goals = self_test_goals(job.goals, default_goals(job.precision_config.base))
    if not goals:
        return ExportRequest(
            why_not="the model's goals say neither sqnr_db, max_abs_rms nor equal, which it is judged by"
        )
    others = None
    if job.quantized_goals is not None:
        others = self_test_goals(job.quantized_goals, default_goals(job.precision_config.base, is_quantized=True))
    return ExportRequest(goals=goals, quantized_goals=others)


def self_test_goals(goals: Goals, defaults: Goals) -> dict[str, float]:
    """Bounds that separate a correct device from a faulty one: the default goals, or the model's if those are looser.

    Stricter goals concern the model's quality, which validation checks; they do not change the package.
    """
    least = {
        name: (getattr(defaults, name), getattr(goals, name)) for name in ("sqnr_db", "equal", "equal_within_step")
    }
    most = {"max_abs_rms": (defaults.max_abs_rms, goals.max_abs_rms)}
    chosen = {
        **{name: (min, pair) for name, pair in least.items()},
        **{name: (max, pair) for name, pair in most.items()},
    }
    return {name: float(looser(pair)) for name, (looser, pair) in chosen.items() if None not in pair}


def sample_files(job: JobContext) -> list[str]:
    """The samples of a package with a self-test."""
    return [job.file("self_test.npz")] if job.export.test is not None and not export_request(job).why_not else []
