"""Inputs of `tvmake run`: arrays, archives of arrays, images, and class names."""

import os
import random
import shutil
from pathlib import Path

from .cases import Case
from .datasets import SUFFIXES, other_array, other_picture
from .intermediates import Intermediates
from .mutate import TEXTS, mutate_bytes

PACKAGE = "results/digits/float32/cpu/package.tar"


class Runs:
    """Bytes and headers of inputs, their claims, and other things instead of files."""

    preload = ("tvmake.cli.app", "tvmake.running.run", "tvmake.running.inputs", "tvmake.running.outputs", "PIL.Image")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        import numpy as np
        from PIL import Image

        Intermediates().prepare(samples)
        os.environ["TVMAKE_HOME"] = str(samples / "home")
        image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
        np.save(samples / "a.npy", image)
        np.savez(samples / "a.npz", image=image)
        pixels = (image[0, 0] * 255).astype(np.uint8)
        for suffix in SUFFIXES:
            Image.fromarray(pixels).save(samples / f"a.{suffix}")
        (samples / "labels.txt").write_text("".join(f"class {number}\n" for number in range(10)))

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        shutil.copy(samples / PACKAGE, directory / "package.tar")
        suffix = chance.choice(("npy", "npy", "npz", "npz", "labels", chance.choice(SUFFIXES)))
        file = directory / ("labels.txt" if suffix == "labels" else f"a.{suffix}")
        sound = samples / file.name
        how = chance.choice(("bytes", "bytes", "claims", "replaced"))
        if how == "replaced":
            _other_kind_of_file(file, chance)
        elif suffix in ("npy", "npz"):
            file.write_bytes(other_array(sound, "image", how, chance))
        elif suffix == "labels":
            text = "\n".join(chance.choices(TEXTS, k=12)).encode(errors="surrogatepass")
            file.write_bytes(text if how == "claims" else mutate_bytes(sound.read_bytes(), chance))
        else:
            file.write_bytes(other_picture(sound, chance)[1])
        given = ["--labels", file.name, "--fill", "ones"] if suffix == "labels" else ["--input", file.name]
        pixels = [] if suffix in ("npy", "npz", "labels") else ["--preprocess", "color=gray"]

        def wrong() -> str | None:
            import numpy as np

            with np.load(directory / "out.npz", allow_pickle=False) as made:
                shapes = {made[name].shape for name in made.files}
            return None if shapes == {(1, 10)} else f"outputs of shapes {shapes}"

        command = ["run", "package.tar", *given, *pixels, "--output", "out.npz"]
        return Case(f"{how} of {file.name}", [command], wrong, ("out.npz",))


def _other_kind_of_file(file: Path, chance: random.Random) -> None:
    match chance.randrange(5):
        case 0:
            os.mkfifo(file)
        case 1:
            file.symlink_to(chance.choice(("/dev/zero", "/proc/kmsg", file.name, "nowhere")))
        case 2:
            file.mkdir()
        case 3:
            with file.open("wb") as holes:
                holes.truncate(8 << 30)
        case 4:
            file.write_bytes(b"")
