import hashlib

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.validate.reference.stored import ReferenceSample, ReferenceSet, ReferenceSetInfo, write_reference_set


def info(inputs=("x",), outputs=("y",), dtype="float32") -> ReferenceSetInfo:
    def specs(names):
        return tuple(TensorSpec(name=name, relax_name="v", shape=("n",), dtype=dtype) for name in names)

    return ReferenceSetInfo(
        signature=Signature(inputs=specs(inputs), outputs=specs(outputs)), runtime="test 1", data="random", seed=0
    )


def sample(value=1.0, labels=None) -> ReferenceSample:
    return ReferenceSample({"x": np.full(3, value)}, {"y": np.full((1, 2), value)}, labels)


ARRAYS = hnp.arrays(
    st.one_of(hnp.floating_dtypes(endianness="<"), hnp.integer_dtypes(endianness="<"), hnp.boolean_dtypes()),
    hnp.array_shapes(min_dims=0, max_side=4),
)


@given(value=ARRAYS, name=st.text(min_size=1, max_size=20))
def test_any_array_under_any_name_comes_back_unchanged(tmp_path_factory, value, name):
    path = tmp_path_factory.mktemp("set") / "reference.npz"
    name = name.encode("utf-8", "replace").decode()
    write_reference_set(path, info((name,), (name,)), [ReferenceSample({name: value}, {name: value}, None)])
    (back,) = ReferenceSet(path)
    for array in (back.inputs[name], back.outputs[name]):
        assert (array.dtype, array.shape) == (value.dtype, value.shape)
        assert array.tobytes() == value.tobytes()


def test_bfloat16_comes_back_as_bfloat16(tmp_path):
    value = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    write_reference_set(tmp_path / "r.npz", info(dtype="bfloat16"), [ReferenceSample({"x": value}, {"y": value}, None)])
    (back,) = ReferenceSet(tmp_path / "r.npz")
    assert back.inputs["x"].dtype == ml_dtypes.bfloat16
    assert back.outputs["y"].tolist() == [1.5, -2.0]


def test_equal_content_is_equal_bytes_whenever_it_is_written(tmp_path, monkeypatch):
    digests = set()
    for number, now in enumerate((1e9, 1.7e9)):
        monkeypatch.setattr("time.time", lambda now=now: now)
        path = tmp_path / f"{number}.npz"
        write_reference_set(path, info(), [sample(1.0, np.array([3])), sample(2.0, np.array([4]))])
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_counts_and_labels_are_kept(tmp_path):
    path = tmp_path / "r.npz"
    written = write_reference_set(path, info(), [sample(1.0, np.array([3])), sample(2.0, np.array([4]))])
    assert (written.samples, written.labelled) == (2, 2)
    reference = ReferenceSet(path)
    assert len(reference) == 2
    assert reference.info == written
    assert [one.labels.tolist() for one in reference] == [[3], [4]]
    assert [one.labels for one in reference] != [None, None]


def test_numpy_opens_it(tmp_path):
    write_reference_set(tmp_path / "r.npz", info(), [sample(4.0)])
    with np.load(tmp_path / "r.npz") as data:
        np.testing.assert_array_equal(data["input/x/00000"], np.full(3, 4.0))
        np.testing.assert_array_equal(data["output/y/00000"], np.full((1, 2), 4.0))


def test_a_reference_that_fails_midway_leaves_no_file(tmp_path):
    def failing():
        yield sample()
        raise InputError("model.onnx", "cannot be run")

    with pytest.raises(InputError):
        write_reference_set(tmp_path / "r.npz", info(), failing())
    assert list(tmp_path.iterdir()) == []


def test_no_samples_are_refused(tmp_path):
    with pytest.raises(InputError, match="no samples"):
        write_reference_set(tmp_path / "r.npz", info(), [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_not_a_reference_set_is_refused(tmp_path, content):
    (tmp_path / "r.npz").write_bytes(content)
    with pytest.raises(InputError, match="not a reference set"):
        ReferenceSet(tmp_path / "r.npz")
    with pytest.raises(InputError, match="no such file"):
        ReferenceSet(tmp_path / "none.npz")


def test_a_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "r.npz"
    value = np.full(1000, 7.25)
    write_reference_set(path, info(), [ReferenceSample({"x": value}, {"y": value}, None)])
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="cannot be read"):
        list(ReferenceSet(path))
