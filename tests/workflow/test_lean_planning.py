"""What ``tvmake make`` leaves out of Snakemake's planning changes nothing of what is planned."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake.api  # its modules import each other, which works from this one on
from hypothesis import given
from hypothesis import strategies as st
from snakemake.io import _IOFile
from snakemake.output_index import OutputIndex

from tests.workflow.plain_snakemake import snakemake
from tests.workflow.project import Project
from tvmake import lean_planning


def planned_by_snakemake(project: Project) -> dict[str, int]:
    """Jobs by the first word of what announces them, those in groups too."""
    done = project.run(*snakemake("--dry-run"))
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = {}
    for rule in re.findall(r"^ *Job \d+: (\w+)", done.stdout + done.stderr, flags=re.MULTILINE):
        counts[rule] = counts.get(rule, 0) + 1
    return counts


def test_the_same_jobs_are_planned_as_by_snakemake(fresh: Project):
    planned = planned_by_snakemake(fresh)
    assert planned["build"] == 2
    assert fresh.planned_rules() == planned


def test_after_a_change_too(demo: Project):
    demo.edit("build.opt_level", 2)
    assert demo.planned_rules() == planned_by_snakemake(demo)


def test_a_job_is_named_by_its_message_with_its_reason(fresh: Project):
    said = fresh.make("--dry-run").stderr.splitlines()
    assert "would build digits float32 cpu  (not made yet, its inputs change)" in said
    assert "would report  (not made yet, its inputs change)" in said


LEANLY = """
import sys
from tvmake import lean_files, lean_planning
from snakemake.cli import main
from snakemake.dag import DAG
from snakemake.jobs import Job
from snakemake.output_index import OutputIndex

steps = lookups = 0
def counted(*arguments, jobs_from=DAG.bfs, **options):
    global steps
    for job in jobs_from(*arguments, **options):
        steps += 1
        yield job

def looked_up(self, file, look_up=OutputIndex.match_producers):
    global lookups
    lookups += 1
    return look_up(self, file)

DAG.bfs = lean_planning._jobs_from = counted
OutputIndex.match_producers = looked_up
if sys.argv.pop(1) == "lean":
    lean_files.ask_about_files_leanly()
    lean_planning.plan_leanly()
    Job.log_info = lean_planning._say_all  # what it says instead is for tvmake's own handler
try:
    main()
finally:
    print(steps, lookups)
"""
"""Snakemake as it is, or as ``tvmake make`` has it plan, with the steps it takes from job to job, and how often it looks up which
rules make a file."""

SHARED = """
rule all:
    input: expand("leaf{number}", number=range(30))

rule root:
    output: "root{number}"
    params: version=config["version"]
    shell: "touch {output}"

rule middle:
    input: expand("root{number}", number=range(30))
    output: "middle{number}"
    shell: "touch {output}"

rule leaf:
    input: "middle{number}"
    output: "leaf{number}"
    shell: "touch {output}"
"""
"""What a target's models share: all that follows needs each of 30 roots."""

INSIDE = """
rule all:
    input: "made/inside", "made"

rule outer:
    output: directory("made")
    shell: "mkdir made"

rule inner:
    output: "made/inside"
    shell: "touch {output}"
"""


ALL_KINDS = """
configfile: "config.yaml"

rule all:
    input:
        "<results>/all.txt", expand("{kind}.done", kind=["touched", "piped"]), branch(True, then="one.a", otherwise="none")

rule gather:
    input:
        unpack(lambda wildcards: {"left": "left.txt", "right": ["right0.txt", "right1.txt"]}),
        folder="folder",
        old=ancient("old.txt"),
    output: protected("<results>/all.txt")
    log: "logs/gather.log"
    benchmark: "logs/gather.tsv"
    shell: "cat {input.left} {input.right} {input.folder}/inside {input.old} > {output} 2> {log}"

rule left:
    input: parts=lambda wildcards: sorted(set(glob_wildcards(checkpoints.parts.get().output[0] + "/{part}.part").part))
    output: "left.txt"
    params: version=config["version"]
    shell: "echo {input.parts} {params.version} > {output}"

rule part:
    input: "parts/{part}.part"
    output: temp("{part,[a-z]+}")
    shell: "cp {input} {output}"

checkpoint parts:
    output: directory("parts")
    shell: "mkdir parts; touch parts/first.part parts/second.part"

rule right:
    output: "right{number,[0-9]}.txt"
    params: percent="100%", number=lambda wildcards, output: wildcards.number + output[0]
    shell: "echo {params.percent} {params.number} > {output}"

rule folder:
    output: directory("folder")
    shell: "mkdir folder; touch folder/inside"

rule touched:
    input: "one.a", "one.b"
    output: touch("touched.done")

rule both:
    output: multiext("one", ".a", ".b")
    shell: "touch {output}"

rule writer:
    output: pipe("stream")
    shell: "echo text > {output}"

rule reader:
    input: "stream"
    output: "piped.done"
    shell: "cat {input} > {output}"
"""
"""A workflow with what Snakemake knows of files."""


