"""A project whose packages have several functions over the same weights, from the config to the best package."""

import shutil
import tarfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from tests.frontend.onnx import models
from tests.workflow.project import Project
from tvmake.artifact.functions import FunctionsManifest
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.weights.tensors import load_params

pytestmark = pytest.mark.long

WEIGHTS = {"table": models.random(512, 256), "first": models.random(256, 256), "last": models.random(256, 256, seed=1)}
JOINED = "results/net/float32/cpu"
FUNCTIONS = {"decode": 1, "encode": 24}
"""The rows of each function of ``net``: tiles for these have different widths."""


def network(rows: int, prefix: str) -> onnx.ModelProto:
    """An embedding and two matmuls over shared weights, under names of its own."""
    table, first, last = (f"{prefix}.{name}" for name in WEIGHTS)
    nodes = [
        helper.make_node("Gather", [table, "ids"], ["x"]),
        helper.make_node("MatMul", ["x", first], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", last], ["y"]),
    ]
    weights = {f"{prefix}.{name}": value for name, value in WEIGHTS.items()}
    return models.model(nodes, {"ids": (onnx.TensorProto.INT64, [rows])}, ["y"], weights)


class Head(torch.nn.Module):
    """What both functions of a PyTorch network compute."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(64, 128)
        self.project = torch.nn.Linear(128, 256)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """One row for each index."""
        return torch.tanh(self.project(self.table(ids)))


class Encoder(torch.nn.Module):
    """The head, and a layer of its own."""

    def __init__(self, head: Head):
        super().__init__()
        self.head, self.more = head, torch.nn.Linear(256, 16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """One row for each index."""
        return self.more(self.head(ids))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    directory = tmp_path_factory.mktemp("functions") / "project"
    directory.mkdir()
    for name, rows in FUNCTIONS.items():
        onnx.save(network(rows, name), directory / f"{name}.onnx")
    torch.manual_seed(0)
    head = Head().eval()
    for name, module, rows in (("step", head, 1), ("whole", Encoder(head).eval(), 12)):
        torch.export.save(torch.export.export(module, (torch.arange(rows),)), directory / f"{name}.pt2")
    project = Project(directory)
    project.write_config(
        {
            "models": {
                "net": {"targets": ["cpu"], "functions": {name: {"source": f"{name}.onnx"} for name in FUNCTIONS}},
                "split": {
                    "targets": ["portable"],
                    "functions": {name: {"source": f"{name}.pt2"} for name in ("step", "whole")},
                },
            },
            "targets": {
                "cpu": {"kind": "llvm", "mcpu": "native", "device": "local"},
                "portable": {"kind": "llvm", "mcpu": "x86-64-v3"},
            },
            "validation": {"samples": 2},
            "export": {"self_test": {"samples": 1}},
            "benchmark": {"repeat": 3, "warmup": 1, "baseline": False},
        }
    )
    done = project.make()
    assert done.returncode == 0, done.stderr
    assert f"joined:   {JOINED}/package.tar" in done.stdout
    return project


def members(package: Path) -> dict[str, bytes]:
    with tarfile.open(package) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


@pytest.mark.parametrize("joined", [JOINED, "results/split/float32/portable"])
def test_a_package_has_each_distinct_weight_once(project: Project, joined: str):
    record = project.result(f"{joined}/joined.json")
    assert record["params_bytes"] <= 1.02 * record["distinct_bytes"]


def test_functions_of_other_lengths_share_packed_weights(project: Project):
    manifest = FunctionsManifest.model_validate_json(members(project.directory / JOINED / "package.tar")["mod.json"])
    decode, encode = manifest.functions
    assert sorted(decode.weights) == sorted(encode.weights)
    assert sum(name.endswith("_packed") for name in decode.weights) == 2


def test_the_package_has_the_files_of_its_functions_unchanged(project: Project, tmp_path: Path):
    files = members(project.directory / JOINED / "package.tar")
    manifest = FunctionsManifest.model_validate_json(files["mod.json"])
    assert manifest.is_intact
    assert (manifest.model, manifest.precision, manifest.target_name) == ("net", "float32", "cpu")
    (tmp_path / "mod.params").write_bytes(files["mod.params"])
    weights = load_params(tmp_path / "mod.params")
    for function in manifest.functions:
        single = members(project.directory / f"results/net.{function.name}/float32/cpu/package.tar")
        for name in ("mod.json", "mod.so", "self_test.npz"):
            assert files[f"{function.name}/{name}"] == single[name]
        (tmp_path / "single.params").write_bytes(single["mod.params"])
        own = load_params(tmp_path / "single.params")
        parameters = Manifest.model_validate_json(single["mod.json"]).parameters
        for name, parameter in zip(function.weights, parameters, strict=True):
            np.testing.assert_array_equal(weights[name].numpy(), own[parameter.name].numpy())


def test_pack_joins_the_same_bytes(project: Project, tmp_path: Path):
    packages = [f"{name}=results/net.{name}/float32/cpu/package.tar" for name in FUNCTIONS]
    done = project.run("tvmake", "pack", *packages, "--model", "net", "-o", str(tmp_path / "net.tar"))
    assert done.returncode == 0, done.stderr
    assert "functions decode, encode; " in done.stdout
    assert (tmp_path / "net.tar").read_bytes() == (project.directory / JOINED / "package.tar").read_bytes()


def test_the_best_package_is_the_joined_one(project: Project):
    choice = project.result("results/best/net/local/choice.json")
    assert (choice["chosen"], choice["package"]) == ("net/float32/cpu", "net/float32/cpu/package.tar")
    best = project.directory / "results/best/net/local/package.tar"
    assert best.read_bytes() == (project.directory / JOINED / "package.tar").read_bytes()
    assert not (project.directory / "results/best/net.decode").exists()
    summary = project.result("results/summary.json")
    assert {row["model"]: row["best"] for row in summary["rows"]} == {
        "net.decode": True, "net.encode": True, "split.step": True, "split.whole": True,
    }  # fmt: skip
    assert [(row["model"], row["best"], row["package_sha256"] is not None) for row in summary["packages"]] == [
        ("net", True, True),
        ("split", True, True),
    ]


AFTER_BUILD = {"export": 1, "attest": 1, "deploy": 1, "validate": 1, "benchmark": 1, "select": 1, "report": 1}
CHANGES = [
    ("models.net.functions.encode.build", {"dump": ["ll"]}, {"build": 1, "join": 1, **AFTER_BUILD}),
    ("models.net.functions.encode.validation", {"samples": 3}, {"reference": 1, "validate": 1, "benchmark": 1, "select": 1, "report": 1}),
    # Another layout of weights would be that of the other function, too.
    ("models.net.functions.decode.build", {"dump": ["ll"]}, {**dict.fromkeys(("build", "export", "attest", "deploy", "validate", "benchmark"), 2), "join": 1, "select": 1, "report": 1}),
    ("models.net.export", {"self_test": False}, {**dict.fromkeys(("export", "attest", "deploy", "validate", "benchmark"), 2), "join": 1, "select": 1, "report": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "expected"), CHANGES, ids=lambda value: str(value)[:40])
def test_a_change_reruns_what_depends_on_the_function(
    project: Project, tmp_path: Path, key: str, value: object, expected: dict[str, int]
):
    copied = copy_of(project, tmp_path)
    copied.edit(key, value)
    assert copied.planned_rules() == expected


def test_removed_packages_are_joined_again_with_the_same_bytes(project: Project, tmp_path: Path):
    copied = copy_of(project, tmp_path)
    before = (copied.directory / JOINED / "package.tar").read_bytes()
    shutil.rmtree(copied.directory / "results/net")
    assert copied.planned_rules("net") == {"join": 1}
    assert copied.planned_rules("net.encode") == {}
    done = copied.make("net/float32/cpu")
    assert done.returncode == 0, done.stderr
    assert (copied.directory / JOINED / "package.tar").read_bytes() == before


def test_a_failed_function_costs_the_others_only_the_package(project: Project, tmp_path: Path):
    copied = copy_of(project, tmp_path)
    normalizer = helper.make_node("StringNormalizer", ["x"], ["y"])
    onnx.save(models.model([normalizer], {"x": (onnx.TensorProto.STRING, [1])}, ["y"]), copied.directory / "text.onnx")
    copied.edit("models.net.functions.encode.source", "text.onnx")
    done = copied.make()
    assert done.returncode != 0
    summary = copied.result("results/summary.json")
    assert {row["model"]: row["verdict"] for row in summary["rows"]} == {
        "net.decode": "pass", "net.encode": "failed", "split.step": "pass", "split.whole": "pass",
    }  # fmt: skip
    (package, _) = summary["packages"]
    assert package["package"] is None
    assert package["cause"].startswith("net.encode/float32/cpu: import: text.onnx: input 'x' has element type string")
    assert "net/float32/cpu: no package with decode, encode: net.encode/float32/cpu: import" in done.stdout
    choice = copied.result("results/best/net/local/choice.json")
    assert choice["chosen"] is None
    assert choice["losers"][0]["reason"].startswith("net.encode: failed at import: text.onnx")


def test_functions_whose_layout_owner_failed_say_so(project: Project, tmp_path: Path):
    copied = copy_of(project, tmp_path)
    normalizer = helper.make_node("StringNormalizer", ["x"], ["y"])
    onnx.save(models.model([normalizer], {"x": (onnx.TensorProto.STRING, [1])}, ["y"]), copied.directory / "text.onnx")
    copied.edit("models.net.functions.decode.source", "text.onnx")
    shutil.rmtree(copied.directory / "results/net.encode/float32/cpu")
    assert copied.make().returncode != 0
    summary = copied.result("results/summary.json")
    (row,) = (row for row in summary["rows"] if row["model"] == "net.encode")
    assert (row["verdict"], row["stage"]) == ("not made", "build")
    assert row["cause"] == "it follows the layout of weights of net.decode, which failed"
    assert row["remedy"] == "correct net.decode, or name another function first in `functions`"
    assert {row["model"] for row in summary["rows"] if row["verdict"] == "pass"} == {"split.step", "split.whole"}


def test_stale_results_of_a_model_without_functions_are_removed_and_joined_ones_kept(project: Project, tmp_path: Path):
    copied = copy_of(project, tmp_path)
    assert "nothing is stale" in copied.run("tvmake", "clean", "--stale").stdout
    copied.edit("models.net", {"source": "decode.onnx", "targets": ["cpu"]})
    listed = copied.run("tvmake", "clean", "--stale").stdout
    assert "results/net.decode/" in listed


def copy_of(project: Project, directory: Path) -> Project:
    shutil.copytree(project.directory, directory / "project", symlinks=True)
    return Project(directory / "project")
