"""Packages in other programs: C++ through tvmake/package.h, everything else through tvmake/package_c.h."""

import ctypes
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.children import WITHOUT_TORCH
from tests.codegen.conftest import Transformed, dimensions_net
from tests.decoders import onnx_greedy, write_onnx_decoder
from tests.native.devices import abi_library, package_for, run
from tests.native.stateful import transformed
from tvmake.frontend.options import ImportOptions, InputSpec
from tvmake.native import parts
from tvmake.native.development import write_library
from tvmake.storage.resources import native_sources

HEADERS, EXAMPLE = native_sources() / "include", native_sources() / "example" / "run_once.cc"

EXPECTED = """
import json, sys
import numpy as np
import tvm
from tvm.runtime.vm import VirtualMachine
directory = sys.argv[1]
vm = VirtualMachine(tvm.runtime.load_module(directory + "/mod.so"), tvm.cpu())
weights = tvm.runtime.load_param_dict_from_file(directory + "/mod.params")
names = [one["name"] for one in json.load(open(directory + "/mod.json"))["parameters"]]
output = vm["main"](tvm.runtime.tensor(np.ones((1, 3, 8, 8), "float32")), *(weights[name] for name in names))
output = output if isinstance(output, tvm.runtime.Tensor) else output[0]
print(json.dumps(output.numpy().ravel().tolist()))
"""


@pytest.fixture(scope="session")
def expected(package: Path) -> np.ndarray:
    """What the package gives for ones."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH + EXPECTED, str(package)], capture_output=True, text=True, check=True
    )
    return np.array(json.loads(done.stdout), "float32")


def test_the_directory_for_cpp_programs_is_written_without_compiling_programs_for_devices(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    built = abi_library()
    pointer = parts.pointer(parts.parts()["abi"], parts.HOST)
    store = tmp_path / "home" / "native"
    shutil.copytree(built.parent, store / built.parent.name)
    shutil.copy(pointer, store)
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    lines: list[str] = []
    write_library(tmp_path / "sdk", lines.append)
    names = {file.name for file in (tmp_path / "sdk" / "lib").iterdir()}
    assert names == {file.name for file in library.parent.glob("lib*.so")} - {"libtvmake_opencl.so"}
    assert lines == []
    assert not any(store.glob("runner*")) and not any(store.glob("server*"))


def compile_example(source: Path, library: Path, directory: Path) -> Path:
    program = directory / source.stem
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", str(source), "-I", str(HEADERS)]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,-rpath-link," + str(library.parent)]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def test_the_example_in_cpp_compiles_with_the_header_alone_and_runs(
    library: Path, package: Path, expected: np.ndarray, tmp_path: Path
):
    program = compile_example(EXAMPLE, library, tmp_path)
    done = run([str(program)], package)
    assert done.returncode == 0, done.stderr
    assert np.allclose([float(line) for line in done.stdout.split()], expected, atol=1e-6)
    done = run([str(program)], tmp_path / "nothing")
    assert (done.returncode, done.stderr) == (1, f"{tmp_path}/nothing: no such package\n  `tvmake make` makes it\n")


def test_the_loop_in_cpp_generates_the_tokens_of_the_original(library: Path, tmp_path: Path):
    write_onnx_decoder(tmp_path / "decoder.onnx")
    states = {f"past_key_values.%d.{kind}": f"present.%d.{kind}" for kind in ("key", "value")}
    mask = {"attention_mask": InputSpec(value=1)}
    options = ImportOptions(source=str(tmp_path / "decoder.onnx"), state=states, inputs=mask)
    network = transformed(tmp_path / "network", options, batch_size=1)
    program = compile_example(EXAMPLE.with_name("generate.cc"), library, tmp_path)
    done = run([str(program)], package_for(network, tmp_path / "package"), "16", "1", "15", "7")
    assert done.returncode == 0, done.stderr
    assert [int(line) for line in done.stdout.split()] == onnx_greedy(tmp_path / "decoder.onnx", [1, 15, 7], 16)


TYPED = """
#include <tvmake/package.h>

