"""An Android project with a package in it: tvmake's library for Java and Kotlin, and an app that shows the network's results.

The project is a copy of ``android/`` (:func:`tvmake.storage.resources.android_project`) with the native libraries, the package
and the app's inputs.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmake.artifact.elf import Library, read_library
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import LIBRARY, single_network, unpack
from tvmake.config.dataset import Preprocessing
from tvmake.errors import InputError, MachineError
from tvmake.native.parts import parts, root
from tvmake.running.inputs import inputs_from_files
from tvmake.running.outputs import read_labels
from tvmake.storage.files import atomic_directory, scratch_directory
from tvmake.storage.resources import android_project

ABIS = {"aarch64": "arm64-v8a", "x86_64": "x86_64"}
"""Android's names of processors, by those in triples."""

OLDEST_API = 24
"""Android 7: the level of the Java library."""

SYSTEM_LIBRARIES = frozenset({"libc.so", "libm.so", "libdl.so", "liblog.so", "libz.so", "libandroid.so"})
"""Libraries that every app may link."""

KINDS = ("cpu", "opencl")
"""Kinds of devices with a runtime in the app."""

BUILD_RUNTIME = "`tvmake runtime build aarch64-linux-android` builds them (it needs Android's NDK); --runtime names another directory"

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
"""Suffixes of image files that Android reads."""

ASSETS, JNI_LIBRARIES = Path("app/src/main/assets"), Path("tvmake/src/main/jniLibs")

SAMPLE_SIDE = 256


@dataclass(frozen=True)
class App:
    """The written project.

    Attributes:
        manifest: the package's.
        abi: Android's name of the processor.
        libraries: names of the native libraries.
        preprocessing: how the app converts an image into an input.
        is_resized: whether images are resized to the input's size because no preprocessing was requested.
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
    images: Sequence[Path] = (),
    preprocessing: Preprocessing | None = None,
) -> App:
    """Write the project into a new or empty directory, completely or not at all.

    Args:
        runtime: the directory of the native libraries; default: that of the last `tvmake runtime build`.
        labels: names of the classes, one per line.
        images: images for the app; default: a generated one.
        preprocessing: from an image to the network's input.

    Raises:
        InputError: the directory is not empty, the package is damaged or not for Android, or labels or images do not match it.
        MachineError: there are no native libraries for the package's processor, or the disk is full.

    """
    if directory.is_symlink() or (directory.exists() and (not directory.is_dir() or any(directory.iterdir()))):
        raise InputError(str(directory), "exists and is not empty", "name a new directory")
    names = read_labels(labels) if labels else []
    _check_images(images)
    directory.absolute().parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(directory.absolute().parent) as scratch:
        manifest = single_network(unpack(package, scratch), str(package))
        code = _code_for_android(scratch / LIBRARY, manifest, str(package))
        _check_labels(names, manifest, labels)
        chosen, is_resized = _with_size(preprocessing or Preprocessing(), manifest)
        if images:
            _check_fit(manifest, images, chosen)
        libraries = _libraries(runtime, code.machine)
        with atomic_directory(directory) as project:
            shutil.copytree(android_project(), project, dirs_exist_ok=True)
            _write_properties(project, ABIS[code.machine], [code, *map(read_library, libraries)])
            _copy(libraries, project / JNI_LIBRARIES / ABIS[code.machine])
            assets = project / ASSETS
            _copy(sorted(scratch.iterdir()), assets / "package")
            _copy(images, assets / "images")
            if not images:
                _draw(assets / "images" / "sample.png")
            (assets / "labels.txt").write_text("".join(f"{name}\n" for name in names))
            (assets / "app.properties").write_text(properties(chosen))
    return App(manifest, ABIS[code.machine], tuple(file.name for file in libraries), chosen, is_resized)


def _code_for_android(library: Path, manifest: Manifest, where: str) -> Library:
    """Read mod.so, and check that an app can load it.

    Raises:
        InputError: it is not for Android, or for a kind of device without a runtime in the app.
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
        raise InputError(
            where, f"needs {foreign[0]}, which Android does not have", "link it with the NDK: `toolchain: ndk`"
        )
    return code


