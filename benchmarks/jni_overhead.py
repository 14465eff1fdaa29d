"""The cost of a run in Java compared with the C interface, in one process, alternately.

    python benchmarks/jni_overhead.py [MODEL …] [--rounds 5000]

Both set an input, run, and copy the output to memory of their own. ``Java, direct tensors`` uses its tensors again; ``Java,
arrays`` makes a tensor of a float[] and a float[] of the result each time, which copies each twice more. ``copying once`` is a
memcpy of as many bytes as go in and come out. Without a model: the digits (296 bytes), and a network that only
computes the positive part of an image of 224×224 (1.2 MB). Needs a JDK, cmake and g++.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper

import tvmake
from tvmake.artifact.package import unpack
from tvmake.native.bundle import bundle
from tvmake.native.compile import build
from tvmake.storage.resources import android_project, native_sources

ROOT = Path(__file__).resolve().parents[1]


def copying_network(file: Path) -> Path:
    """An ONNX network with almost no computation on an image."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 224, 224]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


def compiled(directory: Path) -> tuple[Path, Path]:
    """Directories of classes and of native libraries."""
    classes, libraries = directory / "classes", directory / "libraries"
    libraries.mkdir()
    for file in [*bundle(os.uname().machine).glob("libtvm*.so"), build("abi"), build("jni")]:
        shutil.copy(file, libraries)
    sources = sorted((android_project() / "tvmake/src/main/java/tvmake").glob("*.java"))
    subprocess.run(["javac", "-d", classes, *sources, ROOT / "benchmarks/jni/Overhead.java"], check=True)
    java_home = Path(
        subprocess.run(["readlink", "-f", "/usr/bin/javac"], capture_output=True, text=True, check=True).stdout.strip()
    ).parents[1]
    java_home = Path(os.environ.get("JAVA_HOME", java_home))
    includes = [
        f"-I{path}" for path in (native_sources() / "include", java_home / "include", java_home / "include/linux")
    ]
    linked = [str(libraries / "libtvmake_package.so"), f"-Wl,-rpath,{libraries}", f"-Wl,-rpath-link,{libraries}"]
    command = [
        "g++",
        "-std=c++17",
        "-O2",
        "-shared",
        "-fPIC",
        *includes,
        str(ROOT / "benchmarks/jni/overhead.cc"),
        *linked,
    ]
    subprocess.run([*command, "-o", str(libraries / "liboverhead.so")], check=True)
    return classes, libraries


def main() -> None:
    """Print a table for each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="ONNX files of one input")
    parser.add_argument("--rounds", type=int, default=5000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        started = Path.cwd()
        os.chdir(root)  # what compiling leaves goes with it
        models = [started / model for model in given.models] or [
            ROOT / "resources" / "digits.onnx",
            copying_network(root / "copy.onnx"),
        ]
        classes, libraries = compiled(root)
        for number, model in enumerate(models):
            tvmake.load(str(model)).compile(output=str(root / f"{number}.tar"))
            (root / str(number)).mkdir()
            unpack(root / f"{number}.tar", root / str(number))
            command = [
                "java",
                f"-Djava.library.path={libraries}",
                "-cp",
                classes,
                "Overhead",
                root / str(number),
                given.rounds,
            ]
            print(model)
            subprocess.run(list(map(str, command)), check=True, env={**os.environ, "TVM_NUM_THREADS": "1"})


if __name__ == "__main__":
    main()
