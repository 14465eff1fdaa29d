"""What ``tvmake make`` leaves out of Snakemake's planning changes nothing of what is planned."""

import re
import subprocess
import sys
from pathlib import Path

from tests.workflow.plain_snakemake import snakemake
from tests.workflow.project import Project


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


def test_an_output_inside_the_directory_that_another_rule_makes_is_refused(tmp_path: Path):
    (tmp_path / "Snakefile").write_text(INSIDE)
    refusals = set()
    for how in ("plain", "lean"):
        code, said, _ = planned(how, tmp_path, "--dry-run")
        assert code == 1
        refusals.add(said.partition("ChildIOException")[2])
    assert len(refusals) == 1
    assert str(tmp_path / "made" / "inside") in refusals.pop()


def rules_with_reasons(said: str) -> list[tuple[str, ...]]:
    """What a dry run of Snakemake's says of each job's files and reason, in any order."""
    jobs = re.findall(r"^(?:local)?(?:rule|checkpoint) \w+:\n(?:    .+\n?)+", said, flags=re.MULTILINE)
    compared = re.compile(r"\w|    (input|output|log|wildcards|reason): ")
    lines = [[line for line in job.splitlines() if compared.match(line)] for job in jobs]
    return sorted((job[0], *(" ".join(sorted(re.split("[ ,;]+", line))) for line in job[1:])) for job in lines)


def files_under(directory: Path) -> dict[str, str]:
    """What a run has made."""
    made = (path for path in directory.rglob("*") if path.is_file() and ".snakemake" not in path.parts)
    return {str(path.relative_to(directory)): path.read_text() for path in made if path.suffix not in (".tsv", ".log")}


def test_a_workflow_with_all_kinds_of_files_is_planned_and_made_alike(tmp_path: Path):
    plans: dict[str, list[list[tuple[str, ...]]]] = {"plain": [], "lean": []}
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
    at_first, at_work, afterwards, changed = plans["lean"]
    alone = ("all", "both", "folder", "gather", "left", "right", "right", "touched")  # the pipe's two are a group
    assert sorted(job[0] for job in at_first) == ["checkpoint parts:", *(f"rule {name}:" for name in alone)]
    assert len(at_work) == len(at_first) + 2, "the checkpoint's parts are seen"
    assert not afterwards
    assert {job[0] for job in changed} >= {"rule left:", "rule touched:", "rule right:"}


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


def test_a_circle_is_refused(tmp_path: Path):
    (tmp_path / "Snakefile").write_text(CIRCLE)
    refusals = set()
    for how in ("plain", "lean"):
        code, said, _ = planned(how, tmp_path, "--dry-run")
        assert code == 1
        refusals.add(said.partition("CyclicGraphException")[2])
    assert len(refusals) == 1
    assert "first" in refusals.pop()
