"""A run with nothing to do: ``tvmake make`` against a bare Snakefile with as many jobs.

    python benchmarks/noop.py [--variants 100] [--rounds 5]

Builds a configuration of VARIANTS variants whose results all exist (empty files, marked as made with
``snakemake --touch``), and a Snakefile without any Python of its own that has the same rules, jobs and files.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from comparing import ROOT, environment, interleaved, report, timed

PRECISIONS = ["float32", "float16", "float16_acc32"]

MADE = (
    "imported_module", "imported_params", "signature", "source", "reference", "module", "params", "bound_signature",
    "lib", "manifest", "weights", "sources", "package", "provenance", "components", "receipt", "numerics", "latency",
    "summary_csv", "page", "resolved_config",
)  # fmt: skip
"""What a run without tuning makes, as the plan calls it."""

NOTE = ".snakemake/tvmake-nothing-to-do.json"
"""With it, `tvmake make` does not plan."""

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
    shell: "true"
"""


def project(directory: Path, variants: int) -> int:
    """A tvmake project whose results exist; returns its number of jobs."""
    directory.mkdir()
    models = {}
    for number in range(-(-variants // len(PRECISIONS))):
        (directory / f"model{number}.onnx").write_bytes(b"")
        models[f"model{number}"] = {"source": f"model{number}.onnx"}
    (directory / "tvmake.yaml").write_text(yaml.safe_dump({"models": models, "precisions": PRECISIONS}))
    from tvmake.config.load import load
    from tvmake.plan.plan import Plan

    plan = Plan(load([directory / "tvmake.yaml"]))
    for artifact in MADE:
        for variant in plan.variants:
            path = directory / plan.file(artifact, variant)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(exist_ok=True) if artifact == "sources" else path.touch()
    from tvmake.artifact import stage_json
    from tvmake.report.rows import summarise

    stage_json.save(summarise([]), directory / plan.file("summary"))
    touch(directory, str(ROOT / "Snakefile"), "--configfile", "tvmake.yaml")
    models_made = len(plan.config.models)
    return 2 * models_made + 7 * len(plan.variants) + 2


def bare(directory: Path, made: Path) -> None:
    """The same DAG without lambdas, plan or package."""
    directory.mkdir()
    config = yaml.safe_load((made / "tvmake.yaml").read_text())
    rules, last, beside = [], [], []
    for name, model in config["models"].items():
        shutil.copy(made / model["source"], directory / model["source"])
        top = f"results/{name}"
        four = [f"{top}/{file}" for file in ("model.json", "model.params", "signature.json", "source.json")]
        rules.append((f"import_{name}", [model["source"]], four))
        rules.append((f"reference_{name}", [model["source"], four[2]], [f"{top}/reference.npz"]))
        for precision in PRECISIONS:
            middle, key = f"{top}/{precision}", f"{name}_{precision}"
            three = [f"{middle}/{file}" for file in ("module.json", "module.params", "signature.json")]
            rules.append((f"transform_{key}", four[:3], three))
            end = f"{middle}/cpu"
            built = [f"{end}/{file}" for file in ("mod.so", "mod.json", "mod.params", "sources.txt")]
            package, receipt = f"{end}/package.tar", f"{end}/receipt.json"
            rules.append((f"build_{key}", three, built))
            rules.append((f"export_{key}", built[:3], [package]))
            said = [f"{end}/package.provenance.json", f"{end}/package.cdx.json"]
            rules.append((f"attest_{key}", [package, four[3]], said))
            beside.append(said[0])
            rules.append((f"deploy_{key}", [package], [receipt]))
            used = [package, receipt, f"{top}/reference.npz"]
            rules.append((f"validate_{key}", used, [f"{end}/numerics.json"]))
            rules.append((f"benchmark_{key}", used, [f"{end}/latency.json"]))
            last += [f"{end}/numerics.json", f"{end}/latency.json", built[1], package]
    goals = [f"results/{name}" for name in ("summary.json", "summary.csv", "index.html")]
    rules.append(("report", last, goals))
    text = BARE
    # One rule per stage with wildcards, as a person would write it, not one per job.
    text += wildcard_rules()
    (directory / "jobs.json").write_text(json.dumps({"all": goals + beside, "goals": goals, "last": last}))
    for _, _, outputs in rules:
        for output in outputs:
            (directory / output).parent.mkdir(parents=True, exist_ok=True)
            (directory / output).touch()
    (directory / "Snakefile").write_text(text)
    touch(directory, "Snakefile")


def wildcard_rules() -> str:
    """The stages as plain rules."""
    model, middle, end = "results/{model}", "results/{model}/{precision}", "results/{model}/{precision}/{target}"

    def rule(name: str, inputs: list[str], outputs: list[str], log: str) -> str:
        return BARE_RULE.format(
            name=name, inputs=json.dumps(inputs)[1:-1], outputs=json.dumps(outputs)[1:-1], options="x", log=log
        )

    four = [f"{model}/{file}" for file in ("model.json", "model.params", "signature.json", "source.json")]
    three = [f"{middle}/{file}" for file in ("module.json", "module.params", "signature.json")]
    built = [f"{end}/{file}" for file in ("mod.so", "mod.json", "mod.params", "sources.txt")]
    used = [f"{end}/package.tar", f"{end}/receipt.json", f"{model}/reference.npz"]
    text = "wildcard_constraints:\n    model='[^/]+', precision='[^/]+', target='[^/]+'\n"
    text += rule("import_model", ["{model}.onnx"], four, "logs/{model}/import.log")
    text += rule("reference", ["{model}.onnx", four[2]], [f"{model}/reference.npz"], "logs/{model}/reference.log")
    text += rule("transform", four[:3], three, "logs/{model}/{precision}/transform.log")
    logs = "logs/{model}/{precision}/{target}/"
    text += rule("build", three, built, logs + "build.log")
    text += rule("export", built[:3], [used[0]], logs + "export.log")
    said = [f"{end}/package.provenance.json", f"{end}/package.cdx.json"]
    text += rule("attest", [used[0], four[3]], said, logs + "attest.log")
    text += rule("deploy", [used[0]], [used[1]], logs + "deploy.log")
    text += rule("validate", used, [f"{end}/numerics.json"], logs + "validate.log")
    text += rule("benchmark", used, [f"{end}/latency.json"], logs + "benchmark.log")
    text += '\nrule report:\n    input: FILES["last"]\n    output: FILES["goals"]\n    shell: "true"\n'
    return text


def touch(directory: Path, snakefile: str, *arguments: str) -> None:
    """Mark everything as made."""
    command = ["snakemake", "--snakefile", snakefile, "--touch", "--cores", "1", "--quiet", "all", *arguments]
    subprocess.run(command, cwd=directory, env=environment(), check=True, capture_output=True)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        ours, theirs = Path(temporary) / "tvmake", Path(temporary) / "bare"
        jobs = project(ours, arguments.variants)
        bare(theirs, ours)
        ask = {
            "bare snakemake": (["snakemake", "--cores", "2"], theirs),
            "tvmake make, no note": (["tvmake", "make"], ours),
            "tvmake make": (["tvmake", "make"], ours),
            "snakemake on our Snakefile": (
                ["snakemake", "--snakefile", str(ROOT / "Snakefile"), "--configfile", "tvmake.yaml", "--cores", "2"],
                ours,
            ),
        }
        check_nothing_to_do(theirs, ours)

        def subject(name: str) -> float:
            command, place = ask[name]
            if name.endswith("no note"):
                (place / NOTE).unlink(missing_ok=True)
            return timed(command, place, environment())

        figures = interleaved(arguments.rounds, {name: lambda name=name: subject(name) for name in ask})
    report(f"no-op run, {arguments.variants} variants, {jobs} jobs", figures, "bare snakemake")


def check_nothing_to_do(theirs: Path, ours: Path) -> None:
    """A benchmark of a no-op must be one."""
    for command, place in ((["snakemake", "-n"], theirs), (["tvmake", "make", "-n"], ours)):
        done = subprocess.run(command, cwd=place, env=environment(), capture_output=True, text=True, check=True)
        if "othing to" not in done.stdout + done.stderr:
            sys.exit(f"not a no-op: {command}\n{(done.stdout + done.stderr)[-2000:]}")


if __name__ == "__main__":
    main()
