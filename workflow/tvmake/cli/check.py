"""``tvmake check``: validate a config and list what it makes."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli.configs import AsJson, ConfigFiles, Directory, Settings
from tvmake.cli.terminal import print_json

if TYPE_CHECKING:
    from tvmake.config.target import TargetConfig
    from tvmake.plan.plan import Plan
    from tvmake.quantize.precision import PrecisionConfig


def check(
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    files: Annotated[bool, typer.Option("--files", help="List every file that a run makes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Validate a config and list what it makes."""
    from tvmake.cache.prepare import check_cache
    from tvmake.cli.configs import files_in, load_plan, naming_lines
    from tvmake.errors import name_help
    from tvmake.plan.access import WRITING, check_access
    from tvmake.plan.dimension_checks import check_dims, check_fixed_sizes
    from tvmake.plan.directory_checks import check_directories, check_output_paths, check_results_directory
    from tvmake.plan.model_checks import check_models
    from tvmake.plan.preconditions import (
        check_datasets,
        check_device_files,
        check_functions,
        check_stores,
        missing_inputs,
    )
    from tvmake.process.output import counted
    from tvmake.report.console import SafeConsole, print_lines
    from tvmake.targets.code_kind import rare_kind

    paths = files_in(directory, config)
    plan = load_plan(paths, settings)
    with naming_lines(paths):
        if missing := missing_inputs(plan):
            raise missing
        check_functions(plan)
        check_directories(plan)
        check_stores(plan)
        check_cache(plan.config.cache)
        check_device_files(plan)
        check_results_directory(plan)
        check_access(plan, plan.variants, WRITING)
        check_output_paths(plan, plan.variants)
        declared = check_models(plan)
        check_dims(plan, declared)
        check_datasets(plan, declared)
        # Loading TVM takes a second: ask it only if the answer may be no.
        if rare := {name: kind for name, target in plan.config.targets.items() if (kind := rare_kind(target))}:
            from tvmake.targets.listing import check_generated

            check_generated(rare)
        for variant in plan.variants:
            if (build := plan.context(variant).build).pass_config:
                from tvmake.codegen.passes import check_settings

                check_settings(build)
        _check_operators(
            {name: plan.config.precisions[name] for name in {variant.precision for variant in plan.variants}}
        )
        _check_targets({name: plan.config.targets[name] for name in {variant.target for variant in plan.variants}})
        check_fixed_sizes(plan, declared)
    if as_json:
        _print_json(plan)
        return
    console = SafeConsole(soft_wrap=True)
    rows = [
        (*vars(variant).values(), plan.context(variant).device_name or "(package only)") for variant in plan.variants
    ]
    print_lines(console, ("model", "precision", "target", "runs on"), [[(text, "") for text in row] for row in rows])
    if files:
        for artifact in ("package.tar", "numerics.json", "latency.json"):
            for file in plan.results_of(artifact):
                console.print(file, highlight=False)
        for file in plan.goals():
            console.print(file, highlight=False)
    for note in [*_exclude_notes(plan), *_clml_notes(plan), *_unscheduled_notes(plan)]:
        console.print(name_help(note), highlight=False)
    console.print(
        f"{', '.join(map(str, paths))}: ok; {counted(len(plan.variants), 'variant')} of {counted(len(plan.config.models), 'model')}, "
        f"{len(plan.runnable)} to run on a device",
        highlight=False,
    )


def _exclude_notes(plan: "Plan") -> list[str]:
    """Notes on exclusions without effect: what they name may have left the config in another file."""
    from itertools import product

    config = plan.config
    axes = [
        (name, precision, target)
        for name, model in config.networks.items()
        for precision, target in product(model.precisions or config.precisions, model.targets or config.targets)
    ]
    return [
        f"note: variants.exclude[{index}]: no combination matches it"
        for index, part in enumerate(config.variants.exclude)
        if not any(config.matches(part, *combination) for combination in axes)
    ]


def _clml_notes(plan: "Plan") -> list[str]:
    """Notes on targets that use Qualcomm's CLML."""
    targets = plan.config.targets
    named = sorted(
        {variant.target for variant in plan.variants if (targets[variant.target].tag or "").endswith("-clml")}
    )
    note = "layers run in Qualcomm's CLML if the device has it, as generated kernels otherwise; tested with a simulated library"
    return [f"note: targets.{name}: {note}, not tried on a phone (docs/guides/adreno.md#clml)" for name in named]


def _unscheduled_notes(plan: "Plan") -> list[str]:
    """Notes on variants that get kernels without a schedule, as far as the config shows."""
    notes = []
    for variant in plan.variants:
        target = plan.config.targets[variant.target]
        reason = target.why_plain_loops(has_rules=plan.context(variant).build.schedule_rules)
        if reason and not plan.context(variant).is_tuned:
            notes.append(f"note: {variant}: its kernels are plain loops on one core: {reason}")
    return notes


def _print_json(plan: "Plan") -> None:
    variants = [{**vars(variant), "device": plan.context(variant).device_name} for variant in plan.variants]
    print_json({"variants": variants, "files": plan.goals()})


def _check_operators(precisions: "Mapping[str, PrecisionConfig]") -> None:
    """Check that Relax has the operators that precisions name."""
    for name, precision in sorted(precisions.items()):
        for key in ("always", "never", "follow"):
            for operator in getattr(precision, key):
                from tvmake.transform.precision import operator_named

                operator_named(operator, f"precisions.{name}.{key}")


def _check_targets(targets: "Mapping[str, TargetConfig]") -> None:
    """Check that LLVM knows each target's CPU and that its linker is installed."""
    from tvmake.config.reading.load import one_or_many
    from tvmake.errors import TvmakeError
    from tvmake.targets.validate import check_target

    errors: list[TvmakeError] = []
    for name, target in sorted(targets.items()):
        try:
            check_target(target, f"targets.{name}")
        except TvmakeError as error:
            errors.append(error)
    if errors:
        raise one_or_many(errors)
