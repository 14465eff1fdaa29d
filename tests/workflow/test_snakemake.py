"""The workflow with snakemake itself, and as a module of another workflow."""

import base64
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.process import shared
from tests.workflow.plain_snakemake import snakemake
from tests.workflow.project import ROOT, Project, changed_weights
from tvmake.process.forkserver.client import DIRECTORY

VARIANT = "results/digits/float32/cpu"
PACKAGE = f"{VARIANT}/package.tar"
GUIDE = ROOT / "docs/guides/use-as-module.md"


def test_a_file_target_makes_that_file_and_what_it_needs(fresh: Project):
    done = fresh.run(*snakemake("results/digits/float32/module.json"))
    assert done.returncode == 0, done.stderr
    assert (fresh.directory / "results/digits/float32/module.json").is_file()
    assert not (fresh.directory / VARIANT).exists()
    assert not (fresh.directory / "results/digits/reference.npz").exists()


def test_plain_snakemake_makes_the_same_bytes_as_tvmake_make_with_warm_processes(fresh: Project, finished: Project):
    done = fresh.run(*snakemake("--cores", "2", PACKAGE))
    assert done.returncode == 0, done.stderr
    results, of_make = (
        project.hermetic("results/digits/*", "results/digits/float32/**/*") for project in (fresh, finished)
    )
    assert {Path(path).name for path in results} >= {"model.json", "module.params", "mod.so", "mod.json", "package.tar"}
    assert results == {path: of_make[path] for path in results}


def test_a_finished_project_has_nothing_to_do(demo: Project):
    done = demo.run(*snakemake("--dry-run"))
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout + done.stderr


def test_an_error_of_the_start_is_not_followed_by_results_of_an_earlier_run(demo: Project):
    done = demo.make("--default-storage-provider", "s3x")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: plugin 's3x': is not installed\n  pip install snakemake-storage-plugin-s3x\n"


def test_a_dry_run_writes_nothing(fresh: Project):
    done = fresh.run(*snakemake("--dry-run", "--quiet"))
    assert done.returncode == 0, done.stderr
    assert fresh.files("results/**/*") == fresh.files("logs/**/*") == {}


def test_every_job_has_a_log_that_ends_with_what_it_used(finished: Project):
    stages = {"import": "digits/", "reference": "digits/", "transform": "digits/float32/", "report": ""}
    later = dict.fromkeys(("build", "export", "attest", "deploy", "validate", "benchmark"), "digits/float32/cpu/")
    for stage, log_prefix in (stages | later).items():
        used = json.loads((finished.directory / f"logs/{log_prefix}{stage}.log").read_text().splitlines()[-1])
        assert used["stage"].startswith(stage)
        assert used["exit"] == 0
        assert used["wall_s"] > 0
        assert used["peak_memory_mb"] > 10


def test_snakemakes_own_report_is_made(single: Project):
    done = single.run(*snakemake("--report", "run.html"))
    assert done.returncode == 0, done.stderr
    whole = (single.directory / "run.html").read_text()
    results = json.loads(re.search(r"var results = (\{.*?\});?\n", whole, re.DOTALL).group(1))
    held = {Path(result["name"]).name: result for result in results.values()}
    assert held.keys() == {"summary.csv", "index.html"}
    assert "One row for each variant" in held["summary.csv"]["caption"]
    page = held["index.html"]["data_uri"]
    assert "Variant by variant" in base64.b64decode(page.partition(",")[2]).decode()


def test_keep_going_comes_from_the_profile_and_finishes_the_good_model(single: Project):
    (single.directory / "broken.onnx").write_bytes(b"not a model")
    single.edit("models.broken", {"source": "broken.onnx"})
    (single.directory / VARIANT / "latency.json").unlink()
    done = single.run(*snakemake())
    assert done.returncode == 1
    assert "broken.onnx: not an ONNX model" in done.stdout + done.stderr
    assert (single.directory / VARIANT / "latency.json").is_file()


def snippets() -> list[str]:
    """The guide's code blocks, in order."""
    return [part.partition("\n")[2] for part in GUIDE.read_text().split("```")[1::2]]


@pytest.mark.parametrize("results", ["tuned/results"])
def test_another_workflow_uses_the_rules_as_the_guide_says(tmp_path: Path, results: str):
    app = Project(tmp_path / "app")
    app.environment[DIRECTORY] = shared.directory()
    app.directory.mkdir()
    for name in ("digits.onnx", "digits-test.npz"):
        shutil.copy(ROOT / "resources" / name, app.directory / name)
    config, workflow, *_ = snippets()
    (app.directory / "config.yaml").write_text(config.replace("results: results", f"results: {results}"))
    (app.directory / "Snakefile").write_text(workflow.replace('"results/', f'"{results}/'))
    done = app.run("snakemake", "--cores", "2")
    assert done.returncode == 0, done.stderr
    assert (app.directory / "app.tar").read_bytes() == (
        app.directory / results / "digits/float32/cpu/package.tar"
    ).read_bytes()
    again = app.run("snakemake", "--cores", "2", "--dry-run")
    assert "Nothing to be done" in again.stdout + again.stderr
    everything = app.run("snakemake", "--cores", "2", "--dry-run", "tvmake_all")
    assert "tvmake_report" in everything.stdout


