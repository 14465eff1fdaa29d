"""The summary of a run: one flat row a variant, with the verdict on its goals."""

import csv
import io
import math
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tvmake import __version__
from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.package import LIBRARY, WEIGHTS
from tvmake.benchmark.baseline.result import Baseline, NoBaseline
from tvmake.benchmark.goals import missed_performance
from tvmake.benchmark.result import Latency
from tvmake.benchmark.statistics import SampleMs
from tvmake.config.requests.reporting import VariantRow
from tvmake.device.fingerprint import local_fingerprint
from tvmake.errors import InputError
from tvmake.report import quantities
from tvmake.report.cache_use import CacheUse
from tvmake.report.packages import PackageRow
from tvmake.report.results import VariantResults
from tvmake.report.unscheduled import is_alarming, unscheduled_lines
from tvmake.storage.documents import FailsFast
from tvmake.transform.options import Layout
from tvmake.validate.verdict import MissedGoal

SCHEMA_VERSION: Final = 1

MOST_KEPT = 3
"""Float32 operators that a warning lists for each reason."""

MOST_SAMPLES = 1000
"""Latency samples of a variant that a summary keeps."""

Tuned = Literal["yes", "partly", "no"]
Verdict = Literal["pass", "fail", "not run", "failed", "not made"]


