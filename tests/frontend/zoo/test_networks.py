import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.frontend.compiled import run_compiled
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch import importer as torch_export
from tvmake.frontend.torch import program as torch_program
from tvmake.frontend.torch import source as torch_source
from tvmake.frontend.zoo import models as zoo
from tvmake.frontend.zoo.networks import build
from tvmake.frontend.zoo_names import NETWORK_NAMES

# torchvision's documentation; for inception_v3 without the auxiliary head, for mobilenet_v1 Keras' trainable weights.
PUBLISHED_PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "vgg16": 138_357_544,
    "mobilenet_v1": 4_231_976,
    "mobilenet_v2": 3_504_872,
    "squeezenet1_1": 1_235_496,
    "inception_v3": 23_834_568,
}
QUICK = ("resnet18", "mobilenet_v1", "mobilenet_v2", "squeezenet1_1")


def export(name, **settings):
    options = ImportOptions(source=f"zoo:{name}", **settings)
    return torch_source.load_program(options.source, options), options


def test_every_network_has_its_published_number_of_parameters():
    assert set(NETWORK_NAMES) == set(PUBLISHED_PARAMETERS)
    with torch.device("meta"):
        counts = {name: sum(p.numel() for p in build(name, num_classes=1000).parameters()) for name in NETWORK_NAMES}
    assert counts == PUBLISHED_PARAMETERS


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in NETWORK_NAMES]
)
def test_the_output_depends_on_the_image(name):
    """Two images of white noise look alike to a convolutional network; their logits still differ by far more than
    rounding does (1e-4), and logits keep a scale near one."""
    network = zoo.seeded_network(name, 0, num_classes=100)
    size = zoo.arguments_model(name)().size
    low, high = zoo.INPUT_RANGE
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(1)) * (high - low) + low
    with torch.no_grad():
        first, second = network(images)
    assert 0.02 < first.std() < 20
    assert (first - second).norm() / second.norm() > 0.1


def test_an_imported_network_agrees_with_pytorch():
    program, options = export("squeezenet1_1", arguments={"size": 64, "num_classes": 10, "batch": 2})
    model = torch_export.read(program, options)
    (x,) = model.signature.inputs
    assert (x.name, x.shape, x.range) == ("x", (2, 3, 64, 64), (-2.0, 2.0))
    image = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) * 4 - 2
    reference = torch_program.run(program, [image])[0].numpy()
    np.testing.assert_allclose(run_compiled(model, [image.numpy()])[0], reference, rtol=1e-4, atol=1e-4)


DIGEST = """
import hashlib
from tvmake.frontend.zoo import models as zoo

def digest(name, seed):
    state = zoo.seeded_network(name, seed, num_classes=10).state_dict()
    return hashlib.sha256(b"".join(key.encode() + value.numpy().tobytes() for key, value in state.items())).hexdigest()
"""


def digest(name, seed):
    definitions = {}
    exec(DIGEST, definitions)
    return definitions["digest"](name, seed)


def test_weights_have_the_same_bits_in_every_process_with_any_number_of_threads():
    threads = str(torch.get_num_threads() + 1)
    process = subprocess.run(
        [sys.executable, "-c", DIGEST + "print(digest('resnet18', 3))"],
        env={**os.environ, "OMP_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
        check=True,
        capture_output=True,
        text=True,
    )
    assert process.stdout == digest("resnet18", 3) + "\n"


def test_the_seed_determines_the_weights():
    assert digest("squeezenet1_1", 0) != digest("squeezenet1_1", 1)


def test_building_a_network_does_not_change_the_global_random_state_or_thread_count():
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    zoo.seeded_network("squeezenet1_1", 0, num_classes=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("name", "arguments", "problem", "remedy"),
    [
        ("resnet18", {"width": 0.5}, "takes no argument 'width'", "num_classes (1000), size (224), batch (1)"),
        ("resnet18", {"classes": 5}, "'classes'; did you mean 'num_classes'", "num_classes (1000)"),
        ("inception_v3", {"size": 32}, "arguments.size: .*75, not 32", "size (299)"),
        ("mobilenet_v1", {"width": 0}, "arguments.width: .*greater than 0", "width (1.0)"),
        ("resnet18", {"batch": "two"}, "arguments.batch: .*integer.*'two'", "batch (1)"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_there_is(name, arguments, problem, remedy):
    with pytest.raises(InputError, match=problem) as caught:
        export(name, arguments=arguments)
    assert remedy in caught.value.remedy