def _with_size(requested: Preprocessing, manifest: Manifest) -> tuple[Preprocessing, bool]:
    """The preprocessing, resizing to the input's size if it has none; and whether that was added."""
    first = manifest.signature.inputs[0]
    if requested.resize is not None or requested.crop is not None or len(first.shape) not in (3, 4):
        return requested, False
    shape = first.shape[1:]
    is_last = requested.layout == "NHWC" or (
        requested.layout is None and shape[-1] in (1, 3) and shape[0] not in (1, 3)
    )
    height, width = shape[:2] if len(shape) == 3 and is_last else shape[-2:]
    if not isinstance(height, int) or not isinstance(width, int):
        return requested, False
    return requested.model_copy(update={"resize": (height, width)}), True


def _check_labels(names: Sequence[str], manifest: Manifest, file: Path | None) -> None:
    classes = manifest.signature.outputs[0].shape[-1:]
    if names and classes and isinstance(classes[0], int) and len(names) < classes[0]:
        raise InputError(str(file), f"has {len(names)} labels for {classes[0]} classes", "write one per line")


def _check_images(images: Sequence[Path]) -> None:
    names: set[str] = set()
    for image in images:
        if not image.is_file():
            raise InputError(str(image), "no such image")
        if (
            image.suffix.lower() not in IMAGE_SUFFIXES
            or not image.name.isprintable()
            or image.name.startswith((".", "_"))
        ):
            raise InputError(str(image), "is not an image for an app", f"Android reads {', '.join(IMAGE_SUFFIXES)}")
        if image.name in names:
            raise InputError(str(image), "another image has the same name", "rename one")
        names.add(image.name)


def _check_fit(manifest: Manifest, images: Sequence[Path], preprocessing: Preprocessing) -> None:
    """Check that the app can convert each image into an input."""
    first = manifest.signature.inputs[0]
    for image in images:
        inputs_from_files(manifest.signature, [f"{first.name}={image}"], preprocessing)


def _libraries(directory_given: Path | None, machine: str) -> list[Path]:
    """The native libraries for an app: the two that Java loads, their dependencies, and the OpenCL runtime if it is beside them.

    Raises:
        MachineError: a library is missing, or for another processor or system.
    """
    directory = directory_given or _built(machine)
    if directory is None:
        raise MachineError("native libraries", f"there are none for Android on {machine}", BUILD_RUNTIME)
    pending = [parts()[name].output for name in ("jni", "abi")]
    if (directory / parts()["opencl"].output).is_file():
        pending.append(parts()["opencl"].output)
    files: dict[str, Path] = {}
    while pending:
        name = pending.pop(0)
        if name in files or name in SYSTEM_LIBRARIES:
            continue
        files[name] = file = directory / name
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
        pending += library.needed
    return [files[name] for name in sorted(files)]


def _built(machine: str) -> Path | None:
    """The newest directory of programs and libraries for Android with the Java library."""
    output = parts()["jni"].output
    bundles = [directory for directory in root().glob(f"bundle-android-{machine}-*") if (directory / output).is_file()]
    return max(bundles, key=lambda directory: directory.stat().st_mtime, default=None)


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
    """Preprocessing as a Java properties file: ``KEY=VALUE`` lines, several numbers separated by blanks."""
    keys = preprocessing.model_dump(mode="json", exclude_none=True, exclude_unset=False)
    lines = ["# From pixels to the network's input, in this order: the keys of tvmake's dataset.preprocess."]
    for key in Preprocessing.model_fields:
        if key in keys:
            value = keys[key]
            lines.append(f"{key}={' '.join(map(str, value)) if isinstance(value, list) else value}")
    return "\n".join(lines) + "\n"


def _copy(files: Iterable[Path], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, directory / file.name)


def _draw(file: Path) -> None:
    """Draw an image with colour gradients, for an app without images."""
    import numpy as np
    from PIL import Image

    ramp = np.arange(SAMPLE_SIDE, dtype=np.uint8)
    rows, columns = np.meshgrid(ramp, ramp, indexing="ij")
    Image.fromarray(np.stack([columns, rows, 255 - columns], axis=2)).save(file)
