"""The Python code that the page offers to copy runs unchanged."""

from tvmake.artifact.manifest import Coverage, Manifest
from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.report.page.usage import usages


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


def test_a_package_for_this_machine_can_be_run_in_two_ways():
    ways = texts(usages(manifest(), "results/my model/package.tar", "local"))
    assert list(ways) == ["Command line", "Python"]
    assert ways["Command line"] == "tvmake run 'results/my model/package.tar' --repeat 100"


def test_a_package_for_a_device_is_run_there():
    ways = texts(usages(manifest(kind="opencl"), "package.tar", "phone"))
    assert list(ways) == ["Command line"]
    assert "--device phone" in ways["Command line"]


def test_a_package_without_a_device_is_not_said_to_run_here():
    assert usages(manifest(), "package.tar", None) == []


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
