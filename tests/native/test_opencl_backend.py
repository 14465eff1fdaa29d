"""How TVM comes to the runtime library: at import, in every process, and without harm where something is missing."""

import pytest

from tests.native.opencl_device import loaded, require_entry_point, run_python
from tests.native.opencl_forked import run_forked

IMPORT = "import tvm; print(tvm.runtime.enabled('opencl'), tvm.opencl().exist)"


@pytest.fixture(scope="module", autouse=True)
def built():
    loaded()


@pytest.mark.parametrize("only_runtime", ["0", "1"])
def test_importing_tvm_loads_the_library_that_is_built(only_runtime):
    require_entry_point()
    assert run_python(IMPORT, TVM_USE_RUNTIME_LIB=only_runtime) == "True True\n"


def test_importing_tvm_says_nothing_where_no_library_is_built(tmp_path):
    require_entry_point()
    output = run_python(
        f"import warnings; warnings.simplefilter('error'); {IMPORT}", TVMAKE_HOME=str(tmp_path), TVM_USE_RUNTIME_LIB="1"
    )
    assert output == "False False\n"
    assert list(tmp_path.iterdir()) == []


def test_importing_tvm_compiles_nothing_and_asks_no_compiler():
    require_entry_point()
    code = f"import os; os.environ['PATH'] = '/nowhere'; {IMPORT}"
    assert run_python(code, TVM_USE_RUNTIME_LIB="1") == "True True\n"


def test_importing_tvm_does_not_open_a_driver():
    require_entry_point()
    output = run_python(
        "import tvm; print('libOpenCL' in open('/proc/self/maps').read(), tvm.runtime.enabled('opencl'))",
        TVM_USE_RUNTIME_LIB="1",
    )
    assert output == "False True\n"


def test_the_library_loads_where_no_opencl_is_installed():
    output = run_python(
        """
import numpy as np
import tvm
from tvmake.native.backend import opencl_library
opencl_library()
print(tvm.opencl().exist)
try:
    tvm.runtime.tensor(np.zeros(4), tvm.opencl())
except RuntimeError as error:
    print(str(error).splitlines()[-1])
""",
        TVMAKE_OPENCL_LIBRARY="/nowhere/libOpenCL.so",
    )
    assert output.startswith("False\n")
    assert "no OpenCL library on this machine (tried /nowhere/libOpenCL.so)" in output


def test_asking_for_the_library_twice_loads_it_once():
    code = "from tvmake.native.backend import *; print(opencl_library() == opencl_library(), has_opencl()); autoload()"
    assert run_python(code) == "True True\n"


FORK = """
import os, sys, numpy as np
from tests.native.opencl_device import loaded
tvm = loaded()
def use():
    return tvm.runtime.tensor(np.arange(4.0), tvm.opencl(0))
if sys.argv[1] == "used":
    kept = use()
child = os.fork()
if child == 0:
    try:
        print(use().numpy().sum(), flush=True)
    except RuntimeError as error:
        print(str(error).splitlines()[-1], flush=True)
    kept = None
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(use().numpy().sum())
"""


def test_a_process_can_fork_before_its_first_use():
    assert run_forked(FORK, "unused") == "6.0\n6.0\n"


def test_a_fork_after_the_first_use_is_reported_so_and_does_not_hang():
    message, parents = run_forked(FORK, "used").splitlines()
    assert "this process was forked from one that had used OpenCL" in message
    assert parents == "6.0"


def test_the_entry_point_imports_little():
    heavy = {"pydantic", "numpy", "typer", "filelock", "subprocess", "tvm", "snakemake"}
    code = "import sys; import tvmake.native.backend; print(*sys.modules)"
    assert heavy.isdisjoint(run_python(code).split())
