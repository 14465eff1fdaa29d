"""The fork server of a stage's command, and its preloaded modules, follow from the descriptor."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tvmake.cli.step.warm import server_of
from tvmake.stages.preload import PRELOADS, write_servers
from tvmake.stages.registry import stages


@pytest.fixture
def directory(tmp_path: Path) -> str:
    write_servers(tmp_path)
    return str(tmp_path)


def test_a_step_is_forked_from_its_stages_server(directory: str):
    for stage in stages().values():
        if stage.server != "model":
            assert server_of(["step", stage.name, "x"], directory) == stage.server
            assert stage.server in PRELOADS
    assert {stage.name for stage in stages().values() if stage.server == "tuner"} == {
        "tune",
        "pick_best",
        "choose_layout",
    }


def test_with_records_from_a_lock_nothing_is_searched(directory: str):
    assert server_of(["step", "pick_best", "tasks.json", "--frozen=run.lock"], directory) == "compiler"


@pytest.mark.parametrize(
    ("options", "server"),
    [
        ({"source": "net.onnx"}, "compiler"),
        ({"source": "NET.TFLITE"}, "compiler"),
        ({"source": "net.pt2"}, "torch"),
        ({"source": "zoo:resnet18"}, "torch"),
        ({"source": "my.package:net"}, "torch"),
        ({"source": "net.bin", "format": "onnx"}, "compiler"),
        ({"model": {"source": "net.pt2"}, "samples": 3}, "torch"),
        ({"no": "source"}, "compiler"),
    ],
)
def test_what_reads_models_is_forked_from_the_server_for_their_format(directory: str, options: dict, server: str):
    for stage in ("import", "reference"):
        assert server_of(["step", stage, "--options", json.dumps(options)], directory) == server
    assert server_of(["step", "import", "--options", "{"], directory) == "compiler"
    assert server_of(["step", "import"], directory) == "compiler"


def test_steps_of_unknown_stages_and_directories_without_the_file_have_the_usual_server(directory: str, tmp_path: Path):
    assert server_of(["step", "bild"], directory) == server_of(["step"], directory) == "compiler"
    assert server_of(["step", "tune"], str(tmp_path / "gone")) == "compiler"


def test_servers_load_modules_that_there_are():
    for preload in PRELOADS.values():
        assert [name for name in preload.modules if importlib.util.find_spec(name) is None] == []
    assert "tvmake.codegen.lowering" in PRELOADS["compiler"].modules


def test_choosing_a_server_loads_no_stage():
    program = (
        "import sys; import tvmake.cli.step.warm;"
        "print([name for name in sys.modules if name.startswith('tvmake.stages.') or name in ('pydantic', 'typer')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