def host(directory: Path, *rules: str) -> Project:
    """A workflow with tvmake's rules as a module, as in the guide, and additional rules."""
    app = Project(directory)
    app.environment[DIRECTORY] = shared.directory()
    app.directory.mkdir()
    for name in ("digits.onnx", "digits-test.npz"):
        shutil.copy(ROOT / "resources" / name, app.directory / name)
    config, workflow, *_ = snippets()
    (app.directory / "config.yaml").write_text(config)
    (app.directory / "Snakefile").write_text("\n".join([workflow, *rules]))
    return app


SECOND = """
module second:
    snakefile: str(snakefile())
    config: config["second"]

use rule * from second as second_*
"""


def test_two_modules_of_one_workflow_need_logs_of_their_own(tmp_path: Path):
    app = host(tmp_path / "app", SECOND)
    section = yaml.safe_load((app.directory / "config.yaml").read_text())["tvmake"]
    second = {**section, "results": "second/results"}
    dry = ("snakemake", "--cores", "2", "--dry-run", "results/digits/float32/module.json")
    for logs, expected in ((None, 1), ("second/logs", 0)):
        own = {**second, "logs": logs} if logs else second
        (app.directory / "config.yaml").write_text(yaml.safe_dump({"tvmake": section, "second": own}))
        done = app.run(*dry, "second/results/digits/float32/module.json")
        said = done.stdout + done.stderr
        assert done.returncode == expected, said
        if expected:
            assert "logs: logs: the config with `results: results` writes its logs there too" in said
        else:
            assert {"logs/digits/import.log", "second/logs/digits/import.log"} <= set(re.findall(r"[\w/]+\.log", said))


COPY = """
rule copy:
    input: "in.txt"
    output: "out.txt"
    shell: "cp {input} {output}"
"""


def ran(app: Project, *arguments: str) -> set[str]:
    """The rules with jobs in a run of snakemake, from its table of jobs."""
    done = app.run("snakemake", "--cores", "2", *arguments)
    assert done.returncode == 0, done.stderr
    jobs = re.findall(r"^(\w+) +\d+$", done.stderr + done.stdout, flags=re.MULTILINE)
    return set(jobs) - {"total"}


def with_its_time(file: Path, change: Callable[[], object]) -> None:
    """Change a file and keep its time, as with ``cp -p``."""
    before = file.stat()
    change()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_in_another_workflow_content_decides_for_tvmakes_rules_and_time_for_its_own(tmp_path: Path):
    app = host(tmp_path / "app", COPY)
    (app.directory / "in.txt").write_text("one")
    assert "tvmake_export" in ran(app, PACKAGE, "out.txt")
    model, text = app.directory / "digits.onnx", app.directory / "in.txt"
    assert ran(app, "--dry-run", PACKAGE, "out.txt") == set()
    with_its_time(model, lambda: changed_weights(model, model))
    with_its_time(text, lambda: text.write_text("two"))
    assert ran(app, "--dry-run", PACKAGE, "out.txt") == {
        "tvmake_import_model", "tvmake_self_test", "tvmake_transform", "tvmake_build", "tvmake_export",
    }  # fmt: skip
    os.utime(text)
    assert "copy" in ran(app, "--dry-run", PACKAGE, "out.txt")


MAKE_MODEL = """
rule train:
    input: "weights.onnx"
    output: "digits.onnx"
    shell: "cp {input} {output}"
"""


def test_a_model_that_a_rule_of_another_workflow_makes_is_imported_in_the_same_run(tmp_path: Path):
    app = host(tmp_path / "app", MAKE_MODEL)
    weights = app.directory / "weights.onnx"
    (app.directory / "digits.onnx").rename(weights)
    assert {"train", "tvmake_import_model", "tvmake_export"} <= ran(app, PACKAGE)
    assert ran(app, "--dry-run", PACKAGE) == set()
    before = (app.directory / PACKAGE).read_bytes()
    changed_weights(weights, weights)
    assert {"train", "tvmake_import_model", "tvmake_export"} <= ran(app, PACKAGE)
    assert (app.directory / PACKAGE).read_bytes() != before
    assert ran(app, "--dry-run", PACKAGE) == set()


def test_in_another_workflow_a_model_that_is_not_there_is_named_by_its_key(tmp_path: Path):
    app = host(tmp_path / "app", COPY)
    (app.directory / "digits.onnx").unlink()
    done = app.run("snakemake", "--cores", "2", "--dry-run", PACKAGE)
    assert done.returncode != 0
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert notes == [
        "note: models.digits.source: no such file: digits.onnx, unless a rule makes it; "
        f"relative paths start in {app.directory}"
    ]