#include <cstdio>

int main(int, char** argv) {
  tvmake::Package package = tvmake::Package::Load(argv[1]);
  const std::vector<float> right(192, 1);
  const std::vector<double> wrong(192, 1);
  const std::vector<uint32_t> raw(192, 0x3F800000);
  try {
    package.SetInput(package.inputs()[0].name, wrong.data(), {1, 3, 8, 8});
  } catch (const tvmake::Error& error) {
    std::puts(error.what());
  }
  for (int way = 0; way < 2; ++way) {
    if (way == 0) package.SetInput(0, right.data(), {1, 3, 8, 8});
    if (way == 1) package.SetInput(0, raw.data(), {1, 3, 8, 8});
    package.Run();
    std::printf("%.7g\\n", package.Output(0).as<float>()[0]);
  }
}
"""


def test_elements_of_another_type_are_refused_in_cpp(
    library: Path, package: Path, expected: np.ndarray, tmp_path: Path
):
    (tmp_path / "typed.cc").write_text(TYPED)
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "typed.cc", "-I", str(HEADERS), str(library)]
    command += [f"-Wl,-rpath,{library.parent}", "-Wl,-rpath-link," + str(library.parent), "-o", "typed"]
    subprocess.run(command, check=True, cwd=tmp_path)
    done = run([str(tmp_path / "typed")], package)
    assert done.returncode == 0, done.stderr
    refusal, *values = done.stdout.splitlines()
    assert refusal.endswith("takes float32, and the elements are float64")
    assert np.allclose([float(value) for value in values], expected.ravel()[0], atol=1e-6)


def test_the_header_for_c_is_c(tmp_path: Path):
    source = tmp_path / "use.c"
    source.write_text("#include <tvmake/package_c.h>\nint main(void) { return TVMAKE_OK; }\n")
    subprocess.run(
        ["gcc", "-std=c99", "-Wall", "-Werror", "-pedantic", "-fsyntax-only", "-I", str(HEADERS), str(source)],
        check=True,
    )


class Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
    )

    def facts(self) -> tuple[str, str, list[int]]:
        return self.name.decode(), self.dtype.decode(), self.shape[: self.rank]


# In a process of its own: this one may have another TVM runtime in it.
BINDING = """
import ctypes, json, sys
import numpy as np
sys.path.insert(0, sys.argv[3])
from tests.native.test_abi import Tensor
bound = ctypes.CDLL(sys.argv[1])
bound.tvmake_last_error.restype = ctypes.c_char_p
bound.tvmake_package_inputs.restype = bound.tvmake_package_outputs.restype = ctypes.c_size_t
results, package, tensor = [], ctypes.c_void_p(), Tensor()

def tell(code):
    results.append([code, bound.tvmake_last_error().decode()])

