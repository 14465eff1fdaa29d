"""``tvmake step …``: one command per stage, as the rules call them."""

from pathlib import Path
from typing import Annotated

import typer

from tvmake.cli.step_work import exit_after, exit_hermetic, request_of

app = typer.Typer(no_args_is_help=True, help="Run one stage of the pipeline (what the workflow's rules call).")

Options = Annotated[
    str,
    typer.Option("--options", help="The stage's options as JSON (see config/schema.json); - reads them from stdin."),
]
In = Annotated[Path, typer.Argument(dir_okay=False)]
Frozen = Annotated[
    Path | None, typer.Option(help="Lock whose records or layout to take, instead of measuring.", dir_okay=False)
]
LockedVariant = Annotated[str, typer.Option("--variant", help="Whose, in the lock: model/precision/target.")]
Out = Path


def _out(help_text: str) -> typer.models.OptionInfo:
    return typer.Option(help=help_text, dir_okay=True)


@app.command("import")
def import_command(
    options: Options,
    module: Annotated[Out, _out("Relax module to write (JSON).")],
    params: Annotated[Out, _out("Parameters to write.")],
    signature: Annotated[Out, _out("Signature to write (JSON).")],
    source: Annotated[Out, _out("Record of the source to write (JSON).")],
) -> None:
    """Read a trained model as Relax, parameters apart."""
    from tvmake.config.model import ImportOptions

    asked = request_of(ImportOptions, options)

    def work() -> None:
        from tvmake.stages.import_model import import_model

        import_model(asked, module, params, signature, source)

    outputs = {"module": module, "params": params, "signature": signature, "source": source}
    exit_hermetic(f"import {asked.source}", work, "import", asked, {}, outputs)


@app.command("reference")
def reference_command(
    signature: In,
    options: Options,
    reference: Annotated[Out, _out("Inputs, labels and outputs to write (npz).")],
) -> None:
    """Run the original model in its own framework."""
    from tvmake.config.requests.referencing import ReferenceRequest

    asked = request_of(ReferenceRequest, options)

    def work() -> None:
        from tvmake.stages.reference import reference as stage

        stage(signature, asked, reference)

    exit_after(f"reference {asked.model.source}", work)


@app.command("transform")
def transform_command(
    imported: In,
    imported_params: In,
    signature: In,
    options: Options,
    module: Annotated[Out, _out("Relax module to write (JSON).")],
    params: Annotated[Out, _out("Parameters to write.")],
    bound: Annotated[Out, _out("Signature with dimensions bound, to write (JSON).")],
) -> None:
    """Fold, bind dimensions, change layout and precision, run user passes."""
    from tvmake.config.requests.transforming import TransformRequest

    asked = request_of(TransformRequest, options)

    def work() -> None:
        from tvmake.stages.transform import transform_model

        transform_model(imported, imported_params, signature, asked, module, params, bound)

    inputs = {"module": imported, "params": imported_params, "signature": signature}
    outputs = {"module": module, "params": params, "signature": bound}
    exit_hermetic(f"transform {imported}", work, "transform", asked, inputs, outputs)


@app.command("choose_layout")
def choose_layout_command(
    candidates: Annotated[list[Path], typer.Argument(dir_okay=False)],
    options: Options,
    module: Annotated[Out, _out("The chosen layout's Relax module to write (JSON).")],
    params: Annotated[Out, _out("Its parameters to write.")],
    signature: Annotated[Out, _out("Its signature to write (JSON).")],
    layout: Annotated[Out, _out("The choice and its figures to write (JSON).")],
    events: Annotated[Out, _out("Log of trials to add to (JSON lines).")],
    frozen: Frozen = None,
    variant: LockedVariant = "",
) -> None:
    """Take the data layout in which a variant's heaviest kernels are fastest."""
    from tvmake.config.requests.tuning import ChooseLayoutRequest

    asked = request_of(ChooseLayoutRequest, options)

    def work() -> None:
        from tvmake.stages.choose_layout import choose_layout

        locked = None
        if frozen is not None:
            from tvmake.lock.records import read_frozen

            locked = read_frozen(frozen).layout_of(variant, frozen)
        made = choose_layout(candidates, asked, module, params, signature, layout, events, locked)
        typer.echo(f"layout: {made.said}")

    exit_after(f"choose_layout {module.parent}", work)


