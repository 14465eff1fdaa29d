"""Models: ONNX, .pt2 and TFLite files for `tvmake step import`."""

import io
import json
import random
import shutil
import zipfile
from pathlib import Path

from .cases import Case
from .mutate import dumps, mutate_bytes, mutate_json, mutate_message

ROOT = Path(__file__).resolve().parents[2]
OUTPUTS = {"--module": "m.json", "--params": "m.params", "--signature": "s.json", "--source": "source.json"}


def imported(file: Path, what: str) -> Case:
    """A case for the import stage: what it accepts has to name the very bytes it was given."""
    options = [word for pair in OUTPUTS.items() for word in pair]
    command = ["step", "import", "--options", json.dumps({"source": file.name}), *options]

    def wrong() -> str | None:
        from tvmake.storage.files import digest_file

        record = json.loads((file.parent / "source.json").read_text())
        if record["files"].get(file.name) != digest_file(file):
            return "its provenance belongs to other bytes"
        names = json.loads((file.parent / "s.json").read_text())
        return None if names["outputs"] else "it has no outputs"

    return Case(what, [command], wrong, (*OUTPUTS.values(), ".snakemake/"))


class Onnx:
    """Bytes and fields of the demo's network, and of one with functions, bodies and external data."""

    preload = ("tvmake.cli.app", "tvmake.frontend.onnx.importer")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        import numpy as np
        import onnx
        from onnx import parser

        model = onnx.load(ROOT / "resources" / "digits.onnx")
        # Without most of its weights' bytes a mutation meets the structure.
        onnx.save(model, samples / "digits.onnx")
        text = """
        <ir_version: 9, opset_import: ["" : 18, "own" : 1]>
        main (float[N, 4] x, bool c) => (float[N, 4] y) {
            two = Constant <value = float[4] {2.0, 2.0, 2.0, 2.0}> ()
            a = own.twice (x)
            b = If (c) <then_branch = then () => (float[N, 4] t) { t = Mul (a, two) },
                        else_branch = other () => (float[N, 4] e) { e = Add (a, two) }>
            s = Shape (b)
            r = Reshape (b, s)
            y = Softmax <axis = -1> (r)
        }
        <domain: "own", opset_import: ["" : 18]>
        twice (x) => (y) { y = Add (x, x) }
        """
        onnx.save(parser.parse_model(text), samples / "functions.onnx")
        rng = np.random.default_rng(0)
        weights = onnx.numpy_helper.from_array(rng.random((8, 4), dtype=np.float32), "w")
        node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [node], "g", [value("x", 1, [2, 8])], [value("y", 1, [2, 4])], initializer=[weights]
        )
        external = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
        onnx.save(
            external,
            samples / "external.onnx",
            save_as_external_data=True,
            location="external.onnx.data",
            size_threshold=0,
        )

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        sample = samples / chance.choice(("digits.onnx", "functions.onnx", "functions.onnx", "external.onnx"))
        for data in samples.glob(f"{sample.name}.data"):
            shutil.copy(data, directory)
        how = chance.choice((mutate_bytes, mutate_message, mutate_message))
        (directory / sample.name).write_bytes(how(sample.read_bytes(), chance))
        return imported(directory / sample.name, f"{sample.name} {how.__name__}")


class Pt2:
    """Bytes, members and descriptions of exported programs."""

    preload = ("torch", "tvmake.cli.app", "tvmake.frontend.torch.importer", "tvmake.frontend.torch.source")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        import torch

        class Network(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.line = torch.nn.Linear(4, 3)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.softmax(self.line(x.reshape(x.shape[0], -1)) + 1.5, -1)

        batch = torch.export.Dim("batch", min=2, max=64)
        torch.manual_seed(0)
        program = torch.export.export(Network().eval(), (torch.zeros(2, 2, 2),), dynamic_shapes=({0: batch},))
        torch.export.save(program, samples / "small.pt2")
        shutil.copy(ROOT / "resources" / "digits.pt2", samples)

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        sample = samples / chance.choice(("small.pt2", "small.pt2", "small.pt2", "digits.pt2"))
        if chance.random() < 0.25:
            how, data = "bytes", mutate_bytes(sample.read_bytes(), chance)
        else:
            how, data = _rezipped(sample.read_bytes(), chance)
        (directory / sample.name).write_bytes(data)
        return imported(directory / sample.name, f"{sample.name} {how}")


def _rezipped(data: bytes, chance: random.Random) -> tuple[str, bytes]:
    """A zip archive with a member changed, gone, twice, renamed or compressed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    described = [index for index, (name, _) in enumerate(members) if name.endswith(".json")]
    index = chance.choice(described) if chance.random() < 0.75 else chance.randrange(len(members))
    name, content = members[index]
    compression = zipfile.ZIP_STORED
    how = (
        "json"
        if index in described and chance.random() < 0.9
        else chance.choice(("content", "gone", "twice", "renamed", "compressed", "bomb"))
    )
    match how:
        case "json":
            members[index] = (name, dumps(mutate_json(json.loads(content), chance)))
        case "content":
            members[index] = (name, mutate_bytes(content, chance))
        case "gone":
            del members[index]
        case "twice":
            members.append((name, mutate_bytes(content, chance)))
        case "renamed":
            members[index] = (chance.choice((f"{name}x", "../../outside/x", "a/data.pkl", name.upper())), content)
        case "compressed":
            compression = zipfile.ZIP_DEFLATED
        case "bomb":
            compression = zipfile.ZIP_DEFLATED
            members[index] = (name, bytes(300 << 20))
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", compression) as archive:
        for member in members:
            archive.writestr(*member)
    return f"{how} of {name.partition('/')[2]}", written.getvalue()


class TFLite:
    """Bytes and aligned numbers, which are offsets and lengths, of a small network."""

    preload = ("tvmake.cli.app", "tvmake.frontend.tflite.importer")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        from tests.frontend.tflite.models import convolutional, lookup

        (samples / "float.tflite").write_bytes(convolutional(quantised=False))
        (samples / "int8.tflite").write_bytes(convolutional(quantised=True))
        (samples / "lookup.tflite").write_bytes(lookup())

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        sample = samples / chance.choice(("float.tflite", "int8.tflite", "lookup.tflite"))
        (directory / sample.name).write_bytes(mutate_bytes(sample.read_bytes(), chance))
        return imported(directory / sample.name, f"{sample.name} bytes")
