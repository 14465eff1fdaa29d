"""Images are read through their sampler."""

from tests.targets.adreno_texture.nets import conv, sources, tensor

X, W, V = tensor(1, 8, 8, 8), tensor(8, 8, 3, 3), tensor(8, 8, 3, 3)

WITHOUT, WITH = "read_imagef(image, coord)", "read_imagef(image, sampler, coord)"


def code():
    return "".join(sources(lambda x, w, v: conv(conv(x, w), v), X, W, V).values())


def test_every_read_has_a_sampler():
    made = code()
    assert "READ_IMAGEF" in made
    assert WITHOUT not in made and WITH in made