@app.command("extract")
def extract_command(
    module: In,
    signature: In,
    options: Options,
    tasks: Annotated[Out, _out("List of kernels to write (JSON).")],
    workloads: Annotated[Out, _out("Directory of kernels to write.")],
) -> None:
    """Name a variant's kernels and which of them are worth tuning."""
    from tvmake.config.requests.tuning import ExtractRequest

    asked = request_of(ExtractRequest, options)

    def work() -> None:
        from tvmake.stages.extract import extract

        extract(module, signature, asked, tasks, workloads)

    inputs = {"module": module, "signature": signature}
    exit_hermetic(f"extract {module}", work, "extract", asked, inputs, {"tasks": tasks, "workloads": workloads})


@app.command("budget")
def budget_command(
    tasks: Annotated[list[Path], typer.Argument(dir_okay=False)],
    options: Options,
    budget: Annotated[Out, _out("Budget to write (JSON).")],
    kernels: Annotated[Out, _out("Directory of kernels to write.")],
    receipts: Annotated[list[Path] | None, typer.Option(help="Receipts of the pass before.")] = None,
) -> None:
    """Spread the trials of a target's variants over their kernels."""
    from tvmake.config.requests.tuning import BudgetRequest

    asked = request_of(BudgetRequest, options)

    def work() -> None:
        from tvmake.stages.budget import budget as stage

        stage(tasks, receipts or [], asked, budget, kernels)

    exit_after(f"budget {asked.target_name} pass {asked.number}", work)


@app.command("tune")
def tune_command(
    kernel: In,
    name: Annotated[str, typer.Option(help="What to call the kernel.")],
    trials: Annotated[int, typer.Option(min=1, help="Candidates to have in the store when it ends.")],
    options: Options,
    receipt: Annotated[Out, _out("Receipt to write (JSON).")],
    events: Annotated[Out, _out("Log of trials to add to (JSON lines).")],
) -> None:
    """Search for one kernel until it has its budget; what is measured goes to the records store."""
    from tvmake.config.requests.tuning import TuneRequest

    asked = request_of(TuneRequest, options)

    def work() -> None:
        from tvmake.stages.tune import tune

        done = tune(kernel, name, trials, asked, receipt, events)
        best = f"{done.best_ms:.4g} ms" if done.best_ms else "no candidate works"
        typer.echo(
            f"{name}: {done.measured_now} candidates measured, {done.trials} in all, best {best} ({done.stopped})"
        )

    exit_after(f"tune {name}", work)


@app.command("pick_best")
def pick_best_command(
    tasks: In,
    workloads: Annotated[Path, typer.Option(help="The kernels, as extract wrote them.", file_okay=False)],
    options: Options,
    best: Annotated[Out, _out("Best records to write (JSON).")],
    receipts: Annotated[list[Path] | None, typer.Option(help="What the tuning of the kernels left.")] = None,
    frozen: Frozen = None,
    variant: LockedVariant = "",
) -> None:
    """Keep the fastest record of each kernel whose output is right."""
    from tvmake.config.requests.tuning import PickBestRequest

    asked = request_of(PickBestRequest, options)

    def work() -> None:
        if frozen is not None:
            from tvmake.stages.pick_locked import pick_locked

            pick_locked(tasks, asked, frozen, variant, best)
            return
        from tvmake.stages.pick_best import pick_best

        pick_best(tasks, workloads, receipts or [], asked, best)

    exit_after(f"pick_best {tasks}", work)