tell(bound.tvmake_package_load(b"/nothing", b"cpu", ctypes.byref(package)))
tell(bound.tvmake_package_load(sys.argv[2].encode(), None, ctypes.byref(package)))
tell(bound.tvmake_package_run(package))
results.append([bound.tvmake_package_inputs(package), bound.tvmake_package_outputs(package)])
tell(bound.tvmake_package_input(package, 0, ctypes.byref(tensor)))
results.append(tensor.facts())
tell(bound.tvmake_package_input(package, 1, ctypes.byref(tensor)))
value = np.ones((1, 3, 8, 8), "float32")
shape = (ctypes.c_int64 * 4)(1, 3, 8, 8)
tell(bound.tvmake_package_set_input(package, 0, value.ctypes.data_as(ctypes.c_void_p), shape, 3))
tell(bound.tvmake_package_set_input(package, 0, value.ctypes.data_as(ctypes.c_void_p), shape, 4))
tell(bound.tvmake_package_run(package))
data, size = ctypes.c_void_p(), ctypes.c_size_t()
tell(bound.tvmake_package_value(package, 0, ctypes.byref(tensor), ctypes.byref(data), ctypes.byref(size)))
results.append(tensor.facts())
results.append(np.frombuffer(ctypes.string_at(data, size.value), "float32").tolist())
bound.tvmake_package_free(package)
print(json.dumps(results))
"""


def test_other_languages_bind_the_c_functions(library: Path, package: Path, expected: np.ndarray):
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", BINDING, str(library), str(package), str(root)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    nothing, loaded, too_early, counts, ok, input_spec, no_such, misfit, fits, ran, fetched, output_spec, value = (
        json.loads(done.stdout)
    )
    assert nothing == [1, "/nothing: no such package\n  `tvmake make` makes it"]
    assert [loaded, ok, fits, ran, fetched] == [[0, ""]] * 5
    assert too_early == [1, f"{package}: input 'x' is not set"] and counts == [1, 1]
    assert input_spec == ["x", "float32", [1, 3, 8, 8]] and output_spec == ["y", "float32", [1, 6]]
    assert no_such[0] == 1 and "no tensor number 1" in no_such[1]
    assert misfit == [1, "inputs: input 'x' is float32[1, 3, 8], the package takes float32[1, 3, 8, 8]"]
    assert np.allclose(value, expected, atol=1e-6)


DIMENSIONS = """
import ctypes, json, sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[3])
from tests.native.test_abi import Tensor
bound = ctypes.CDLL(sys.argv[1])
bound.tvmake_last_error.restype = ctypes.c_char_p
package = ctypes.c_void_p()
bound.tvmake_package_load(sys.argv[2].encode(), None, ctypes.byref(package))

def set_input(index, *shape):
    value = np.ones(shape, "float32")
    extents = (ctypes.c_int64 * 3)(*shape)
    return bound.tvmake_package_set_input(package, index, value.ctypes.data_as(ctypes.c_void_p), extents, 3)

def run(mask, x):
    if set_input(0, *mask, 1) or set_input(1, *x, 4) or bound.tvmake_package_run(package):
        return bound.tvmake_last_error().decode().splitlines()[0]
    tensor, data, size = Tensor(), ctypes.c_void_p(), ctypes.c_size_t()
    bound.tvmake_package_value(package, 0, ctypes.byref(tensor), ctypes.byref(data), ctypes.byref(size))
    return tensor.facts()[2]

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
"""


def of_dimensions(library: Path, package: Path, script: str) -> object:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", DIMENSIONS + script, str(library), str(package), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_sizes_beyond_bounds_or_in_conflict_are_refused_and_the_package_continues_working(
    library: Path, bounded_net: Transformed, tmp_path: Path
):
    runs = "[((2, 64), (2, 64)), ((2, 65), (2, 65)), ((5, 1), (5, 1)), ((2, 7), (2, 8)), ((2, 7), (2, 7)), ((1, 0), (1, 0))]"
    script = f"print(json.dumps([run(*shapes) for shapes in {runs}]))"
    largest, too_long, too_many, differing, usual, empty = of_dimensions(
        library, package_for(bounded_net, tmp_path / "package"), script
    )
    assert (largest, usual, empty) == ([2, 64, 5], [2, 7, 5], [1, 0, 5])
    assert too_long == "inputs: length is 65 in 'mask'; this package takes 0 to 64"
    assert too_many == "inputs: batch is 5 in 'mask'; this package takes 1 to 4"
    assert differing == "inputs: length is 8 in 'x' and 7 in 'mask'"


def test_memory_does_not_grow_with_the_number_of_shapes(library: Path, tmp_path: Path):
    script = """
run((1, 8000), (1, 8000))
alone = resident_mb()
for length in range(7000, 8000, 25):
    run((1, length), (1, length))
print(resident_mb() - alone)
"""
    assert of_dimensions(library, package_for(dimensions_net(tmp_path, {}), tmp_path / "package"), script) < 80
