"""Details of one variant on the page, beyond its row: goals, numerics by output, kernels, sizes, versions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.manifest import Manifest, Unscheduled
from tvmake.artifact.other_sizes import other_sizes
from tvmake.benchmark.baseline.result import Baseline, NoBaseline
from tvmake.benchmark.result import Latency
from tvmake.benchmark.steps import StepRange, step_ranges
from tvmake.config.validation import Goals
from tvmake.process.output import counted
from tvmake.records.best import BestSet
from tvmake.report import precisions, quantities
from tvmake.report.results import VariantResults
from tvmake.report.rows import SummaryRow
from tvmake.report.unscheduled import help_text, unscheduled_headline, unscheduled_lines
from tvmake.tune.layouts import LayoutChoice
from tvmake.validate.result import Numerics

Facts = tuple[str, list[tuple[str, str]]]
"""A title, with (name, value) pairs."""

KERNELS_SHOWN = 20

QUANTIZED = " (the source rounds its activations itself, which the defaults allow for)"


@dataclass(frozen=True)
class Table:
    """A table whose first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def variant_facts(row: SummaryRow, result: VariantResults) -> list[Facts]:
    """Latency, numerics and package, each as name and value."""
    facts: list[Facts] = []
    if result.latency:
        facts.append(("Latency", _latency_facts(row, result.latency, result.variant.goals)))
    if result.numerics:
        facts.append(("Numerics", _numerics_facts(row, result.numerics)))
    facts.append(("Package", _package_facts(row, result.manifest)))
    if result.layout:
        facts.append(("Layout", _layout_facts(result.layout)))
    if result.precision:
        facts.append(("Precision", precisions.facts(result.precision)))
    return facts


def failure_facts(row: SummaryRow) -> list[Facts]:
    """Why a variant was not built, as name and value."""
    facts = [("stage", row.stage), ("cause", row.cause), ("what to do", row.remedy), ("log", row.log)]
    return [("Failure", [(name, value) for name, value in facts if value])]


def variant_tables(result: VariantResults) -> list[Table]:
    """Numerics by output, and kernels if they were profiled."""
    tables = []
    if result.numerics and result.numerics.report.outputs:
        tables.append(_outputs_table(result.numerics))
    if result.latency and result.latency.shapes:
        tables.append(_shapes_table(result.latency))
    if result.latency and (ranges := step_ranges(result.latency)):
        tables.append(_steps_table(ranges))
    if others := other_sizes(result.manifest):
        rows = [(entry.range, entry.how) for entry in others]
        tables.append(Table("Sizes without code of their own", ("sizes", "computed"), rows))
    if result.latency and result.latency.report.ops:
        tables.append(_kernels_table(result.latency))
    if result.best:
        tables.append(_tuning_table(result.best, result.manifest.coverage.misses))
    if (unscheduled := result.manifest.unscheduled) and unscheduled.kernels:
        tables.append(_unscheduled_table(unscheduled))
    if result.precision:
        if result.precision.candidates:
            tables.append(Table("Precisions: candidates", *precisions.candidates(result.precision)))
        tables.append(Table("Precisions: layers", *precisions.layers(result.precision)))
    return tables


def device_facts(device: Fingerprint) -> list[tuple[str, str]]:
    """A device's fingerprint."""
    return [
        ("kind", device.kind),
        ("SoC", device.soc),
        ("cores", str(device.cores)),
        ("memory", quantities.size(device.memory_bytes)),
        ("system", device.os),
        ("runtime", device.runtime),
        *device.details.items(),
    ]


def _shapes_table(latency: Latency) -> Table:
    ms = quantities.milliseconds
    rows = [
        (
            ", ".join([*(f"{name} {size}" for name, size in shape.sizes.items()), *filter(None, [shape.how])]),
            ms(shape.statistics.p50_ms),
            ms(shape.statistics.p90_ms),
            ms(shape.statistics.min_ms),
            str(shape.statistics.samples),
        )
        for shape in latency.shapes
    ]
    return Table("Latency by shape", ("shape", "p50 ms", "p90 ms", "min ms", "samples"), rows)


def _steps_table(ranges: Sequence[StepRange]) -> Table:
    ms = quantities.milliseconds
    rows = [
        (
            str(steps.first) if steps.first == steps.last else f"{steps.first} to {steps.last}",
            ms(steps.package_ms),
            ms(steps.baseline_ms),
            quantities.ABSENT if steps.baseline_ms is None else f"{steps.baseline_ms / steps.package_ms:.2f}",
        )
        for steps in ranges
    ]
    note = "Medians over the steps and over all sequences. The baseline ran its sequences alternately with those of the package."
    return Table("Latency by step", ("steps", "ms", "baseline ms", "× baseline"), rows, note)


