"""Rebuilt files with the same content rebuild nothing else."""

import re
import shutil
import sys
from pathlib import Path

import onnx
import pytest

from tests.workflow.plain_snakemake import snakemake
from tests.workflow.project import ROOT, Project
from tvmake.provenance.check import check_package
from tvmake.storage.files import digest_file

pytestmark = pytest.mark.long


def made(project: Project) -> set[str]:
    """The stages that a run of ``tvmake make`` executed."""
    done = project.make()
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"^✓ (\w+)", done.stderr, flags=re.MULTILINE))


def comment(model: Path) -> None:
    """Write a comment into an ONNX file."""
    loaded = onnx.load(model)
    loaded.doc_string = "a comment"
    onnx.save(loaded, model)


def times(project: Project) -> dict[Path, int]:
    """When each job's log was written."""
    return {log: log.stat().st_mtime_ns for log in project.directory.glob("logs/**/*.log")}


COMMENTED = {"import", "reference", "self_test", "attest", "select", "report"}
"""The stages that a comment in the model reruns: those that read its file, or what the import says of it."""

NAMES_THE_FILE = ("source.json", "package.provenance.json", "package.cdx.json")


def without_sources(project: Project) -> dict[str, bytes]:
    """Every result, measured ones included, except those that name the model's file."""
    results = project.files("results/digits/**/*")
    return {path: data for path, data in results.items() if Path(path).name not in NAMES_THE_FILE}


def test_a_comment_in_the_model_is_imported_and_nothing_is_built_or_measured_again(single: Project):
    before = without_sources(single)
    assert any(path.endswith("latency.json") for path in before)
    comment(single.directory / "digits.onnx")
    assert made(single) == COMMENTED
    assert without_sources(single) == before
    assert single.planned_rules() == {}
    for package in sorted(single.directory.glob("results/digits/**/package.tar")):
        checked = check_package(package)
        assert checked.source and checked.has_list
        assert checked.source.files == {"digits.onnx": digest_file(single.directory / "digits.onnx")}
    shown = single.run("tvmake", "status", "results")
    assert f"digits: onnx, digits.onnx sha256 {digest_file(single.directory / 'digits.onnx')}\n" in shown.stdout


def test_a_comment_in_the_model_takes_plain_snakemake_the_two_commands_of_the_guide(single: Project):
    before = without_sources(single)
    comment(single.directory / "digits.onnx")
    guide = (ROOT / "docs/concepts/reruns.md").read_text()
    first, second = re.search(r"```\n(snakemake .*/reference.npz .*)\n(snakemake)\n```", guide).groups()
    run = []
    for command in (first, second):
        logs = times(single)
        done = single.run(*snakemake("--cores", "2", *command.split()[1:]))
        assert done.returncode == 0, done.stderr
        run.append({log.stem for log, time in times(single).items() if logs.get(log) != time})
    assert run == [{"import", "reference", "self_test"}, {"attest", "select", "report"}]
    assert without_sources(single) == before
    assert single.planned_rules() == {}


EXPORT = """
import onnx
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3)
        self.register_buffer("scale", torch.arange(2.0).reshape(2, 1, 1))

    def forward(self, image):
        out = torch.relu(self.conv(image))
        return out * self.scale

class Edited(Net):
    def forward(self, image):
        # the same in another form
        planes = self.conv(image)
        return torch.relu(planes) * self.scale

torch.manual_seed(0)
net, images = Net().eval(), (torch.zeros(1, 1, 8, 8),)
edited = Edited().eval()
edited.load_state_dict(net.state_dict())
for name, module in (("first", net), ("second", edited)):
    torch.export.save(torch.export.export(module, images), name + ".pt2")
    torch.onnx.export(module, images, name + ".onnx", dynamo=False)
    # torch's newer exporter, which needs an additional library, writes stack traces here.
    model = onnx.load(name + ".onnx")
    for node in model.graph.node:
        node.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=f"net.py, in {name}")
    onnx.save(model, name + ".onnx")
"""


def test_the_same_torch_module_exported_again_gives_the_same_packages(fresh: Project):
    models = {"archive": {"source": "net.pt2"}, "graph": {"source": "net.onnx"}}
    fresh.write_config({**fresh.config, "models": models, "precisions": ["float32"]})
    exported = fresh.run(sys.executable, "-c", EXPORT)
    assert exported.returncode == 0, exported.stderr

    def packages(name: str) -> dict[str, bytes]:
        """Paths of both files of an export."""
        for suffix in (".pt2", ".onnx"):
            shutil.copy(fresh.directory / f"{name}{suffix}", fresh.directory / f"net{suffix}")
        done = fresh.make(*(f"results/{model}/float32/cpu/package.tar" for model in models))
        assert done.returncode == 0, done.stderr
        stages.append(set(re.findall(r"^✓ (\w+)", done.stderr, flags=re.MULTILINE)))
        return fresh.files("results/**/package.tar")

    stages: list[set[str]] = []
    files = fresh.files("*.pt2") | fresh.files("*.onnx")
    assert files["first.pt2"] != files["second.pt2"] and files["first.onnx"] != files["second.onnx"]
    assert packages("first") == packages("second") != {}
    assert stages == [{"import", "self_test", "transform", "build", "export"}, {"import", "self_test"}]


@pytest.mark.soak
def test_another_release_of_a_stage_that_gives_the_same_files_goes_no_further(single: Project, tmp_path: Path):
    shutil.copytree(ROOT / "workflow", tmp_path / "workflow")
    for name in ("rules", "profiles", "envs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "Snakefile", tmp_path / "Snakefile")
    single.environment["PYTHONPATH"] = str(tmp_path / "workflow")
    with (tmp_path / "workflow/tvmake/transform/precision.py").open("a") as file:
        file.write("\n# changed\n")
    assert made(single) == {"transform"}
    assert single.planned_rules() == {}
