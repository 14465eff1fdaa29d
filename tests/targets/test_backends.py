"""Each kind of target has a backend; a new one is a folder and a line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tvm

from tests.targets.adreno_texture.nets import target
from tvmake.cli.machine.targets import targets
from tvmake.codegen.lowering import list_passes
from tvmake.codegen.options import pass_names
from tvmake.errors import InputError
from tvmake.targets.backends import backend_of

ROOT = Path(__file__).resolve().parents[2]

BACKENDS = {
    "llvm": "cpu",
    "c": "plain",
    "cuda-sm90": "cuda",
    "metal": "gpu",
    "opencl-generic": "opencl",
    "mali-bifrost": "opencl",
    "adreno-730-buffer": "adreno-buffer",
    "adreno-730-texture": "adreno-texture",
    "adreno-730-clml": "adreno-clml",
}


def named(name: str) -> "tvm.target.Target":
    return tvm.target.Target(name) if name in ("llvm", "c", "metal") else target(name)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_target_has_the_backend_of_its_kind(name: str):
    assert backend_of(named(name)).name == BACKENDS[name]


@pytest.mark.parametrize("name", BACKENDS)
def test_its_passes_are_listed_under_the_names_that_a_config_knows(name: str):
    phases = list_passes(named(name))
    assert [*phases] == ["graph", "kernels", "schedules", "virtual machine", "each kernel"]
    assert {one for phase in phases.values() for one in phase} - {"(TVM lowers kernels)"} <= pass_names()


def test_the_order_of_passes_is_that_of_a_build():
    graph = list_passes(named("llvm"))["graph"]
    assert graph.index("InlineSlices") < graph.index("ConvertToChannelsLast") < graph.index("ToWinograd")


def test_passes_of_no_target_are_refused():
    with pytest.raises(InputError, match="no such target 'nonsense'"):
        targets("nonsense", passes=True)


BACKEND = '''"""CPUs whose kernels stay plain loops."""

from tvmake.targets.cpu.backend import CpuBackend
from tvmake.targets.passes import ModulePass


class PlainLoopsBackend(CpuBackend):
    """CPUs whose kernels stay plain loops."""

    name = "plain-loops"
    has_rules = False

    def graph_passes(self, context):
        """None but one that changes nothing."""
        return [*self.dispatch_passes(), ModulePass("ChangeNothing", lambda module: module)]

    def schedule_kernels(self, module, target, refused, *, by_rules, widths=None):
        """None."""
        return module, frozenset()
'''

LINE = '    "plain_loops": PlainLoopsBackend(),\n'

IMPORT = "from tvmake.targets.plain_loops.backend import PlainLoopsBackend\n"


def test_a_new_backend_is_a_folder_and_a_line(tmp_path: Path):
    workflow = tmp_path / "workflow"
    for name in ("workflow", "rules", "profiles", "envs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "Snakefile", tmp_path / "Snakefile")
    folder = workflow / "tvmake" / "targets" / "plain_loops"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "backend.py").write_text(BACKEND)
    registry = workflow / "tvmake" / "targets" / "backends.py"
    text = registry.read_text().replace("from tvmake.targets.numbers", f"{IMPORT}from tvmake.targets.numbers", 1)
    registry.write_text(text.replace("BY_KEY: dict[str, Backend] = {\n", f"BY_KEY: dict[str, Backend] = {{\n{LINE}"))

    def tvmake(*arguments: str) -> str:
        code = "import sys; from tvmake.cli import main; sys.exit(main())"
        environment = {**os.environ, "PYTHONPATH": f"{workflow}"}
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    spelt = "llvm -keys=plain_loops"
    assert json.loads(tvmake("targets", spelt, "--passes", "--json"))["graph"][-1] == "ChangeNothing"
    shutil.copyfile(ROOT / "resources" / "digits.onnx", tmp_path / "digits.onnx")
    tvmake("compile", "digits.onnx", "-t", spelt, "-o", "plain.tar")
    assert "[1, 10]" in tvmake("run", "plain.tar")
    manifest = json.loads(subprocess.check_output(["tar", "xOf", tmp_path / "plain.tar", "mod.json"]))
    assert {kernel["scheduled"] for kernel in manifest["kernels"]} == {"default"}
