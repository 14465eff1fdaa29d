"""Processor time of a run with nothing to do: ``tvmake make`` against a bare Snakefile with the same jobs.

    python benchmarks/noop.py [--variants 100] [--rounds 5] [--without-peers]

Makes the results of VARIANTS variants on the real Snakefile, with jobs that only make empty files (stand_in.py), those of one
variant, and those of a Snakefile without any Python of its own that has the same rules, jobs and files. That takes about 60 ms a
job. What looking at the files of all variants costs is the difference of ``tvmake make`` to that for one variant.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import stand_in
import yaml
from comparing import ROOT, environment, interleaved, processor_time, report, timed

PRECISIONS = ["float32", "float16", "float16_acc32"]

NOTES = ".snakemake/tvmake-up-to-date.json"
"""With them, `tvmake make` does not plan."""

BARE_SNAKEMAKE, NOTED, SINGLE = "bare snakemake", "tvmake make", "tvmake make, one variant"

SETTLED_S = 2.5
"""What changed more recently is not noted."""

BARE = """
import json
FILES = json.load(open("jobs.json"))
rule all:
    input: FILES["all"]
"""

BARE_RULE = """
rule {name}:
    input: {inputs}
    output: {outputs}
    params: options={options!r}
    log: {log!r}
    shell: "touch {{output}}"
