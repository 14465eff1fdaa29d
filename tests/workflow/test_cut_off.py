"""What is made again and is as it was before stops there."""

import re
import shutil
from pathlib import Path

import onnx

from tests.workflow.project import ROOT, Project


def made(project: Project) -> set[str]:
    """The stages that a run of ``tvmake make`` went through."""
    done = project.make()
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"^✓ (\w+)", done.stderr, flags=re.MULTILINE))


def test_a_comment_in_the_model_is_imported_and_not_transformed(demo: Project):
    model = onnx.load(demo.directory / "digits.onnx")
    model.doc_string = "a comment"
    onnx.save(model, demo.directory / "digits.onnx")
    stages = made(demo)
    # The package names the model file's digest, so it is another one.
    assert {"import", "build", "export"} <= stages and "transform" not in stages
    assert demo.planned_rules() == {}


def test_another_release_of_a_stage_that_gives_the_same_files_goes_no_further(demo: Project, tmp_path: Path):
    shutil.copytree(ROOT / "workflow", tmp_path / "workflow")
    for name in ("rules", "profiles", "envs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "Snakefile", tmp_path / "Snakefile")
    demo.environment["PYTHONPATH"] = str(tmp_path / "workflow")
    with (tmp_path / "workflow/tvmake/transform/precision.py").open("a") as file:
        file.write("\n# changed\n")
    assert made(demo) == {"transform"}
    assert demo.planned_rules() == {}
