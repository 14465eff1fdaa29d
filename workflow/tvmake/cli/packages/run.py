"""``tvmake run``: run a package on your inputs, on any device."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tvmake.cli.configs import AsJson, ConfigFiles
from tvmake.cli.terminal import explain_wait, output_file
from tvmake.config.limits import MOST_REPETITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tvmake.running.outputs import Score
    from tvmake.running.run import Run

KERNELS_SHOWN = 20


def run(
    package: Annotated[Path, typer.Argument(help="A package.tar.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", "-i", metavar="[INPUT=]FILE", help="An .npz with an array for each input, an .npy or an image; repeatable."
        ),
    ] = None,
    fill: Annotated[
        Literal["random", "zeros", "ones"] | None,
        typer.Option(help="Values of inputs without a file. [default: random if no input has a file]"),
    ] = None,
    dims: Annotated[
        list[str] | None,
        typer.Option("--dim", metavar="NAME=SIZE", help="Size of a dynamic dimension of inputs without a file (batch=8); repeatable."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", min=1, max=MOST_REPETITIONS, metavar="N",
            help="Run N times, with states from step to step; an array with one more axis than its input has its values for each step.",
        ),
    ] = None,
    preprocess: Annotated[
        list[str] | None,
        typer.Option(
            "--preprocess", "-p", metavar="KEY=VALUE",
            help="How an image is converted to the input: keys of `dataset.preprocess`, e.g. resize=256 crop=224 mean=[0.5].",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.npz", parser=output_file, help="Write the outputs to this file.")
    ] = None,
    top: Annotated[int, typer.Option("--print-top", min=0, metavar="N", help="Print the N classes with the highest scores.")] = 0,
    labels: Annotated[Path | None, typer.Option("--labels", metavar="FILE", help="Names of the classes, one per line.")] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=0, max=MOST_REPETITIONS, metavar="N", help="Time N more runs.")] = 0,
    number: Annotated[int, typer.Option("--number", min=1, max=MOST_REPETITIONS, metavar="N", help="Average N runs for each timed sample.")] = 1,
    profile: Annotated[bool, typer.Option("--profile", help="Time each kernel.")] = False,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Run the package's own samples and compare with the original framework's outputs.")
    ] = False,
    function: Annotated[
        str | None, typer.Option("--function", metavar="NAME", help="The function to run, of a package with several; `tvmake show` lists them.")
    ] = None,
    prompt_ids: Annotated[str | None, typer.Option("--prompt-ids", metavar="ID,…", help="Generate tokens with a language model after these; --steps is their number.")] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="The same after a text, which needs the model's tokenizer.json.")] = None,
    tokenizer: Annotated[Path | None, typer.Option("--tokenizer", metavar="FILE", help="The tokenizer.json. [default: in the package, or beside it]")] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", metavar="T", help="Draw tokens; smaller values prefer probable ones. [default: the most probable token]")] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", metavar="P", help="Draw among the most probable tokens that together have this probability.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the draws.")] = 0,
    token_input: Annotated[str | None, typer.Option("--token-input", metavar="NAME", help="The input that takes tokens. [default: the only one of integers]")] = None,
    logits_output: Annotated[str | None, typer.Option("--logits-output", metavar="NAME", help="The output with a value for each token. [default: the only one]")] = None,
    device: Annotated[str, typer.Option("--device", "-d", "-D", metavar="NAME", help="A device of the config, or its address (ssh:HOST, adb:SERIAL, rpc:TRACKER:PORT/KEY); `local` is this machine.")] = "local",
    config: ConfigFiles = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run a package on arrays, images, generated inputs or its own samples, here or on a device.

    The package's digests are checked first. Its code runs in a separate process, except to generate tokens.
    """
    from tvmake.artifact.package import check_is_package_file
    from tvmake.cli.configs import print_note
    from tvmake.cli.device.app import chosen_device
    from tvmake.cli.packages.generate import Prompt, print_generated
    from tvmake.cli.packages.preprocessing import preprocessing
    from tvmake.cli.packages.self_test import print_self_test, self_tests
    from tvmake.cli.single import dimension_size, values_by_name
    from tvmake.config.benchmark import Measurement
    from tvmake.device.connect import connect
    from tvmake.device.function_packages import choose_function
    from tvmake.errors import UsageError
    from tvmake.running.arguments import check_is_package
    from tvmake.running.inputs import describe_nonfinite, inputs_from_files
    from tvmake.running.outputs import check_labels, is_outputs, read_labels, write_outputs
    from tvmake.running.run import run as run_package
    from tvmake.running.steps import step_inputs
    from tvmake.storage.destinations import check_destination

    others = {
        "--input": inputs, "--fill": fill, "--dim": dims, "--steps": steps, "--preprocess": preprocess, "--output": output, "--print-top": top,
        "--labels": labels, "--repeat": repeat, "--number": number > 1, "--profile": profile,
    }  # fmt: skip
    if self_test and (option := next((name for name, value in others.items() if value), None)):
        raise UsageError(f"--self-test {option}", "the self-test has its own inputs and outputs", f"omit {option}")
    if number > 1 and not (repeat or profile):
        raise UsageError(
            f"--number {number}", "averages timed runs, but no run is timed", "add --repeat N or --profile"
        )
    generation = {
        "--tokenizer": tokenizer, "--temperature": temperature is not None, "--top-p": top_p is not None, "--seed": seed,
        "--token-input": token_input, "--logits-output": logits_output,
    }  # fmt: skip
    wants_tokens = prompt is not None or prompt_ids is not None
    if not wants_tokens and (option := next((name for name, value in generation.items() if value), None)):
        raise UsageError(option, "needs a prompt", "add --prompt-ids 1,15,27 or --prompt TEXT")
    if wants_tokens:
        _check_generation(others | {"--self-test": self_test, "--steps": None}, prompt, prompt_ids, device)
    sizes = values_by_name("--dim", dimension_size, dims)
    if output is not None and output.suffix != ".npz":
        raise UsageError(f"--output {output}", "outputs are written as an .npz", f"name it {output.stem}.npz")
    if output is not None:
        check_destination(output, "file of arrays (.npz)", is_outputs)
    check_is_package_file(package)
    check_is_package(package)
    if self_test:
        print_self_test(self_tests(package, function), connect(device, chosen_device(device, config)), as_json)
        return
    package, manifest = choose_function(package, function)
    if wants_tokens:
        chosen_prompt = Prompt(
            prompt_ids, prompt, tokenizer, steps, temperature, top_p, seed, token_input, logits_output
        )
        print_generated(package, chosen_prompt, as_json)
        return
    names = read_labels(labels) if labels else []
    if labels:
        check_labels(names, labels, manifest.signature.outputs)
    files = inputs_from_files(manifest.signature, inputs or [], preprocessing(preprocess))
    filling = fill or (None if inputs else "random")
    given = step_inputs(manifest.signature, files, steps, filling, sizes)
    for line in dict.fromkeys(line for arrays in given for line in describe_nonfinite(arrays)):
        typer.echo(f"warning: {line}", err=True)
    wants_time = bool(repeat or profile)
    measurement = Measurement(repeat=max(repeat, 1), number=number, profile_ops=profile) if wants_time else None
    chosen = connect(device, chosen_device(device, config))
    with explain_wait(_what_takes_long(manifest.device_kind)):
        result = run_package(package, manifest, chosen, given, measurement)
    if output is not None:
        write_outputs(result.outputs, output)
    if profile and not result.kernels:
        print_note("kernels cannot be timed on this device, only on this machine and over ssh and adb")
    _print(result, top or (5 if labels else 0), names, repeat, number, as_json)


