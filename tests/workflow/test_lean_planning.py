"""What ``tvmake make`` leaves out of Snakemake's planning changes nothing of what is planned."""

import re

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