def planned(how: str, directory: Path, *arguments: str) -> tuple[int, str, list[int]]:
    """The exit code, what is said of the workflow in a directory, the steps from job to job and the rules looked up."""
    command = [sys.executable, "-c", LEANLY, how, "--cores", "2", *arguments]
    done = subprocess.run(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    *said, counts = done.stdout.splitlines()
    return done.returncode, "\n".join(said), [int(count) for count in counts.split()]


def test_jobs_that_many_changed_ones_lead_to_are_looked_at_once(tmp_path: Path):
    (tmp_path / "Snakefile").write_text(SHARED)
    code, said, _ = planned("plain", tmp_path, "--config", "version=1")
    assert code == 0, said
    counts: dict[str, tuple[dict[str, str], list[int]]] = {}
    for how in ("plain", "lean"):
        code, said, looks = planned(how, tmp_path, "--dry-run", "--config", "version=2")
        assert code == 0, said
        counts[how] = dict(re.findall(r"^(\w+) +(\d+)$", said, flags=re.MULTILINE)), looks
    assert (
        counts["plain"][0]
        == counts["lean"][0]
        == {"all": "1", "leaf": "30", "middle": "30", "root": "30", "total": "91"}
    )
    assert counts["lean"][1][0] <= 3 * 91
    assert counts["plain"][1][0] > 30 * 61
    assert counts["lean"][1][1] == 90, "each file of the 30 leaves is looked up once"
    assert counts["plain"][1][1] > 900


def rules_with_reasons(said: str) -> list[list[str]]:
    """What Snakemake says of each job's files and reason, in any order."""
    told = re.compile(r" *((?:local)?(?:rule|checkpoint) \w+:)\n((?: +\w+: .+\n)+)")
    jobs = [
        (header, re.findall(r" +(input|output|log|wildcards|reason): (.+)", rest))
        for header, rest in told.findall(said)
    ]
    return sorted(
        [header, *(f"{key}: {sorted(re.split('[ ,;]+', value))}" for key, value in rest)] for header, rest in jobs
    )


def files_under(directory: Path) -> dict[str, str]:
    """What a run has made."""
    made = (path for path in directory.rglob("*") if path.is_file() and ".snakemake" not in path.parts)
    return {str(path.relative_to(directory)): path.read_text() for path in made if path.suffix not in (".tsv", ".log")}


def test_a_workflow_with_all_kinds_of_files_is_planned_and_made_alike(tmp_path: Path):
    plans: dict[str, list[list[list[str]]]] = {"plain": [], "lean": []}
    made = []
    for how, planned_so in plans.items():
        directory = tmp_path / how
        directory.mkdir()
        (directory / "Snakefile").write_text(ALL_KINDS)
        (directory / "config.yaml").write_text("version: 1\n")
        (directory / "old.txt").write_text("old\n")
        for arguments in (["--dry-run"], [], ["--dry-run"]):
            code, said, _ = planned(how, directory, *arguments)
            assert code == 0, said
            planned_so.append(rules_with_reasons(said))
        made.append(files_under(directory))
        (directory / "config.yaml").write_text("version: 2\n")  # a parameter, an input and an output
        (directory / "one.a").write_text("newer")
        (directory / "right1.txt").unlink()
        code, said, _ = planned(how, directory, "--dry-run")
        assert code == 0, said
        planned_so.append(rules_with_reasons(said))
    for plain, lean in zip(*plans.values(), strict=True):
        assert lean == plain
    assert made[0] == made[1]
    assert made[0]["left.txt"] == "first second 1\n"
    assert made[0].keys().isdisjoint({"first", "second"}), "temporary"
    at_first, at_work, afterwards, changed = plans["lean"]
    rules = ("all", "both", "folder", "gather", "left", "reader", "right", "right", "touched", "writer")
    assert [job[0] for job in at_first] == ["checkpoint parts:", *(f"rule {name}:" for name in rules)]
    assert len(at_work) == len(at_first) + 2, "the checkpoint's parts are seen"
    assert not afterwards
    assert {job[0] for job in changed} >= {"rule left:", "rule touched:", "rule right:"}


OUTPUTS = (
    "results/{model}/mod.so", "results/{model}/mod.json", "results/{model}.json", "results/{model}/{target}", "{name}",
    "results/all", "all", "logs/{name}/", "{a}/{b}.so", "results/mod.so", "results/{model}/a-mod.so", "x/{model}so",
)  # fmt: skip
FILES = (
    "results/digits/mod.so", "results/digits/cpu/mod.so", "results/digits.json", "results/all", "all", "logs/a", "mod.so",
    "results/mod.so", "results//mod.so", "/mod.so", "x/so", "x/mod.so", "results/a-mod.so", "results/b/a-mod.so", "", "/",
)  # fmt: skip


def found_by(make: Any, match: Any, rules: list[Any]) -> list[set[str]]:
    """Names of the rules that may make each of FILES, as an index says."""
    index = SimpleNamespace()
    make(index, rules)
    return [{rule.name for rule in match(index, file)} for file in FILES]


@given(st.lists(st.lists(st.sampled_from(OUTPUTS), max_size=3), max_size=6))
def test_the_same_rules_may_make_a_file(outputs: list[list[str]]):
    @dataclass(frozen=True)
    class Named:
        name: str
        products: Any

    rules = [
        Named(str(number), lambda names=names: [_IOFile(name, None) for name in names])
        for number, names in enumerate(outputs)
    ]
    found = found_by(lean_planning._index_by_names, lean_planning._rules_that_may_make, rules)
    assert found == found_by(OutputIndex.__init__, OutputIndex.match, rules)
    for number, names in enumerate(outputs):
        for name in names:
            if "{" not in name and name in FILES:
                assert str(number) in found[FILES.index(name)]


CIRCLE = """
rule all:
    input: "first", "second"

rule first:
    input: "second"
    output: "first"
    shell: "touch {output}"

rule second:
    input: "first"
    output: "second"
    shell: "touch {output}"
"""


@pytest.mark.parametrize(("workflow", "error", "named"), [
    (INSIDE, "ChildIOException", "made/inside"), (CIRCLE, "CyclicGraphException", "first"),
])  # fmt: skip
def test_what_cannot_be_planned_is_refused_alike(workflow: str, error: str, named: str, tmp_path: Path):
    (tmp_path / "Snakefile").write_text(workflow)
    refusals = set()
    for how in ("plain", "lean"):
        code, said, _ = planned(how, tmp_path, "--dry-run")
        assert code == 1
        refusals.add(said.partition(error)[2])
    assert len(refusals) == 1
    assert named in refusals.pop()


STOPPED = """
import os, signal, sys
from tvmake import lean_planning
from tvmake.cli import main

number, place = signal.Signals[sys.argv.pop(1)], sys.argv.pop(1)
step = getattr(lean_planning, place)

def stopped(*arguments):
    try:
        return step(*arguments)
    finally:
        os.kill(os.getpid(), number)

setattr(lean_planning, place, stopped)
main()
"""
"""``tvmake``, which gets a signal when Snakemake has set up a plan, or when it has announced a job."""


@pytest.mark.parametrize(("number", "place", "code"), [
    ("SIGINT", "_set_up", 130), ("SIGINT", "_announce", 130), ("SIGTERM", "_announce", 1),
])  # fmt: skip
def test_a_plan_that_is_stopped_is_not_told_as_a_whole_one(number: str, place: str, code: int, fresh: Project):
    done = fresh.run(sys.executable, "-c", STOPPED, number, place, "make", "--dry-run")
    assert done.returncode == code, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("would ")]
    assert len(told) == (place == "_announce")
    assert "nothing to do" not in done.stderr
    assert "jobs would run" not in done.stderr