def _latency_facts(row: SummaryRow, latency: Latency, goals: Goals) -> list[tuple[str, str]]:
    report = latency.report
    statistics, measurement = report.statistics, report.measurement
    ms = quantities.milliseconds
    samples = f"{statistics.samples}, each {'one run' if report.number == 1 else f'the mean of {report.number} runs'}"
    memory = quantities.size(row.peak_memory_bytes)
    if latency.baseline_memory_bytes:
        memory += f", of which {quantities.size(latency.baseline_memory_bytes)} before the package was loaded"
    return [
        ("p50, p90, p99", f"{ms(statistics.p50_ms)}, {ms(statistics.p90_ms)}, {ms(statistics.p99_ms)} ms"),
        ("mean ± deviation", f"{ms(statistics.mean_ms)} ± {ms(statistics.std_ms)} ms (CV {statistics.cv:.1%})"),
        ("min, max", f"{ms(statistics.min_ms)}, {ms(statistics.max_ms)} ms"),
        ("samples", f"{samples}; {statistics.outliers} of them outliers; {measurement.warmup} warm-up runs before"),
        *_baseline_facts(row, latency.baseline),
        ("load, first run", f"{ms(row.load_ms)}, {ms(row.first_run_ms)} ms"),
        ("peak memory", memory),
        ("goals", _goals(goals)),
        *((name.replace("_", " "), str(value)) for name, value in report.conditions.items()),
    ]


def _baseline_facts(row: SummaryRow, baseline: Baseline | NoBaseline | None) -> list[tuple[str, str]]:
    if isinstance(baseline, NoBaseline):
        return [("baseline", f"not measured: {baseline.problem}")]
    if baseline is None or row.speedup is None:
        return []
    ms = quantities.milliseconds
    factor = quantities.times_within(row.speedup, row.speedup_low, row.speedup_high)
    how = f"{counted(len(baseline.samples_ms), 'sample')} alternating with the package, {counted(baseline.threads, 'thread')}"
    slower = ", so the package is slower" if row.speedup_high is not None and row.speedup_high < 1 else ""
    return [
        ("baseline", f"{ms(row.baseline_ms)} ms ({row.percentile}) in {baseline.framework}, {how}"),
        (
            "× baseline",
            f"{factor} as fast as the baseline{slower}",
        ),
    ]


def _numerics_facts(row: SummaryRow, numerics: Numerics) -> list[tuple[str, str]]:
    report = numerics.report
    facts = [
        ("reference", numerics.reference),
        ("inputs", f"{counted(report.samples, 'sample')}, {numerics.data}"),
        ("goals", f"{_goals(numerics.report.goals)}{QUANTIZED if numerics.is_source_quantized else ''}"),
        ("repeatable", {None: "not checked", True: "yes", False: "no"}[report.repeatable]),
    ]
    if row.top1_agreement is not None:
        facts.append(("same class as reference", quantities.share(row.top1_agreement)))
    if row.equal_tokens is not None:
        facts.append(("same tokens after a prompt", f"{row.equal_tokens} of {row.tokens}"))
    for name, got, reference in (("top-1", row.top1, row.reference_top1), ("top-5", row.top5, row.reference_top5)):
        if got is not None:
            facts.append((name, f"{quantities.share(got)}, reference {quantities.share(reference)}"))
    for name, measured in report.metrics.items():
        sides = ("not a number" if side is None else f"{side:.6g}" for side in (measured.value, measured.reference))
        facts.append((name, ", reference ".join(sides)))
    return facts


def _goals(goals: Goals) -> str:
    """Goals in words; those of metrics by the metric's name."""
    values = goals.model_dump(exclude_none=True, exclude={"metrics", "latency_ms"})
    for name, metric in (goals.metrics or {}).items():
        values |= {f"{name} {key.replace('_', ' ')}": value for key, value in metric.bounds.items()}
    values |= {f"latency_ms {percentile}": bound for percentile, bound in (goals.latency_ms or {}).items()}
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "none"


def _package_facts(row: SummaryRow, manifest: Manifest) -> list[tuple[str, str]]:
    coverage = manifest.coverage
    facts = [
        ("file", row.package or quantities.ABSENT),
        ("sha256", row.package_sha256 or quantities.ABSENT),
        (
            "size",
            f"{quantities.size(row.package_bytes)} (mod.so {quantities.size(row.library_bytes)}, "
            f"mod.params {quantities.size(row.params_bytes)})",
        ),
        ("kernels tuned", f"{coverage.tuned} of {coverage.tunable}"),
    ]
    facts.append(("kernels scheduled", _origins(manifest)))
    if coverage.tunable:
        by = "measured latencies" if coverage.basis == "latency" else "operations"
        share = quantities.share(coverage.time_share, 1)
        facts.append(("share of time tuned", f"{share} of the tunable kernels' time, estimated by {by}"))
    # With tuning off the misses are all kernels, which the row states already.
    if manifest.records_sha256 and coverage.misses:
        facts.append(("kernels not tuned", "; ".join(f"{name}: {why}" for name, why in coverage.misses.items())))
    if manifest.why_refused:
        facts.append(("sizes without a shape", f"refused: {manifest.why_refused}"))
    facts += [("without a schedule", line) for line in unscheduled_lines(manifest.unscheduled)]
    facts.append(("made with", ", ".join(f"{part.name} {part.version}" for part in manifest.components)))
    return facts


