"""Processes that need TVM only do not pay for torch."""

import subprocess
import sys

import pytest

from tests.patience import HANG_S


def printed(*command: str) -> str:
    """What a Python process prints."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=HANG_S, check=True)
    return done.stdout.strip()


def test_tvm_is_loaded_without_torch_which_can_still_be_imported_afterwards():
    pytest.importorskip("torch")
    code = (
        "import sys; from tvmake.process.tvm_import import hide_torch_from_tvm; hide_torch_from_tvm(); import tvm;"
        "print('torch' in sys.modules); import torch; print(torch.ones(1).item())"
    )
    assert printed("-c", code).split() == ["False", "1.0"]


def test_a_module_can_be_run_so(tmp_path):
    (tmp_path / "main.py").write_text("import sys, tvm\nprint(__name__, 'torch' in sys.modules, *sys.argv[1:])\n")
    code = f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['', 'main', 'a', 'b'];"
    code += "runpy.run_module('tvmake.process.tvm_import', run_name='__main__')"
    assert printed("-c", code) == "__main__ False a b"


@pytest.mark.parametrize("arguments", [["--help"], ["make", "--help"], ["step", "import", "--help"]])
def test_the_help_loads_no_tvm(arguments):
    code = "import sys; from tvmake.cli import run; run(sys.argv[1:]); print('tvm' in sys.modules)"
    assert printed("-c", code, *arguments).splitlines()[-1] == "False"


def test_a_command_that_asks_tvm_does_so_without_torch():
    code = "import sys; from tvmake.cli import run; run(['targets', '--json']); print('tvm' in sys.modules, 'torch' in sys.modules)"
    assert printed("-c", code).splitlines()[-1] == "True False"
