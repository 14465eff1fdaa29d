"""Two checkouts of one project: the second builds nothing hermetic, and its artifacts are the same."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.workflow.plain_snakemake import snakemake
from tests.workflow.project import ROOT, Project, new_project, tuned_project
from tvmake.cache.line import CacheLine, read_lines

VARIANT = "results/digits/float32/cpu"


def said(project: Project) -> list[CacheLine]:
    return [line for log in sorted(project.directory.glob("logs/**/*.log")) for line in read_lines(log.read_text())]


def outcomes(project: Project) -> dict[tuple[str, str], int]:
    return Counter((line.stage, line.cache) for line in said(project))


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Project:
    """A checkout that made a package with a cache; beside it in ``cache``."""
    project = new_project(tmp_path_factory.mktemp("first") / "project")
    project.write_config(
        {**project.config, "precisions": ["float32"], "cache": str(project.directory.parent / "cache")}
    )
    done = project.make(f"{VARIANT}/package.tar")
    assert done.returncode == 0, done.stderr
    return project


@pytest.fixture
def second(first: Project, tmp_path: Path) -> Project:
    """Another checkout with the same cache, elsewhere."""
    project = new_project(tmp_path / "some" / "other place" / "project")
    project.write_config(first.config)
    return project


def test_the_second_checkout_builds_nothing_hermetic_and_has_the_same_bytes(first: Project, second: Project):
    assert outcomes(first) == {(stage, "miss"): 1 for stage in ("import", "transform", "build", "export")}
    assert all(line.stored for line in said(first))
    # Plain snakemake profits too, without a warm process that has TVM loaded.
    done = second.run(*snakemake("--cores", "2", f"{VARIANT}/package.tar"))
    assert done.returncode == 0, done.stderr
    assert outcomes(second) == {(stage, "hit"): 1 for stage in ("import", "transform", "build", "export")}
    made = first.hermetic("results/**/*")
    assert {Path(file).name for file in made} >= {"model.json", "module.params", "mod.so", "mod.json", "package.tar"}
    assert second.hermetic("results/**/*") == made
    log = (second.directory / "logs/digits/float32/cpu/build.log").read_text()
    assert f"taken from the cache {next(line.key for line in said(second) if line.stage == 'build')}\n" in log


def test_make_tells_hits_from_work(second: Project):
    done = second.make("results/digits/model.json")
    assert done.returncode == 0, done.stderr
    assert re.search(r"import digits .*, from the cache$", done.stderr, flags=re.MULTILINE), done.stderr


@pytest.mark.long
def test_another_cache_reruns_nothing(second: Project):
    assert second.make("results/digits/float32/module.json").returncode == 0
    for cache in (None, True, {"where": "elsewhere", "read_only": True, "size_limit": "1 GB"}):
        second.edit("cache", cache)
        assert second.planned_rules("results/digits/float32/module.json") == {}


@pytest.mark.long
def test_without_the_cache_everything_is_made_here(second: Project, first: Project):
    done = second.make("--no-cache", "results/digits/model.json")
    assert done.returncode == 0, done.stderr
    assert said(second) == []
    assert second.files("results/digits/model.*") == first.files("results/digits/model.*")


@pytest.mark.long
def test_a_cache_that_cannot_be_written_is_one_warning_and_the_run_continues(second: Project):
    (second.directory / "file").write_text("")
    second.edit("cache", "file/cache")
    done = second.make("results/digits/model.json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("warning: cache file/cache: cannot be written (Not a directory)") == 1
    second.edit("cache", "file")
    done = second.make("results/digits/model.json")
    assert done.returncode == 1
    assert done.stderr == "error: cache: file: is not a directory\n  name another one\n"


@pytest.mark.long
def test_the_second_checkout_of_a_tuned_project_builds_nothing_hermetic_and_says_so_in_its_summary(tmp_path: Path):
    one = tuned_project(tmp_path / "one" / "project")
    one.edit("cache", str(tmp_path / "cache"))
    one.edit("targets.tuned.tuning.trials_per_kernel", 1)
    one.edit("benchmark.baseline", False)
    assert one.make().returncode == 0
    stages = {"import": 1, "transform": 1, "extract": 1, "build": 2, "export": 2}
    assert outcomes(one) == {(stage, "miss"): count for stage, count in stages.items()}
    two = Project(tmp_path / "two" / "project")
    two.directory.mkdir(parents=True)
    for name in ("digits.onnx", "digits-test.npz", "tvmake.yaml"):
        shutil.copy(one.directory / name, two.directory / name)
    # The records are shared, as `tuning.shared` would.
    shutil.copytree(one.directory.parent / "home" / "records", two.directory.parent / "home" / "records")
    done = two.make()
    assert done.returncode == 0, done.stderr
    assert outcomes(two) == {(stage, "hit"): count for stage, count in stages.items()}
    made = one.hermetic("results/**/*")
    assert {path: data for path, data in two.hermetic("results/**/*").items() if "/tuning/" not in path} == {
        path: data for path, data in made.items() if "/tuning/" not in path
    }
    use = json.loads((two.directory / "results/summary.json").read_text())["cache"]
    assert (use["hits"], use["misses"], use["hit_rate"]) == (7, 0, 1.0)
    assert "cache: 7 of 7 results taken from it (100 %)" in done.stdout
    assert "7 of 7 results taken from it" in (two.directory / "results/index.html").read_text()
    assert ROOT not in (tmp_path / "cache").parents
