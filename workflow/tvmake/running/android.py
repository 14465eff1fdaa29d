"""An Android project with a package in it: tvmake's library for Java and Kotlin, and an app that shows what a network says.

The project is a copy of ``android/`` (:func:`tvmake.storage.resources.android_project`) with three things added: the
native libraries, the package and what the app feeds it with.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmake.artifact.elf import Library, read_library
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import LIBRARY, unpack
from tvmake.config.dataset import Preprocessing
from tvmake.errors import InputError, MachineError
from tvmake.native.parts import parts, root
from tvmake.running.inputs import inputs_from_files
from tvmake.running.outputs import read_labels
from tvmake.storage.files import atomic_directory, scratch_directory
from tvmake.storage.resources import android_project

ABIS = {"aarch64": "arm64-v8a", "x86_64": "x86_64"}
"""Android's names of processors, by those of triples."""

OLDEST_API = 24
"""Android 7: what the Java library keeps to."""

SYSTEM_LIBRARIES = frozenset({"libc.so", "libm.so", "libdl.so", "liblog.so", "libz.so", "libandroid.so"})
"""What every app may link with."""

KINDS = ("cpu", "opencl")
"""Devices that an app has a runtime for."""

BUILD_RUNTIME = "`tvmake runtime build aarch64-linux-android` makes them (it needs Android's NDK); --runtime names another directory"

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
"""Suffixes of what Android reads."""

ASSETS, JNI_LIBRARIES = Path("app/src/main/assets"), Path("tvmake/src/main/jniLibs")

SAMPLE_SIDE = 256


@dataclass(frozen=True)
class App:
    """What was written.

    Attributes:
        manifest: the package's.
        abi: Android's name of the processor.
        libraries: names of the native libraries.
        preprocessing: how the app makes an input of a picture.
        is_resized: whether nobody said how a picture gets the input's size, so that it is resized to it.
    """

    manifest: Manifest
    abi: str
    libraries: tuple[str, ...]
    preprocessing: Preprocessing
    is_resized: bool


def write_app(
    directory: Path,
    package: Path,
    runtime: Path | None = None,
    labels: Path | None = None,
    pictures: Sequence[Path] = (),
    preprocessing: Preprocessing | None = None,
) -> App:
    """Write the project into a new or empty directory: whole, or not at all.

    Args:
        package: a package.tar for Android.
        runtime: a directory with the native libraries; by default what `tvmake runtime build` made last.
        labels: names of the classes, one a line.
        pictures: for the app to show; by default a made-up one.
        preprocessing: from a picture to the network's input.

    Raises:
        InputError: the directory holds something, the package is damaged or not for Android, or labels or pictures do
            not suit it.
        MachineError: there are no native libraries, or not for the package's processor; or the disk is full.
    """
    if directory.is_symlink() or (directory.exists() and (not directory.is_dir() or any(directory.iterdir()))):
        raise InputError(str(directory), "is there already, and not empty", "name a new directory")
    names = read_labels(labels) if labels else []
    _check_pictures(pictures)
    directory.absolute().parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(directory.absolute().parent) as scratch:
        manifest = unpack(package, scratch)
        code = _code_for_android(scratch / LIBRARY, manifest, str(package))
        _check_labels(names, manifest, labels)
        given, is_resized = _fitting(preprocessing or Preprocessing(), manifest)
        if pictures:
            _check_fit(manifest, pictures, given)
        libraries = _libraries(runtime, code.machine)
        with atomic_directory(directory) as fresh:
            shutil.copytree(android_project(), fresh, dirs_exist_ok=True)
            _write_properties(fresh, ABIS[code.machine], [code, *map(read_library, libraries)])
            _copy(libraries, fresh / JNI_LIBRARIES / ABIS[code.machine])
            assets = fresh / ASSETS
            _copy(sorted(scratch.iterdir()), assets / "package")
            _copy(pictures, assets / "images")
            if not pictures:
                _draw(assets / "images" / "sample.png")
            (assets / "labels.txt").write_text("".join(f"{name}\n" for name in names))
            (assets / "app.properties").write_text(properties(given))
    return App(manifest, ABIS[code.machine], tuple(file.name for file in libraries), given, is_resized)


def _code_for_android(library: Path, manifest: Manifest, where: str) -> Library:
    """What mod.so demands of the device.

    Raises:
        InputError: it is not for Android, or for a kind of device that an app has no runtime for.
    """
    remedy = "compile it for a phone: -t 'adreno-730-texture, aarch64-linux-android', or in a config `host: aarch64-linux-android`"
    if manifest.device_kind not in KINDS:
        raise InputError(where, f"is for {manifest.device_kind}, and apps run {' and '.join(KINDS)}", remedy)
    try:
        code = read_library(library)
    except ValueError as error:
        raise InputError(where, f"{LIBRARY}: {error}", remedy) from None
    triple = str((manifest.target.get("host") or manifest.target).get("mtriple", ""))
    if "android" not in triple:
        raise InputError(where, f"is code for {triple or f'Linux on {code.machine}'}, not for Android", remedy)
    if code.machine not in ABIS:
        raise InputError(where, f"is code for {code.machine}, and apps are for {' or '.join(ABIS)}", remedy)
    if foreign := [name for name in code.needed if name not in SYSTEM_LIBRARIES]:
        raise InputError(where, f"needs {foreign[0]}, which Android has not", "link it with the NDK: `toolchain: ndk`")
    return code


