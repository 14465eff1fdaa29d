"""The Android project: the app's parts that need no Android run here; the others are compiled, against signatures and the platform's resources.

Nothing here has run on Android. Signatures replace its classes (``java/stubs``): they show that the code
is consistent, not that Android does what it expects.
"""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.native import devices
from tests.native.java_programs import APP, LIBRARY, PROGRAMS, compiled, java, native_libraries, sources
from tests.requirements import need
from tvmake.config.dataset import Preprocessing
from tvmake.errors import InputError
from tvmake.running.android import properties
from tvmake.validate.preprocess import ImagePreprocessor

FRAMEWORK = "/usr/share/android-framework-res/framework-res.apk"
DATA = Path(__file__).resolve().parents[2] / "resources" / "digits-test.npz"

CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, int], dict[str, object]]] = {
    "usual": ("float32", (1, 3, 24, 24), (64, 48), {"resize": 32, "crop": 24, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}),
    "tall": ("float32", (1, 3, 20, 20), (31, 77), {"resize": 21, "crop": 20}),
    "enlarged": ("float32", (1, 3, 40, 56), (13, 9), {"resize": (40, 56)}),
    "last": ("float32", (1, 17, 19, 3), (101, 95), {"resize": (17, 19), "mean": 0.5, "std": 0.5}),
    "named": ("float32", (1, 3, 10, 3), (12, 30), {"resize": (3, 10), "layout": "NHWC", "color": "BGR"}),
    "bytes": ("uint8", (1, 12, 12, 3), (50, 40), {"resize": 16, "crop": 12}),
    "signed": ("int8", (1, 3, 12, 12), (12, 12), {"mean": 128}),
    "gray": ("float32", (1, 1, 8, 8), (33, 21), {"resize": (8, 8), "scale": 0.0625}),
    "plain": ("float32", (1, 9, 11), (22, 18), {"resize": (9, 11), "color": "gray"}),
    "open": ("float32", (-1, 3, -1, -1), (40, 30), {"resize": 20, "crop": (16, 18)}),
    "unchanged": ("float32", (1, 3, 7, 5), (5, 7), {}),
}  # fmt: skip
"""Type and shape of the input, the image's width and height, and the preprocessing."""


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(sources(LIBRARY, APP, PROGRAMS / "library", PROGRAMS / "app"), tmp_path_factory.mktemp("classes"))


def write_case(
    directory: Path, name: str, dtype: str, shape: tuple[int, ...], pixels: np.ndarray, config: Preprocessing
) -> str:
    """The files of a case, and its line."""
    pixels.tofile(directory / f"{name}.rgb")
    (directory / f"{name}.properties").write_text(properties(config))
    return f"{name} {dtype} {','.join(map(str, shape))} {pixels.shape[1]} {pixels.shape[0]}"


