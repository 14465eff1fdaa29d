"""The jobs that start next: all that fit, higher priorities first, in any order of arrival."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflow.project import Project, new_project
from tvmake.engine.scheduler import jobs_that_fit


@dataclass(eq=False)
class Job:
    """Snakemake's description of a job."""

    name: str = "tune"
    target: str | None = "phone"
    scheduler_resources: dict[str, int] = field(default_factory=lambda: {"_cores": 1})
    priority: int = 0
    grouped: bool = False

    @property
    def wildcards_dict(self) -> dict[str, str]:
        return {"target": self.target} if self.target else {}

    def is_group(self) -> bool:
        return self.grouped


def needs(cores: int = 1, **others: int) -> dict[str, int]:
    return {"_cores": cores, **others}


def test_jobs_start_while_there_are_cores():
    jobs = [Job() for _ in range(5)]
    assert jobs_that_fit(jobs, {"_cores": 3}) == jobs[:3]


def test_a_job_that_waits_for_its_phone_keeps_nobody_else_waiting():
    tune = [Job(scheduler_resources=needs(device_phone=1)) for _ in range(3)]
    build = Job("build", scheduler_resources=needs())
    other = Job(target="tablet", scheduler_resources=needs(device_tablet=1))
    chosen = jobs_that_fit([*tune, build, other], {"_cores": 4, "device_phone": 1, "device_tablet": 1})
    assert chosen == [tune[0], build, other]


def test_a_small_model_starts_where_a_large_one_of_its_kind_has_no_memory():
    large, small = (Job("build", scheduler_resources=needs(mem_mb=size)) for size in (8000, 500))
    assert jobs_that_fit([large, small], {"_cores": 2, "mem_mb": 1000}) == [small]


def test_the_urgent_ones_start_first():
    last, first = Job("build"), Job("report", priority=5)
    assert jobs_that_fit([last, first], {"_cores": 1}) == [first]


def test_groups_are_considered_one_by_one():
    jobs = [Job("cheap", None, needs(cores=cores), grouped=True) for cores in (3, 1)]
    assert jobs_that_fit(jobs, {"_cores": 2}) == [jobs[1]]


NAMES = ("_cores", "mem_mb", "device_phone")
KINDS = {
    ("tune", "phone"): needs(1, device_phone=1),
    ("tune", "cpu"): needs(2),
    ("build", "phone"): needs(1),
    ("report", None): needs(1),
}


@given(
    st.lists(st.tuples(st.sampled_from(sorted(KINDS, key=str)), st.integers(0, 900), st.integers(0, 2)), max_size=30),
    st.tuples(st.integers(0, 6), st.integers(0, 3000), st.integers(0, 2)),
)
def test_never_more_than_there_is_and_nothing_idle(drawn: list, there: tuple[int, int, int]):
    jobs = [Job(*kind, {**KINDS[kind], "mem_mb": memory}, priority) for kind, memory, priority in drawn]
    free = dict(zip(NAMES, there, strict=True))
    chosen = jobs_that_fit(jobs, free)
    left = {name: free[name] - sum(job.scheduler_resources.get(name, 0) for job in chosen) for name in NAMES}
    assert min(left.values()) >= 0
    assert len(set(map(id, chosen))) == len(chosen)
    for job in jobs:
        if job not in chosen:
            assert any(job.scheduler_resources.get(name, 0) > left[name] for name in NAMES)


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    """A project that has not run yet."""
    return new_project(tmp_path / "project")


SHOWN = """
import sys
from tvmake.cli import main
from tvmake.engine import scheduler

fit = scheduler.jobs_that_fit

def shown(jobs, free):
    chosen = fit(jobs, free)
    print("chosen here:", *(job.name for job in chosen), file=sys.stderr)
    return chosen

scheduler.jobs_that_fit = shown
main()
"""


def test_a_run_chooses_its_jobs_this_way(fresh: Project):
    done = fresh.run(sys.executable, "-c", SHOWN, "make", "--until", "import_model")
    assert done.returncode == 0, done.stderr
    assert "chosen here: import_model\n" in done.stderr


def test_snakemakes_own_solver_is_to_be_had(fresh: Project):
    done = fresh.make("--until", "import_model", "--scheduler", "ilp")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ import digits" in done.stdout + done.stderr
