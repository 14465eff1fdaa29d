"""Arrays as the inputs of a package."""

import numpy as np
import pytest

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.running.inputs import match_inputs

SIGNATURE = Signature(inputs=(TensorSpec(name="image", relax_name="image", shape=(1, 3), dtype="float32"),), outputs=())


def test_an_array_that_fits_is_taken_as_it_is():
    array = np.zeros((1, 3), np.float32)
    assert match_inputs(SIGNATURE, {"image": array}, None)["image"] is array


@pytest.mark.parametrize(
    "array",
    [np.ones((1, 3)), np.ones((1, 3), ">f4"), np.asfortranarray(np.ones((3, 1), np.float32)).T, np.ones((1, 6), np.float32)[:, ::2]],
)  # fmt: skip
def test_other_numbers_and_other_orders_in_memory_are_made_to_fit(array: np.ndarray):
    fitted = match_inputs(SIGNATURE, {"image": array}, None)["image"]
    assert fitted.dtype == np.dtype("float32") and fitted.flags.c_contiguous and fitted.tolist() == [[1, 1, 1]]