def _check_generation(others: "Mapping[str, object]", prompt: str | None, prompt_ids: str | None, device: str) -> None:
    """Refuse options that do not go with a prompt."""
    from tvmake.errors import UsageError

    if prompt is not None and prompt_ids is not None:
        raise UsageError("--prompt --prompt-ids", "both are given", "leave one out")
    option = "--prompt" if prompt is not None else "--prompt-ids"
    if other := next((name for name, value in others.items() if value), None):
        raise UsageError(f"{option} {other}", "a prompt is the only input, and tokens the output", f"omit {other}")
    if device != "local":
        remedy = "on other devices use the C++ library (docs/guides/decoders.md)"
        raise UsageError(f"{option} --device {device}", "tokens are generated on this machine", remedy)


def _what_takes_long(kind: str) -> str:
    """What a first run may wait for; empty if nothing is known."""
    if kind != "opencl":
        return ""
    return "still running: at a package's first run the OpenCL driver compiles its kernels; later runs take them from a cache"


def _print(run: "Run", top: int, labels: list[str], repeat: int, number: int, as_json: bool) -> None:
    import json

    from tvmake.process.output import counted
    from tvmake.running.outputs import MOST_ROWS, row_count, summary, top_scores

    timing = run.result.timing
    outputs = [summary(name, array) for name, array in run.outputs.items()]
    scores = {name: top_scores(array, top, labels) for name, array in run.outputs.items()} if top else {}
    latency = run.latency if repeat else None
    if as_json:
        everything = {
            "outputs": outputs,
            "top": {name: [_score_row(score) for score in highest] for name, highest in scores.items()},
            "samples_left_out": {name: max(row_count(run.outputs[name]) - MOST_ROWS, 0) for name in scores},
            "load_ms": timing.load_ms,
            "first_run_ms": timing.first_run_ms,
            "latency": latency.model_dump(mode="json") if latency else None,
            "kernels": [row.model_dump(mode="json") for row in run.kernels],
        }
        typer.echo(json.dumps(everything, indent=2))
        return
    _print_outputs(outputs)
    for name, highest in scores.items():
        typer.echo(f"\n{name}")
        for score in highest:
            sample = f"sample {score.sample}  " if len({score.sample for score in highest}) > 1 else ""
            figure = "not a number" if score.score is None else f"{score.score:.6g}"
            typer.echo(f"  {sample}{score.class_index:>5}  {figure:<12} {score.label}".rstrip())
        if (left_out := row_count(run.outputs[name]) - MOST_ROWS) > 0:
            shape = ", ".join(map(str, run.outputs[name].shape))
            typer.echo(f"  and {counted(left_out, 'sample')} more, of [{shape}]; --output FILE.npz writes all values")
    typer.echo(f"\nload {timing.load_ms:.1f} ms, first run {timing.first_run_ms:.2f} ms")
    if latency:
        typer.echo(
            f"{counted(repeat, 'run')}{f' of {number}' if number > 1 else ''}: median {latency.p50_ms:.4g} ms, minimum {latency.min_ms:.4g}, 90 % within {latency.p90_ms:.4g}"
        )
    if kernels := run.kernels:
        rows: list[dict[str, object]] = [
            {"kernel": row.kernel, "calls": f"{row.calls:g}", "ms": f"{row.total_ms:.4f}", "share": f"{row.share:.1%}"}
            for row in kernels[:KERNELS_SHOWN]
        ]
        typer.echo("")
        _table(rows, ("kernel", "calls", "ms", "share"))


def _print_outputs(outputs: list[dict[str, object]]) -> None:
    rows = []
    for entry in outputs:
        figures = {key: f"{entry[key]:.6g}" if key in entry else "" for key in ("min", "mean", "max")}
        odd = f"{entry['not_finite']} values are not finite" if entry["not_finite"] else ""
        rows.append({"output": entry["output"], "shape": entry["shape"], "dtype": entry["dtype"], **figures, "": odd})
    _table(rows, ("output", "shape", "dtype", "min", "mean", "max", ""))


def _score_row(score: "Score") -> dict[str, object]:
    return {"sample": score.sample, "place": score.class_index, "label": score.label, "score": score.score}


def _table(rows: list[dict[str, object]], columns: tuple[str, ...]) -> None:
    from tvmake.cli.device.tables import show

    show(rows, as_json=False, columns=columns)