def test_images_become_the_inputs_that_tvmake_makes_of_them(classes: Path, tmp_path: Path):
    random = np.random.default_rng(7)
    lines, expected, steps = [], {}, {}
    for title, (dtype, shape, (width, height), settings) in CASES.items():
        name, config = title.replace(" ", "-"), Preprocessing.model_validate(settings)
        pixels = random.integers(0, 256, (height, width, 3), np.uint8)
        lines.append(write_case(tmp_path, name, dtype, shape, pixels, config))
        fixed = (3, *settings["crop"]) if title == "open" else shape[1:]  # type: ignore[misc]
        made = ImagePreprocessor(config, fixed, np.dtype(dtype), "input", is_file=True)(pixels, name)
        expected[name] = made[None]
        steps[name] = (1 / 255 if dtype == "float32" and config.scale is None else config.scale or 1) / np.min(
            config.std
        )
    (tmp_path / "cases.txt").write_text("\n".join(lines))
    done = java(classes, tmp_path, "example.app.AppUses", "inputs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(CASES)
    for name, array in expected.items():
        assert (tmp_path / f"{name}.out").is_file(), done.stdout
        found = np.fromfile(tmp_path / f"{name}.out", array.dtype).reshape(array.shape)
        # Pillow may resize columns before rows: then whole numbers between the two differ by one, and so do some pixels.
        is_resized = "resize" in CASES[name.replace("-", " ")][3]
        level = 1.01 * float(np.max(steps[name])) if is_resized else 0
        apart = np.abs(found.astype(float) - array.astype(float))
        assert apart.max() <= level + 3e-6, name
        assert np.mean(apart > 3e-6) < 0.3, name


def test_images_that_do_not_fit_are_refused_as_tvmake_refuses_them(classes: Path, tmp_path: Path):
    pixels = np.full((10, 12, 3), 200, np.uint8)
    cases = {
        "small": ("float32", (1, 3, 16, 16), {"crop": 16}),
        "other": ("float32", (1, 3, 16, 16), {"resize": 20}),
        "channels": ("float32", (1, 3, 10, 12), {"mean": [0.5, 0.5]}),
        "range": ("int8", (1, 3, 10, 12), {"scale": 1.0, "mean": -1}),
    }
    lines = []
    for name, (dtype, shape, settings) in cases.items():
        config = Preprocessing.model_validate(settings)
        lines.append(write_case(tmp_path, name, dtype, shape, pixels, config))
        with pytest.raises(InputError):
            ImagePreprocessor(config, shape[1:], np.dtype(dtype), "input", is_file=True)(pixels, name)
    (tmp_path / "cases.txt").write_text(
        "\n".join([*lines, "batch float32 4,3,10,12 12 10", "half float16 1,3,10,12 12 10"])
    )
    for name in ("batch", "half"):
        write_case(tmp_path, name, "", (), pixels, Preprocessing())
    done = java(classes, tmp_path, "example.app.AppUses", "inputs", tmp_path)
    assert done.stdout.splitlines() == [
        "small the image is 10×12 when it is to be cropped to 16×16 |  app.properties: resize to at least the crop",
        "other the image is 20×24 after preprocessing, and the network takes 'image' float32 [1, 3, 16, 16] |  app.properties: resize and crop",
        "channels app.properties: mean has 2 numbers, input 'image' float32 [1, 3, 10, 12] has 3 channels",
        "range a pixel becomes 201.0, which int8 cannot hold |  app.properties: scale and mean",
        "batch input 'image' float32 [4, 3, 10, 12] does not accept one image",
        "half input 'image' float16 [1, 3, 10, 12]: images are converted to float32, uint8 or int8",
    ]


def test_the_highest_scores_come_with_their_names_where_there_are_some(classes: Path, tmp_path: Path):
    done = java(classes, tmp_path, "example.app.AppUses", "top", tmp_path)
    assert done.stdout.splitlines() == [
        "[5  Infinity, 2  7.00000, 3  7.00000, 0  0.500000     zero]",
        "5",
        "[1  255.000      one]",
        "[1  3.00000      one, 0  -5.00000     zero]",
        "output float16 [1] has no scores that the app can read",
    ], done.stderr


def test_the_app_reads_handwritten_digits(classes: Path, programs: Path, tmp_path: Path):
    libraries, networks = tmp_path / "libraries", tmp_path / "networks"
    libraries.mkdir()
    networks.mkdir()
    native_libraries(programs, libraries)
    network = devices.package_for(devices.digits(networks), tmp_path / "digits")
    with np.load(DATA) as data:
        image, label = data["images"][3], int(data["labels"][3])
    pixels = np.repeat(np.rint(image.reshape(8, 8, 1) * 255 / image.max()).astype(np.uint8), 3, axis=2)
    write_case(tmp_path, "digit", "", (), pixels, Preprocessing(scale=float(image.max()) / 255))
    done = java(classes, libraries, "example.app.AppUses", "classify", tmp_path, network)
    assert done.returncode == 0, done.stderr
    first, *others, _, time = done.stdout.splitlines()
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    assert first.split()[0] == str(label) and first.split()[-1] == names[label]
    assert len(others) == 4 and re.fullmatch(r"\d+\.\d\d ms", time)


def test_what_needs_android_compiles_with_its_resources(tmp_path: Path):
    need("javac", "aapt")
    generated, stubs = tmp_path / "generated", tmp_path / "stubs"
    generated.mkdir()
    for name, manifest in {"app": APP, "library": LIBRARY}.items():
        directory = tmp_path / name
        directory.mkdir()
        text = (manifest / "AndroidManifest.xml").read_text()
        # The package's name is in build.gradle.kts, from where Gradle reads it.
        (directory / "AndroidManifest.xml").write_text(
            text.replace("<manifest ", f'<manifest package="example.{name}" ')
        )
        command = [
            "aapt",
            "package",
            "-f",
            "-m",
            "-J",
            generated,
            "-M",
            directory / "AndroidManifest.xml",
            "-I",
            FRAMEWORK,
        ]
        command += ["-F", directory / "made.apk", "--min-sdk-version", "24", "--target-sdk-version", "34"]
        command += ["-S", manifest / "res"] if (manifest / "res").is_dir() else []
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    dump = ["aapt", "dump", "xmltree", str(tmp_path / "library" / "made.apk"), "AndroidManifest.xml"]
    shown = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    assert re.search(r'uses-native-library.*\n.*name.*="libOpenCL\.so".*\n.*required\S*\(type 0x12\)0x0', shown)
    stubs.mkdir()
    need_stubs = sorted((PROGRAMS / "stubs").rglob("*.java"))
    subprocess.run(["javac", "--release", "8", "-Xlint:-options", "-d", stubs, *need_stubs], check=True)
    files = sources(LIBRARY, APP, generated, without=())
    (tmp_path / "classes").mkdir()
    compiled(files, tmp_path / "classes", stubs)
    manifest = (APP / "AndroidManifest.xml").read_text()
    (activity,) = re.findall(r'<activity\s+android:name="([\w.]+)"', manifest)
    assert (tmp_path / "classes" / activity.replace(".", "/")).with_suffix(".class").is_file()


def test_the_kotlin_extensions_compile(tmp_path: Path):
    need("javac", "kotlinc")
    classes, stubs = tmp_path / "classes", tmp_path / "stubs"
    for directory in (classes, stubs):
        directory.mkdir()
    subprocess.run(
        ["javac", "--release", "8", "-Xlint:-options", "-d", stubs, *sorted((PROGRAMS / "stubs").rglob("*.java"))],
        check=True,
    )
    compiled(sources(LIBRARY, without=()), classes, stubs)
    use = tmp_path / "Use.kt"
    use.write_text(
        "import java.io.File\nimport tvmake.Package\nimport tvmake.openPackage\nimport tvmake.run\nimport tvmake.toTensor\n\n"
        "fun scores(context: android.content.Context, pixels: FloatArray): FloatArray =\n"
        '    context.openPackage().use { it.run("image" to pixels.toTensor(1, 1, 8, 8)).getValue("logits").floats() }\n\n'
        "fun again(pixels: FloatArray): FloatArray =\n"
        '    Package.open(File("digits")).run(mapOf("image" to pixels.toTensor(1, 1, 8, 8))).getValue("logits").floats()\n'
    )
    command = ["kotlinc", "-jvm-target", "1.8", "-cp", f"{classes}:{stubs}", "-d", str(classes), str(use)]
    command += map(str, sorted(LIBRARY.rglob("*.kt")))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "warning:" not in done.stderr.replace("VM warning:", ""), done.stderr
    assert (classes / "UseKt.class").is_file()


def test_native_methods_are_registered_as_java_declares_them():
    """A signature that differs is found when the library is loaded, on every machine; a name that R8 changes, on Android alone."""
    declared = re.findall(r"static native \S+ (\w+)\(", (LIBRARY / "java" / "tvmake" / "Native.java").read_text())
    code = (Path(devices.ROOT) / "native" / "jni" / "native.cc").read_text()
    assert sorted(declared) == sorted(re.findall(r'Method\("(\w+)"', code))
    kept = (LIBRARY.parents[1] / "consumer-rules.pro").read_text()
    for name in re.findall(r'"(tvmake/\w+)"', code):
        assert f"-keep class {name.replace('/', '.')} " in kept