"""


def project(directory: Path, variants: int) -> int:
    """A tvmake project whose results exist; returns its number of jobs."""
    directory.mkdir()
    models = {}
    for number in range(-(-variants // len(PRECISIONS))):
        (directory / f"model{number}.onnx").write_bytes(b"")
        models[f"model{number}"] = {"source": f"model{number}.onnx"}
    (directory / "tvmake.yaml").write_text(yaml.safe_dump({"models": models, "precisions": PRECISIONS}))
    stand_in.prepare(directory)
    made, *_ = stand_in.make(directory, 2, {})
    stand_in.add_job_records(directory)
    return made


def bare(directory: Path, made: Path) -> None:
    """The same DAG without lambdas, plan or package."""
    directory.mkdir()
    config = yaml.safe_load((made / "tvmake.yaml").read_text())
    last, beside = [], []
    for name, model in config["models"].items():
        shutil.copy(made / model["source"], directory / model["source"])
        for precision in PRECISIONS:
            end = f"results/{name}/{precision}/cpu"
            beside.append(f"{end}/package.provenance.json")
            last += [f"{end}/{file}" for file in ("numerics.json", "latency.json", "mod.json", "package.tar")]
    goals = [f"results/{name}" for name in ("summary.json", "summary.csv", "index.html")]
    text = BARE
    # One rule per stage with wildcards, as a person would write it, not one per job.
    text += wildcard_rules()
    (directory / "jobs.json").write_text(json.dumps({"all": goals + beside, "goals": goals, "last": last}))
    (directory / "Snakefile").write_text(text)
    # Its own choice of jobs takes minutes of thousands of them.
    command = ["snakemake", "--cores", "2", "--quiet", "all", "--scheduler", "greedy"]
    subprocess.run(command, cwd=directory, env=environment(), check=True, capture_output=True)


def wildcard_rules() -> str:
    """The stages as plain rules."""
    model, middle, end = "results/{model}", "results/{model}/{precision}", "results/{model}/{precision}/{target}"

    def rule(name: str, inputs: list[str], outputs: list[str], log: str) -> str:
        return BARE_RULE.format(
            name=name, inputs=json.dumps(inputs)[1:-1], outputs=json.dumps(outputs)[1:-1], options="x", log=log
        )

    four = [f"{model}/{file}" for file in ("model.json", "model.params", "signature.json", "source.json")]
    three = [f"{middle}/{file}" for file in ("module.json", "module.params", "signature.json")]
    built = [f"{end}/{file}" for file in ("mod.so", "mod.json", "packing.json", "sources.txt")]
    used = [f"{end}/package.tar", f"{end}/receipt.json", f"{model}/reference.npz"]
    samples = f"{model}/self_test.npz"
    text = "wildcard_constraints:\n    model='[^/]+', precision='[^/]+', target='[^/]+'\n"
    text += rule("import_model", ["{model}.onnx"], four, "logs/{model}/import.log")
    text += rule("reference", ["{model}.onnx", four[2]], [f"{model}/reference.npz"], "logs/{model}/reference.log")
    text += rule("self_test", ["{model}.onnx", *four[2:]], [samples], "logs/{model}/self_test.log")
    text += rule("transform", four[:3], three, "logs/{model}/{precision}/transform.log")
    logs = "logs/{model}/{precision}/{target}/"
    text += rule("build", three, built, logs + "build.log")
    text += rule("export", [*built[:3], three[1], samples], [used[0]], logs + "export.log")
    said = [f"{end}/package.provenance.json", f"{end}/package.cdx.json"]
    text += rule("attest", [used[0], four[3]], said, logs + "attest.log")
    text += rule("deploy", [used[0]], [used[1]], logs + "deploy.log")
    text += rule("validate", used, [f"{end}/numerics.json"], logs + "validate.log")
    text += rule("benchmark", used, [f"{end}/latency.json"], logs + "benchmark.log")
    chosen = '["results/selection.json", directory("results/best")]'
    text += f'\nrule select:\n    input: FILES["last"]\n    output: {chosen}\n    shell: "mkdir {{output[1]}}; touch {{output}}"\n'
    text += '\nrule report:\n    input: FILES["last"], "results/selection.json"\n    output: FILES["goals"]\n'
    text += '    shell: "touch {output}"\n'
    return text


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--without-peers", action="store_true", help="tvmake make with notes alone, against one variant"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        ours, single, theirs = (Path(temporary) / name for name in ("tvmake", "single", "bare"))
        jobs = project(ours, arguments.variants)
        project(single, 1)
        ask = {NOTED: (["tvmake", "make"], ours), SINGLE: (["tvmake", "make"], single)}
        if not arguments.without_peers:
            bare(theirs, ours)
            ask |= {
                BARE_SNAKEMAKE: (["snakemake", "--cores", "2"], theirs),
                "tvmake make, no notes": (["tvmake", "make"], ours),
                "snakemake on our Snakefile": (
                    [
                        *["snakemake", "--configfile", "tvmake.yaml", "--cores", "2", "--snakefile"],
                        str(ROOT / "Snakefile"),
                    ],
                    ours,
                ),
            }
        check_nothing_to_do(ask.values())
        time.sleep(SETTLED_S)
        for directory in (ours, single):
            timed(["tvmake", "make"], directory, environment())

        def subject(name: str) -> float:
            command, directory = ask[name]
            if name.endswith("no notes"):
                (directory / NOTES).unlink(missing_ok=True)
                time.sleep(SETTLED_S)
            elif command[0] == "tvmake" and not (directory / NOTES).is_file():
                sys.exit("there are no notes that nothing was to do")
            return processor_time(command, directory, environment())

        figures = interleaved(arguments.rounds, {name: lambda name=name: subject(name) for name in ask})
    base = SINGLE if arguments.without_peers else BARE_SNAKEMAKE
    report(f"no-op run, {arguments.variants} variants, {jobs} jobs", figures, base)
    cost = statistics.median(figures[NOTED]) - statistics.median(figures[SINGLE])
    print(f"the checks of {arguments.variants} variants cost {cost:.2f} s more than those of one")


def check_nothing_to_do(asked: Iterable[tuple[list[str], Path]]) -> None:
    """A benchmark of a no-op must be one."""
    for command, directory in asked:
        done = subprocess.run(
            [*command, "-n"], cwd=directory, env=environment(), capture_output=True, text=True, check=True
        )
        if "othing to" not in done.stdout + done.stderr:
            sys.exit(f"not a no-op: {command}\n{(done.stdout + done.stderr)[-2000:]}")


if __name__ == "__main__":
    main()