@app.command("build")
def build_command(
    module: In,
    params: In,
    signature: In,
    options: Options,
    lib: Annotated[Out, _out("mod.so to write.")],
    manifest: Annotated[Out, _out("mod.json to write.")],
    weights: Annotated[Out, _out("mod.params to write.")],
    sources: Annotated[Out, _out("Directory of generated sources to write.")],
    best: Annotated[Path | None, typer.Option(help="Records to build with.", dir_okay=False)] = None,
) -> None:
    """Lower a module for a target, generate and link its kernels."""
    from tvmake.config.requests.building import BuildRequest

    asked = request_of(BuildRequest, options)

    def work() -> None:
        from tvmake.stages.build import build

        build(module, params, signature, asked, lib, manifest, weights, sources, best)

    inputs = {"module": module, "params": params, "signature": signature}
    outputs = {"lib": lib, "manifest": manifest, "weights": weights, "sources": sources}
    name = f"build {asked.model}/{asked.precision}/{asked.target_name}"
    exit_hermetic(name, work, "build", asked, inputs | ({"best": best} if best else {}), outputs)


@app.command("export")
def export_command(
    lib: In,
    manifest: In,
    weights: In,
    package: Annotated[Out, _out("Package to write (tar).")],
) -> None:
    """Pack library, manifest and weights into one package."""

    def work() -> None:
        from tvmake.stages.export import export

        export(lib, manifest, weights, package)

    inputs = {"lib": lib, "manifest": manifest, "weights": weights}
    exit_hermetic(f"export {package}", work, "export", None, inputs, {"package": package})


@app.command("attest")
def attest_command(
    package: In,
    source: In,
    provenance: Annotated[Out, _out("Provenance to write (in-toto statement, JSON).")],
    components: Annotated[Out, _out("Component list to write (CycloneDX JSON).")],
) -> None:
    """Say beside a package where it came from and what it consists of."""

    def work() -> None:
        from tvmake.stages.attest import attest

        attest(package, source, provenance, components)

    # Not from the cache: to ask there takes as long.
    exit_after(f"attest {package}", work)


@app.command("deploy")
def deploy_command(
    package: In,
    options: Options,
    receipt: Annotated[Out, _out("Receipt to write (JSON).")],
) -> None:
    """Bring a package to its device."""
    from tvmake.config.requests.running import DeployRequest

    asked = request_of(DeployRequest, options)

    def work() -> None:
        from tvmake.stages.deploy import deploy

        deploy(package, asked, receipt)

    exit_after(f"deploy {package}", work)


@app.command("validate")
def validate_command(
    package: In,
    reference: In,
    options: Options,
    numerics: Annotated[Out, _out("Figures and verdict to write (JSON).")],
) -> None:
    """Compare a package on its device with the original model."""
    from tvmake.config.requests.running import ValidateRequest

    asked = request_of(ValidateRequest, options)

    def work() -> None:
        from tvmake.stages.validate import validate

        report = validate(package, reference, asked, numerics)
        for missed in report.missed:
            typer.echo(f"missed goal {missed.goal}{f' ({missed.output})' if missed.output else ''}: {missed.reason}")
        for warning in report.warnings:
            typer.echo(f"warning: {warning}")

    exit_after(f"validate {package}", work)


@app.command("benchmark")
def benchmark_command(
    package: In,
    reference: In,
    options: Options,
    latency: Annotated[Out, _out("Samples and statistics to write (JSON).")],
) -> None:
    """Time a package on its device."""
    from tvmake.config.requests.running import BenchmarkRequest

    asked = request_of(BenchmarkRequest, options)

    def work() -> None:
        from tvmake.stages.benchmark import benchmark

        benchmark(package, reference, asked, latency)

    exit_after(f"benchmark {package}", work)


@app.command("report")
def report_command(
    options: Options,
    summary: Annotated[Out, _out("Summary to write (JSON).")],
    table: Annotated[Out, _out("Summary to write (CSV).")],
    page: Annotated[Out, _out("Page to write (HTML).")],
) -> None:
    """Gather every variant's figures."""
    from tvmake.config.requests.reporting import ReportRequest

    asked = request_of(ReportRequest, options)

    def work() -> None:
        from tvmake.stages.report import report

        report(asked, summary, table, page)

    exit_after("report", work)