def _origins(manifest: Manifest) -> str:
    """How many kernels' schedules come from where."""
    counts = Counter(kernel.scheduled for kernel in manifest.kernels)
    names: dict[Literal["record", "rule", "default"], str] = {
        "record": "by records",
        "rule": "by rules",
        "default": "plain loops",
    }
    return ", ".join(f"{counts[origin]} {name}" for origin, name in names.items() if counts[origin]) or "none"


def _layout_facts(choice: LayoutChoice) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = [("chosen", choice.layout)]
    for estimate in choice.estimates:
        if estimate.estimate_ms is None:
            facts.append((estimate.layout, estimate.problem or ""))
            continue
        kernels = ", ".join(
            f"{kernel.name} {quantities.milliseconds(kernel.latency_ms)} ms" for kernel in estimate.kernels
        )
        share = quantities.share(estimate.share)
        facts.append(
            (
                estimate.layout,
                f"about {quantities.milliseconds(estimate.estimate_ms)} ms, from {share} of the work: {kernels}",
            )
        )
    return facts if choice.estimates else [*facts, ("why", "all layouts come to the same network")]


def _outputs_table(numerics: Numerics) -> Table:
    figure, level = quantities.figure, quantities.level
    rows = [
        (
            output.name,
            output.dtype,
            figure(output.max_abs),
            figure(output.max_abs_rms),
            figure(output.mean_abs),
            figure(output.max_rel),
            f"{output.worst_cosine:.6f}",
            level(output.sqnr_db),
            level(output.worst_sqnr_db),
            str(output.nonfinite_mismatches),
        )
        for output in numerics.report.outputs
    ]
    columns = (
        "output",
        "dtype",
        "max abs",
        "of RMS",
        "mean abs",
        "max rel",
        "worst cosine",
        "SQNR",
        "worst SQNR",
        "non-finite mismatches",
    )
    return Table("Outputs against the reference", columns, rows)


def _kernels_table(latency: Latency) -> Table:
    ops = latency.report.ops
    rows = [
        (
            op.kernel,
            f"{op.calls:g}",
            quantities.milliseconds(op.total_ms),
            quantities.milliseconds(op.median_ms),
            quantities.share(op.share, 1),
        )
        for op in ops[:KERNELS_SHOWN]
    ]
    note = "From separate, profiled runs; the shares are meaningful, the sum is not the latency."
    if len(ops) > len(rows):
        rest = sum(op.share for op in ops[len(rows) :])
        note += f" {len(ops) - len(rows)} further kernels take {quantities.share(rest, 1)}."
    return Table("Kernels", ("kernel", "calls", "total ms", "median ms", "share"), rows, note)


def _unscheduled_table(part: Unscheduled) -> Table:
    rows = [
        (
            kernel.name,
            quantities.share(kernel.time_share, 1),
            ", ".join(kernel.blocks) or "all",
            kernel.reason,
            help_text([kernel]) or quantities.ABSENT,
        )
        for kernel in part.kernels
    ]
    note = f"Plain loops, or general schedules of TVM; {unscheduled_headline(part)}."
    return Table("Without a schedule", ("kernel", "share of time", "blocks", "because", "what would help"), rows, note)


def _tuning_table(best: BestSet, misses: Mapping[str, str]) -> Table:
    tuned = [kernel for kernel in best.kernels if kernel.trials]
    rows = [
        (
            kernel.name,
            str(kernel.calls),
            str(kernel.trials),
            quantities.milliseconds(kernel.latency_ms),
            quantities.rate(kernel.flops / kernel.latency_ms / 1e6) if kernel.latency_ms else quantities.ABSENT,
            # The build may refuse a record.
            kernel.reason or misses.get(kernel.name, ""),
        )
        for kernel in tuned[:KERNELS_SHOWN]
    ]
    note = "Latencies of kernels alone, as measured while tuning."
    if len(tuned) > len(rows):
        note += f" {len(tuned) - len(rows)} lighter kernels are in best.json."
    return Table("Tuning", ("kernel", "calls", "trials", "best ms", "GFLOPS", "not tuned because"), rows, note)