class _Record(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class SummaryRow(_Record):
    """One variant. Times are in ms, sizes in bytes, shares and accuracies between 0 and 1.

    Figures are None if the variant did not run, or if its model has no such figure (an accuracy without labels). Error figures are
    None if an output has values that are not finite.
    The fields' order is that of summary.csv's columns.
    """

    model: str
    precision: str
    target: str
    device: str | None = None
    """The device's name in the config; None for a target that is only compiled for."""
    soc: str | None = None
    """The device's CPU or SoC, as it reports itself."""
    verdict: Verdict
    """``pass`` if every goal is met, ``fail`` if one is missed; ``not run`` for a target without a device; ``failed`` for a
    variant that could not be built; ``not made`` if the run ended before."""
    best: bool = False
    """Whether it is the fastest variant of its model on its device that meets all goals."""
    missed: list[MissedGoal] = []
    """The goals that were not met."""
    warnings: list[str] = []
    """Reasons why the figures are weaker evidence than they seem."""
    tuned: Tuned | None = None
    """Whether every tunable kernel uses a tuning record, some do, or none does; None without a package, as all that follows."""
    tuned_kernels: int | None = None
    tunable_kernels: int | None = None
    tuned_share: float | None = None
    """The tuned kernels' share of the tunable kernels' estimated time; None if no kernel is tunable."""
    unscheduled_share: float | None = None
    """The share of the package's estimated time in kernels without a schedule; None without a package or an estimate."""
    layout: Layout = "keep"
    """The data layout of convolutions: as configured, or the choice for ``auto``."""
    layer_precisions: str | None = None
    """The number of layers of each precision (``3 int8, 1 float32``), if precisions were chosen by measurement."""
    percentile: Literal["p50", "p90", "p99"] | None = None
    """The statistic that ``latency_ms`` is."""
    latency_ms: float | None = None
    """The latency that variants are ranked and compared by."""
    p50_ms: float | None = None
    p90_ms: float | None = None
    mean_ms: float | None = None
    min_ms: float | None = None
    cv: float | None = None
    """Standard deviation over mean of the latency samples."""
    noisy: bool | None = None
    """Whether the samples vary or drift by more than benchmark.noise_cv."""
    latency_samples: int | None = None
    samples_ms: list[SampleMs] = []
    """The latency samples in order of measurement, thinned to at most 1,000. Comparisons use them."""
    load_ms: float | None = None
    """From opening the package to being ready to run."""
    first_run_ms: float | None = None
    """The first run, which includes lazy compilation and uploads."""
    baseline: str | None = None
    """The framework and version of the source model's measurement, alternating with the package."""
    baseline_ms: float | None = None
    """The same statistic as ``latency_ms``, of the source model there."""
    speedup: float | None = None
    """``baseline_ms`` / ``latency_ms``: how many times as fast as the baseline the package is; below 1 it is slower."""
    speedup_low: float | None = None
    """``speedup_low`` and ``speedup_high`` bound it with 95 % confidence."""
    speedup_high: float | None = None
    peak_memory_bytes: int | None = None
    """Peak resident memory of the process that ran the package."""
    top1: float | None = None
    """Accuracy of the package; needs labels."""
    reference_top1: float | None = None
    """Accuracy of the source model in its own framework on the same inputs."""
    top1_drop: float | None = None
    """``reference_top1`` − ``top1``."""
    top5: float | None = None
    reference_top5: float | None = None
    top1_agreement: float | None = None
    """Share of inputs for which package and reference name the same class; needs no labels."""
    equal_tokens: int | None = None
    """Of a language model: how many tokens after a prompt are the reference's, before the first that differs."""
    tokens: int | None = None
    """The number of tokens that were compared for it."""
    max_abs: float | None = None
    """Largest absolute error of any output."""
    max_abs_rms: float | None = None
    """The same as a share of the RMS of the reference in its sample."""
    max_rel: float | None = None
    """Largest relative error of any output; references below 1 % of the largest count as that 1 %."""
    cosine: float | None = None
    """Cosine similarity of package and reference, of the least similar output."""
    sqnr_db: float | None = None
    """Signal-to-quantisation-noise ratio of the worst output, in dB, within ±200."""
    numerics_samples: int | None = None
    metrics: dict[str, float | None] = {}
    """Users' metrics of the package, by name."""
    package: str | None = None
    """Path inside the results directory."""
    package_sha256: str | None = None
    package_bytes: int | None = None
    library_bytes: int | None = None
    """Size of mod.so."""
    params_bytes: int | None = None
    """Size of mod.params."""
    stage: str | None = None
    """The stage in which a variant failed."""
    cause: str | None = None
    """Why it failed, in one line."""
    remedy: str | None = None
    """The remedy."""
    log: str | None = None
    """The log of the job that failed."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        """No run leaves a row whose verdict and goals contradict each other."""
        if bool(self.missed) != (self.verdict == "fail"):
            raise ValueError(f"the verdict is '{self.verdict}', and {len(self.missed)} goals are missed")
        if self.best and self.verdict != "pass":
            raise ValueError(f"the verdict is '{self.verdict}', and it is called the best")
        return self

    @property
    def variant(self) -> str:
        """``model/precision/target``."""
        return f"{self.model}/{self.precision}/{self.target}"


class Summary(_Record):
    """summary.json."""

    schema_version: Literal[1] = SCHEMA_VERSION
    created_at: str
    """UTC, ISO 8601."""
    tvmake_version: str
    tvm_version: str
    machine: Fingerprint
    """The machine of the report."""
    rows: list[SummaryRow]
    """One row per variant, in config order; variants that were not built come last."""
    packages: list[PackageRow] = Field(default_factory=list, exclude_if=lambda value: not value)
    """One row per package with several functions, in config order."""
    warnings: list[str] = []
    """Warnings about the run as a whole."""
    cache: CacheUse | None = None
    """The use of the cache; None without a cache."""


def summarise(
    results: Sequence[VariantResults],
    cache: CacheUse | None = None,
    unmade: Sequence[SummaryRow] = (),
    chosen: Collection[str] = (),
    packages: Sequence[PackageRow] = (),
) -> Summary:
    """Summarise results.

    Args:
        results: the results of the variants that were built.
        cache: the use of the cache.
        unmade: the rows of the other variants.
        chosen: the best variants by model and device.
        packages: the rows of packages with several functions.

    Raises:
        InputError: a figure is not a number.
    """
    best = {*chosen, *(function for row in packages if row.variant in chosen for function in row.functions)}
    return Summary(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        tvmake_version=__version__,
        tvm_version=metadata.version("apache-tvm"),
        machine=local_fingerprint(None),
        rows=[*(_row(result, best) for result in results), *unmade],
        packages=[row.model_copy(update={"best": row.variant in chosen}) for row in packages],
        warnings=_run_warnings(results) if results or unmade else ["no variants"],
        cache=cache,
    )


def table_csv(summary: Summary) -> str:
    """The rows as CSV (RFC 4180, with a header line); None is an empty field, lists are joined by ``; ``."""
    text = io.StringIO()
    columns = [name for name in SummaryRow.model_fields if name != "samples_ms"]
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\r\n")
    writer.writeheader()
    for row in summary.rows:
        values = row.model_dump(mode="json", include=set(columns))
        values["missed"] = "; ".join(missed_line(goal) for goal in row.missed)
        values["metrics"] = "; ".join(f"{name} {quantities.figure(figure)}" for name, figure in row.metrics.items())
        values["warnings"] = "; ".join(row.warnings)
        writer.writerow(
            {key: str(value).lower() if isinstance(value, bool) else value for key, value in values.items()}
        )
    return text.getvalue()


def missed_line(goal: MissedGoal) -> str:
    """A missed goal in one line."""
    bound = "" if goal.bound is None else f", the goal is {goal.bound:g}"
    return f"{goal.goal}{f' of {goal.output}' if goal.output else ''}: {goal.reason}{bound}"


def _row(result: VariantResults, chosen: Collection[str]) -> SummaryRow:
    coverage, files = result.manifest.coverage, result.manifest.files
    configured = result.variant.layout
    try:
        return SummaryRow(
            **result.variant.model_dump(
                exclude={"is_tuned", "is_calibrated", "is_precision_chosen", "compares_operators", "layout", "goals"}
            ),
            soc=result.fingerprints[0].soc if result.fingerprints else None,
            tuned=_tuning_state(coverage.tuned, coverage.tunable),
            tuned_kernels=coverage.tuned,
            tunable_kernels=coverage.tunable,
            tuned_share=coverage.time_share if coverage.tunable else None,
            unscheduled_share=result.manifest.unscheduled.time_share if result.manifest.unscheduled else None,
            layout=result.layout.layout if result.layout else "keep" if configured == "auto" else configured,
            layer_precisions=result.precision.mix if result.precision else None,
            package=result.package,
            package_sha256=result.package_sha256,
            package_bytes=result.package_bytes,
            library_bytes=files[LIBRARY].size,
            params_bytes=files[WEIGHTS].size,
            warnings=_warnings(result),
            **_numerics_fields(result),
            **_latency_fields(result),
            **_judge(result),
            best=_name(result.variant) in chosen,
        )
    except ValidationError as error:
        # Fields are validated when they are read; only NaN or infinite figures can be left.
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(
            _name(result.variant), f"{key}: {first['msg'].lower()}", "delete this variant's results and run again"
        ) from None


def _name(variant: VariantRow) -> str:
    return f"{variant.model}/{variant.precision}/{variant.target}"


def tuned_text(row: SummaryRow) -> str:
    """``partly (20/22, 97 % of time)``: the extent of tuning, for a table."""
    if row.tuned is None:
        return quantities.ABSENT
    if not row.tunable_kernels:
        return "nothing to"
    if row.tuned == "no":
        return "no"
    share = "" if row.tuned == "yes" else f", {quantities.share(row.tuned_share, 0)} of time"
    return f"{row.tuned} ({row.tuned_kernels}/{row.tunable_kernels}{share})"


def failed_line(row: SummaryRow) -> str:
    """Where and why a variant failed, in one line."""
    return f"{row.stage}: {row.cause}" if row.cause else f"not built: the run ended before its {row.stage}"


def causes_of(unmade: Sequence[SummaryRow]) -> dict[str, str]:
    """Why variants were not made, in one line each."""
    return {row.variant: failed_line(row) for row in unmade}


def counts_text(summary: Summary) -> str:
    """``31 pass, 4 failed, 1 missed its goals``: how many variants ended how."""
    ended = Counter(row.verdict for row in summary.rows)
    words = {verdict: verdict for verdict in get_args(Verdict)}
    words["fail"] = "missed its goals" if ended["fail"] == 1 else "missed their goals"
    return ", ".join(f"{ended[verdict]} {words[verdict]}" for verdict in get_args(Verdict) if ended[verdict])


def _tuning_state(tuned: int, tunable: int) -> Tuned:
    if tuned == 0:
        return "no"
    return "yes" if tuned >= tunable else "partly"


def _judge(result: VariantResults) -> dict[str, Any]:
    missed = list(result.numerics.report.missed) if result.numerics else []
    missed += missed_performance(result.variant.goals, result.package_bytes, result.latency)
    has_run = result.numerics is not None
    return {"missed": missed, "verdict": "fail" if missed else "pass" if has_run else "not run"}


def _numerics_fields(result: VariantResults) -> dict[str, Any]:
    if result.numerics is None:
        return {}
    report = result.numerics.report
    fields: dict[str, Any] = {
        "numerics_samples": report.samples,
        "metrics": {name: figure.value for name, figure in report.metrics.items()},
    }
    if report.overall and not any(goal.goal == "finite" for goal in report.missed):
        fields |= report.overall.model_dump(include={"max_abs", "max_abs_rms", "max_rel", "cosine", "sqnr_db"})
    if report.continuation is not None:
        fields |= {"equal_tokens": report.continuation.equal, "tokens": report.continuation.tokens}
    if figures := report.classification:
        fields |= figures.model_dump(include={"top1", "reference_top1", "top5", "reference_top5", "top1_agreement"})
        fields["top1_drop"] = figures.top1_drop
    return fields


def _latency_fields(result: VariantResults) -> dict[str, Any]:
    if result.latency is None:
        return {}
    report = result.latency.report
    statistics = report.statistics
    return {
        "percentile": report.measurement.percentile,
        "latency_ms": report.latency_ms,
        **statistics.model_dump(include={"p50_ms", "p90_ms", "mean_ms", "min_ms", "cv"}),
        "noisy": statistics.is_noisy,
        "latency_samples": statistics.samples,
        "samples_ms": report.samples_ms[:: math.ceil(len(report.samples_ms) / MOST_SAMPLES)],
        "load_ms": report.load_ms,
        "first_run_ms": report.first_run_ms,
        "peak_memory_bytes": report.peak_memory_bytes or None,
        **_baseline_fields(result.latency),
    }


def _baseline_fields(latency: Latency) -> dict[str, Any]:
    compared = latency.speedup
    if compared is None or not isinstance(latency.baseline, Baseline):
        return {}
    return {
        "baseline": latency.baseline.framework,
        "baseline_ms": compared.candidate_ms,
        "speedup": compared.ratio,
        "speedup_low": compared.low,
        "speedup_high": compared.high,
    }


def _warnings(result: VariantResults) -> list[str]:
    warnings = list(result.numerics.report.warnings) if result.numerics else []
    if result.calibration:
        warnings += [f"int8: {warning}" for warning in result.calibration.warnings]
        if result.calibration.kept and result.precision is None:
            warnings.append(result.calibration.coverage(MOST_KEPT))
    if result.precision:
        warnings += [f"precision: {warning}" for warning in result.precision.warnings]
    if result.latency:
        warnings += [f"latency: noisy: {reason}" for reason in result.latency.report.statistics.noise]
        if isinstance(baseline := result.latency.baseline, NoBaseline):
            remedy = f" ({baseline.remedy})" if baseline.remedy else ""
            warnings.append(f"no baseline: {baseline.problem}{remedy}")
    warnings += [f"source: {text}" for text in result.slow]
    unscheduled = result.manifest.unscheduled
    if unscheduled and is_alarming(unscheduled.time_share):
        warnings += [f"kernels: {line}" for line in unscheduled_lines(unscheduled)]
    if len(result.fingerprints) > 1:
        warnings.append("the device or its software changed between validation and benchmark")
    return warnings


def _run_warnings(results: Sequence[VariantResults]) -> list[str]:
    # The processor and the GPU of one machine must stay comparable.
    seen: dict[tuple[str, str], list[Fingerprint]] = {}
    for result in results:
        if result.latency is None:
            continue
        fingerprint = result.latency.fingerprint
        known = seen.setdefault((result.variant.device or "", fingerprint.kind), [])
        if fingerprint not in known:
            known.append(fingerprint)
    return [
        f"device '{name}': latencies come from {len(known)} different devices or software versions, so they do not compare"
        for (name, _), known in seen.items()
        if len(known) > 1
    ]