def _fitting(given: Preprocessing, manifest: Manifest) -> tuple[Preprocessing, bool]:
    """The preprocessing, with a size where none is given and the input has one; and whether it was added."""
    first = manifest.signature.inputs[0]
    if given.resize is not None or given.crop is not None or len(first.shape) not in (3, 4):
        return given, False
    shape = first.shape[1:]
    is_last = given.layout == "NHWC" or (given.layout is None and shape[-1] in (1, 3) and shape[0] not in (1, 3))
    height, width = shape[:2] if len(shape) == 3 and is_last else shape[-2:]
    if not isinstance(height, int) or not isinstance(width, int):
        return given, False
    return given.model_copy(update={"resize": (height, width)}), True


def _check_labels(names: Sequence[str], manifest: Manifest, file: Path | None) -> None:
    classes = manifest.signature.outputs[0].shape[-1:]
    if names and classes and isinstance(classes[0], int) and len(names) < classes[0]:
        raise InputError(str(file), f"has {len(names)} labels, and there are {classes[0]} classes", "give one a line")


def _check_pictures(pictures: Sequence[Path]) -> None:
    seen: set[str] = set()
    for picture in pictures:
        if not picture.is_file():
            raise InputError(str(picture), "no such picture")
        if (
            picture.suffix.lower() not in PICTURES
            or not picture.name.isprintable()
            or picture.name.startswith((".", "_"))
        ):
            raise InputError(str(picture), "is no picture for an app", f"Android reads {', '.join(PICTURES)}")
        if picture.name in seen:
            raise InputError(str(picture), "another picture has the same name", "rename one")
        seen.add(picture.name)


def _check_fit(manifest: Manifest, pictures: Sequence[Path], preprocessing: Preprocessing) -> None:
    """Make each picture an input, as the app will."""
    first = manifest.signature.inputs[0]
    for picture in pictures:
        inputs_from_files(manifest.signature, [f"{first.name}={picture}"], preprocessing)


def _libraries(given: Path | None, machine: str) -> list[Path]:
    """The native libraries for an app: the two that Java loads, what they need, and the OpenCL runtime where it lies beside them.

    Raises:
        MachineError: one is missing, or for another processor or system.
    """
    directory = given or _built(machine)
    if directory is None:
        raise MachineError("native libraries", f"there are none for Android on {machine}", BUILD_RUNTIME)
    wanted = [parts()[name].output for name in ("jni", "abi")]
    if (directory / parts()["opencl"].output).is_file():
        wanted.append(parts()["opencl"].output)
    found: dict[str, Path] = {}
    while wanted:
        name = wanted.pop(0)
        if name in found or name in SYSTEM_LIBRARIES:
            continue
        found[name] = file = directory / name
        if not file.is_file():
            raise MachineError(str(directory), f"{name} is missing", BUILD_RUNTIME)
        try:
            library = read_library(file)
        except ValueError as error:
            raise MachineError(str(file), str(error), BUILD_RUNTIME) from None
        if library.machine != machine:
            raise MachineError(str(file), f"is for {library.machine}, the package for {machine}", BUILD_RUNTIME)
        if "libc.so.6" in library.needed:
            raise MachineError(str(file), "is for Linux with glibc, not for Android", BUILD_RUNTIME)
        wanted += library.needed
    return [found[name] for name in sorted(found)]


def _built(machine: str) -> Path | None:
    """The newest directory of programs and libraries for Android that has those for Java."""
    output = parts()["jni"].output
    made = [place for place in root().glob(f"bundle-android-{machine}-*") if (place / output).is_file()]
    return max(made, key=lambda place: place.stat().st_mtime, default=None)


def _write_properties(project: Path, abi: str, code: Iterable[Library]) -> None:
    file = project / "gradle.properties"
    lines = file.read_text().splitlines()
    oldest = max([OLDEST_API, *(library.android_api or 0 for library in code)])
    values = {"tvmake.minSdk": oldest, "tvmake.abi": abi}
    known = [line.partition("=")[0] for line in lines]
    assert values.keys() <= set(known)
    changed = [f"{key}={values[key]}" if key in values else line for key, line in zip(known, lines, strict=True)]
    file.write_text("\n".join(changed) + "\n")


def properties(preprocessing: Preprocessing) -> str:
    """Preprocessing as a Java properties file: ``KEY=VALUE`` lines, several numbers with blanks between."""
    given = preprocessing.model_dump(mode="json", exclude_none=True, exclude_unset=False)
    lines = ["# From pixels to the network's input, in this order: the keys of tvmake's dataset.preprocess."]
    for key in Preprocessing.model_fields:
        if key in given:
            value = given[key]
            lines.append(f"{key}={' '.join(map(str, value)) if isinstance(value, list) else value}")
    return "\n".join(lines) + "\n"


def _copy(files: Iterable[Path], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, directory / file.name)


def _draw(file: Path) -> None:
    """A picture of colours that run into each other, for an app without any."""
    import numpy as np
    from PIL import Image

    ramp = np.arange(SAMPLE_SIDE, dtype=np.uint8)
    rows, columns = np.meshgrid(ramp, ramp, indexing="ij")
    Image.fromarray(np.stack([columns, rows, 255 - columns], axis=2)).save(file)
