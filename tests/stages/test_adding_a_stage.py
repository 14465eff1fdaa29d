"""A stage is added with one module and one rule file of a few lines: those in the guide, in a copy of the tree."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.workflow import preloaded

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs/guides/add-a-stage.md"
FILE = "results/digits/float32/operators.json"

CONFIG = {
    "models": {"digits": {"source": "digits.onnx"}},
    "precisions": ["float32"],
    "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}},
    "cache": {"where": "cache"},
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree with an additional stage."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("workflow/tvmake", "rules", "config", "profiles", "envs", "native"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    shutil.copy(ROOT / "Snakefile", tree)
    module, rule = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(rule.splitlines()) < 20
    (tree / "workflow/tvmake/stages/model/operators.py").write_text(module)
    (tree / "rules/operators.smk").write_text(rule)
    return tree


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose stage has run."""
    directory = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "resources/digits.onnx", directory)
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(CONFIG))
    return directory


def tvmake(tree: Path, project: Path, *arguments: str) -> str:
    """Run a command of the copy; returns its output."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "workflow"), "TVMAKE_HOME": str(project / "home")}
    done = preloaded.run([*arguments], project, environment, warm=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_stage_of_one_module_and_one_rule_file_is_made_cleaned_and_cached(tree: Path, project: Path):
    assert "operators digits float32" in tvmake(tree, project, "make", FILE)
    made = (project / FILE).read_bytes()
    assert json.loads(made)["calls"]["nn.conv2d"] > 0
    log = (project / "logs/digits/float32/operators.log").read_text()
    assert f"{sum(json.loads(made)['calls'].values())} calls" in log

    assert "nothing to do" in tvmake(tree, project, "make", "-n", FILE)
    assert "operators.json" not in tvmake(tree, project, "clean", "--stale")
    tvmake(tree, project, "clean", "--yes")
    assert not (project / FILE).exists() and not (project / "logs/digits").exists()

    assert re.search(r"operators digits float32.*from the cache", tvmake(tree, project, "make", FILE))
    assert (project / FILE).read_bytes() == made

    config = {**CONFIG, "transform": {"fold_batch_norm": False}}
    (project / "tvmake.yaml").write_text(yaml.safe_dump(config))
    assert "would operators digits float32" in tvmake(tree, project, "make", "-n", FILE)


def test_what_the_config_no_longer_has_is_stale(tree: Path, project: Path):
    stale = project / "results/gone/float32/operators.json"
    stale.parent.mkdir(parents=True)
    stale.touch()
    assert "results/gone/float32/operators.json" in tvmake(tree, project, "clean", "--stale")


def test_its_command_and_its_job_follow_from_the_descriptor(tree: Path, project: Path):
    assert "--operators" in tvmake(tree, project, "step", "operators", "--help")
    program = (
        "from pathlib import Path; from tvmake.config.reading.load import load; from tvmake.plan.plan import Plan;"
        "from tvmake.stages.registry import stages, goal_stages; import sys;"
        "plan = Plan(load([Path('tvmake.yaml')]));"
        "print(list(stages()).index('operators') > list(stages()).index('transform'), 'operators' in goal_stages(),"
        " plan.options('operators', plan.variants[0]), plan.results_of('operators.json'), 'tvm' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tree / "workflow")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False", '{"folded":false}', f"['{FILE}']", "False"]
