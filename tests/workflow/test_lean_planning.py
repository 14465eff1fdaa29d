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
from tvmake import lean_planning
from snakemake.cli import main
from snakemake.dag import DAG

steps = 0
def counted(*arguments, jobs_from=DAG.bfs, **options):
    global steps
    for job in jobs_from(*arguments, **options):
        steps += 1
        yield job

DAG.bfs = lean_planning._jobs_from = counted
if sys.argv.pop(1) == "lean":
    lean_planning.plan_leanly()
try:
    main()
finally:
    print(steps)
"""
"""Snakemake as it is, or as ``tvmake make`` has it plan, with the steps it takes from job to job."""

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


def planned(how: str, directory: Path, *arguments: str) -> tuple[int, str, int]:
    """The exit code, what is said of the workflow in a directory, and the steps from job to job."""
    command = [sys.executable, "-c", LEANLY, how, "--cores", "1", *arguments]
    done = subprocess.run(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    *said, steps = done.stdout.splitlines()
    return done.returncode, "\n".join(said), int(steps.split()[0])


def test_jobs_that_many_changed_ones_lead_to_are_looked_at_once(tmp_path: Path):
    (tmp_path / "Snakefile").write_text(SHARED)
    code, said, _ = planned("plain", tmp_path, "--config", "version=1")
    assert code == 0, said
    counts: dict[str, tuple[dict[str, str], int]] = {}
    for how in ("plain", "lean"):
        code, said, steps = planned(how, tmp_path, "--dry-run", "--config", "version=2")
        assert code == 0, said
        counts[how] = dict(re.findall(r"^(\w+) +(\d+)$", said, flags=re.MULTILINE)), steps
    assert (
        counts["plain"][0]
        == counts["lean"][0]
        == {"all": "1", "leaf": "30", "middle": "30", "root": "30", "total": "91"}
    )
    assert counts["lean"][1] <= 3 * 91
    assert counts["plain"][1] > 30 * 61


def test_an_output_inside_the_directory_that_another_rule_makes_is_refused(tmp_path: Path):
    (tmp_path / "Snakefile").write_text(INSIDE)
    refusals = set()
    for how in ("plain", "lean"):
        code, said, _ = planned(how, tmp_path, "--dry-run")
        assert code == 1
        refusals.add(said.partition("ChildIOException")[2])
    assert len(refusals) == 1
    assert str(tmp_path / "made" / "inside") in refusals.pop()
