"""What the page offers to copy does run: the Python as it stands, the C++ through a compiler."""

import subprocess

import pytest

from tests.requirements import need
from tvmake.artifact.manifest import Coverage, Manifest
from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.report.page.usage import usages
from tvmake.storage.resources import native_sources


def manifest(**target) -> Manifest:
    def tensor(name, shape, dtype):
        return TensorSpec(name=name, relax_name="x", shape=shape, dtype=dtype)

    return Manifest(
        model="m",
        precision="float32",
        target_name="cpu",
        network={},
        signature=Signature(
            inputs=(
                tensor('im"age', (1, 3, "height"), "float32"),
                tensor("ids", (), "int64"),
                tensor("h", (2,), "float16"),
            ),
            outputs=(),
        ),
        parameters=[],
        target=target or {"kind": "llvm"},
        build={},
        libinfo={},
        coverage=Coverage(tuned=0, tunable=0, misses={}),
        kernels=[],
        graph=[],
        files={},
        components=[],
    )


def texts(found):
    return {usage.title: usage.text for usage in found}


def test_a_package_for_this_machine_can_be_run_in_three_ways():
    found = texts(usages(manifest(), "results/my model/package.tar", "local"))
    assert list(found) == ["Command line", "Python", "C++"]
    assert found["Command line"] == "tvmake run 'results/my model/package.tar' --repeat 100"


def test_a_package_for_a_device_is_run_there():
    found = texts(usages(manifest(kind="opencl"), "package.tar", "phone"))
    assert list(found) == ["Command line", "C++"]
    assert "--device phone" in found["Command line"]
    assert '"opencl")' in found["C++"]


def test_a_package_without_a_device_is_not_said_to_run_here():
    assert list(texts(usages(manifest(), "package.tar", None))) == ["C++"]


def test_the_python_is_python_whatever_inputs_are_called():
    text = texts(usages(manifest(), "it's.tar", "local"))["Python"]
    called = {}

    class Package:
        def run(self, arrays):
            called.update(arrays)

    class tvmake:
        open = staticmethod(lambda path: Package() if path == "it's.tar" else None)

    exec(text.replace("import tvmake\n", ""), {"tvmake": tvmake})
    assert {name: (array.shape, array.dtype.name) for name, array in called.items()} == {
        'im"age': ((1, 3, 1), "float32"),
        "ids": ((), "int64"),
        "h": ((2,), "float16"),
    }


def test_the_cpp_compiles(tmp_path):
    need("g++")
    text = texts(usages(manifest(), "package.tar", "local"))["C++"]
    head = [line for line in text.splitlines() if line.startswith("#")]
    body = [line for line in text.splitlines() if not line.startswith("#")]
    source = tmp_path / "main.cc"
    source.write_text("\n".join([*head, "int main() {", *body, "}"]))
    include = native_sources() / "include"
    done = subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Werror", "-Wno-unused-variable", "-fsyntax-only", f"-I{include}", str(source)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int8", "int32", "int64", "uint8", "bool", "float16", "bfloat16"]
)
def test_every_type_has_a_cpp_vector(dtype):
    spec = TensorSpec(name="x", relax_name="x", shape=(1,), dtype=dtype)
    changed = manifest().model_copy(update={"signature": Signature(inputs=(spec,), outputs=())})
    assert "std::vector<" in texts(usages(changed, "p.tar", "local"))["C++"]
