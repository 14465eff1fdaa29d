"""``tvmake init --android``: a project with a package, or one line that says why not.

This machine has no NDK. The package is compiled for Android and linked by a cross compiler without a C library, and marked
as the NDK marks it; the native libraries are empty ones that were made in the same way.
"""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.native import devices
from tests.requirements import need
from tvmake.artifact.elf import read_library
from tvmake.artifact.package import REQUIRED, pack
from tvmake.cli import run
from tvmake.config.target import TargetConfig
from tvmake.storage.resources import android_project

COMPILER = "aarch64-linux-gnu-gcc"

DRIVER = """#!/bin/sh
exec {compiler} -nostdlib "$@" {note}
"""

NOTE = """.section .note.android.ident,"a",%note
.long 8, 4, 1
.asciz "Android"
.long {api}
"""


def driver(directory: Path, api: int) -> Path:
    """A program that links for Android of an API level."""
    note, program = directory / f"note{api}.s", directory / f"link{api}"
    note.write_text(NOTE.format(api=api))
    program.write_text(DRIVER.format(compiler=COMPILER, note=note))
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with packages for a phone and for this machine, and native libraries."""
    need("aarch64-linux-gnu-g++", "g++")
    directory = tmp_path_factory.mktemp("made")
    net = devices.digits(directory)
    phone = TargetConfig(kind="llvm", mtriple="aarch64-linux-android", cc=str(driver(directory, 24)))
    for name, target in {"phone": phone, "here": TargetConfig()}.items():
        unpacked = devices.package_for(net, directory / name, target)
        pack({file: unpacked / file for file in REQUIRED}, directory / f"{name}.tar")
    (directory / "runtime").mkdir()
    libraries(
        directory / "runtime", str(driver(directory, 26)), ("tvmake_jni", "tvmake_package", "tvmake_opencl", "tvm_ffi")
    )
    (directory / "labels.txt").write_text("".join(f"{number}\n" for number in range(10)))
    return directory


def libraries(directory: Path, compiler: str, names: tuple[str, ...]) -> None:
    """Shared libraries without code; libtvmake_package.so needs libtvm_ffi.so where that is named."""
    source = directory / "empty.c"
    source.write_text("")
    for name in sorted(names):
        needs = (
            ["-Wl,--no-as-needed", str(directory / "libtvm_ffi.so")]
            if name == "tvmake_package" and "tvm_ffi" in names
            else []
        )
        soname = f"-Wl,-soname,lib{name}.so"
        output = str(directory / f"lib{name}.so")
        subprocess.run([compiler, "-shared", soname, "-o", output, str(source), *needs], check=True)
    source.unlink()


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))


def init(made: Path, *options: object, package: str = "phone.tar", runtime: str = "runtime") -> int:
    command = ["init", "--android", "app", "--package", made / package, "--runtime", made / runtime, *options]
    return run(list(map(str, command)))


def test_the_project_holds_library_app_package_and_native_libraries(made: Path, capsys: pytest.CaptureFixture[str]):
    assert init(made, "--labels", made / "labels.txt") == 0
    told = capsys.readouterr().out
    assert "an app for arm64-v8a with net/float32/t" in told and "images are resized to 8×8" in told
    app = Path("app")
    for file in android_project().rglob("*"):
        if file.is_file() and file.name != "gradle.properties":
            assert (app / file.relative_to(android_project())).read_bytes() == file.read_bytes()
    found = app / "app/src/main/assets/package"
    assert {file.name for file in found.iterdir()} == set(REQUIRED)
    for name in REQUIRED:
        assert (found / name).read_bytes() == (made / "phone" / name).read_bytes()
    native = app / "tvmake/src/main/jniLibs/arm64-v8a"
    names = {"libtvmake_jni.so", "libtvmake_package.so", "libtvmake_opencl.so", "libtvm_ffi.so"}
    assert {file.name for file in native.iterdir()} == names
    assert (app / "app/src/main/assets/labels.txt").read_text().split() == [str(number) for number in range(10)]
    assert "tvmake.minSdk=26" in (app / "gradle.properties").read_text().splitlines()
    assert "tvmake.abi=arm64-v8a" in (app / "gradle.properties").read_text().splitlines()
    assert Image.open(app / "app/src/main/assets/images/sample.png").size == (256, 256)
    assert read_library(native / "libtvmake_jni.so").android_api == 26


def test_images_and_preprocessing_go_with_it(made: Path):
    Image.fromarray(np.full((30, 40), 9, np.uint8)).save("nine.png")
    assert (
        init(made, "--image", "nine.png", "-p", "resize=10", "-p", "crop=8", "-p", "mean=[0.5]", "-p", "scale=0.0625")
        == 0
    )
    assets = Path("app/app/src/main/assets")
    assert [file.name for file in (assets / "images").iterdir()] == ["nine.png"]
    lines = (assets / "app.properties").read_text().splitlines()
    assert lines[1:] == ["resize=10", "crop=8", "scale=0.0625", "mean=0.5", "std=1.0"]


def test_without_an_ndks_libraries_nothing_is_written_and_the_command_that_makes_them_is_named(made: Path, capsys):
    assert run(["init", "--android", "app", "--package", str(made / "phone.tar")]) == 3
    told = capsys.readouterr().err
    assert told.startswith(
        "error: native libraries: there are none for Android on aarch64\n  `tvmake runtime build aarch64-linux-android`"
    )
    assert not Path("app").exists()


@pytest.mark.parametrize("missing", ["libtvmake_jni.so", "libtvm_ffi.so"])
def test_a_library_that_is_missing_is_named(made: Path, missing: str, capsys):
    shutil.copytree(made / "runtime", "part")
    (Path("part") / missing).unlink()
    assert init(made, runtime=str(Path("part").resolve())) == 3
    assert f"part: {missing} is missing" in capsys.readouterr().err
    assert not Path("app").exists()


def test_libraries_of_a_linux_board_are_no_androids(made: Path, capsys):
    board = Path("board")
    board.mkdir()
    (board / "with.c").write_text("#include <stdlib.h>\nvoid *f(void) { return malloc(1); }\n")
    for name in ("jni", "package"):
        subprocess.run(
            [COMPILER, "-shared", "-fPIC", "-o", board / f"libtvmake_{name}.so", board / "with.c"], check=True
        )
    assert init(made, runtime=str(board.resolve())) == 3
    assert "libtvmake_jni.so: is for Linux with glibc, not for Android" in capsys.readouterr().err


def test_a_package_for_another_machine_is_refused_in_one_line(made: Path, capsys):
    assert init(made, package="here.tar") == 1
    told = capsys.readouterr().err
    assert "here.tar: is code for " in told and ", not for Android\n  compile it for a phone" in told
    assert not Path("app").exists()


def test_a_damaged_package_leaves_nothing(made: Path, capsys):
    content = bytearray((made / "phone.tar").read_bytes())
    content[-20000] ^= 1
    Path("damaged.tar").write_bytes(content)
    assert init(made, package=str(Path("damaged.tar").resolve())) == 1
    assert "damaged.tar: " in capsys.readouterr().err
    assert [path.name for path in Path().iterdir() if path.name != "home"] == ["damaged.tar"]


def test_a_directory_with_anything_in_it_is_left_alone(made: Path, capsys):
    for kind in ("directory", "file", "link"):
        directory = Path("app")
        if kind == "directory":
            directory.mkdir()
            (directory / "mine.txt").write_text("mine")
        elif kind == "file":
            directory.write_text("mine")
        else:
            directory.symlink_to("elsewhere")
        assert init(made) == 1
        assert "error: app: exists and is not empty" in capsys.readouterr().err
        assert (
            directory.is_symlink()
            or (directory.read_text() if directory.is_file() else (directory / "mine.txt").read_text()) == "mine"
        )
        if directory.is_dir():
            shutil.rmtree(directory)
        else:
            directory.unlink()
    Path("app").mkdir()
    assert init(made) == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--image", "none.png"], "none.png: no such image"),
        (["--image", "labels.txt"], "labels.txt: is not an image for an app"),
        (["--image", "wide.png", "--preprocess", "resize=8"], "wide.png: is [20, 40], [1, 8, 16] after preprocessing"),
        (["--image", "wide.png", "--image", "more/wide.png"], "more/wide.png: another image has the same name"),
        (["--labels", "labels.txt"], "labels.txt: has 2 labels for 10 classes"),
    ],
)
def test_what_does_not_suit_the_package_is_refused(made: Path, options: list[str], told: str, capsys):
    Path("labels.txt").write_text("one\ntwo\n")
    Path("more").mkdir()
    for file in ("wide.png", "more/wide.png"):
        Image.fromarray(np.zeros((20, 40), np.uint8)).save(file)
    assert init(made, *options) == 1
    assert told in capsys.readouterr().err
    assert not Path("app").exists()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["init"], "init: a model is missing"),
        (["init", "--android", "app"], "init --android: a package is missing"),
        (["init", "net.onnx", "--android", "app", "--package", "p.tar"], "takes a package, not a model ('net.onnx')"),
        (["init", "net.onnx", "--labels", "names.txt"], "init --labels: needs --android DIR"),
        (["init", "--android", "app", "--package", "p.tar", "-p", "size=3"], "--preprocess size"),
    ],
)
def test_command_lines_that_are_invalid_are_refused(command: list[str], told: str, capsys):
    assert run(command) == 2
    assert told in capsys.readouterr().err
