from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.config.dataset import DatasetConfig
from tvmake.errors import InputError
from tvmake.validate.dataset import load_dataset

RESOURCES = Path(__file__).parents[2] / "resources"


def tensor(name, shape, dtype="float32") -> TensorSpec:
    return TensorSpec(name=name, relax_name=name, shape=shape, dtype=dtype)


def signature(*shape, dtype="float32", classes=10) -> Signature:
    return Signature(inputs=(tensor("image", shape, dtype),), outputs=(tensor("logits", (shape[0], classes)),))


def opened(path, sign, **config):
    return load_dataset(DatasetConfig.model_validate({"path": str(path), **config}), sign)


def npz(tmp_path, **arrays) -> Path:
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    return path


def image(path: Path, color=(255, 0, 0), size=(20, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return path


def noise_image(path: Path, height=50, width=80) -> np.ndarray:
    pixels = np.random.RandomState(0).randint(0, 256, (height, width, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


def test_the_digits_come_as_the_network_wants_them_with_their_labels():
    dataset = opened(RESOURCES / "digits-test.npz", signature(1, 1, 8, 8), preprocess={"scale": 0.0625})
    samples = list(dataset)
    assert len(dataset) == len(samples) == 360
    first = samples[0].inputs["image"]
    assert (first.shape, first.dtype, first.flags.c_contiguous) == ((1, 1, 8, 8), np.float32, True)
    assert max(sample.inputs["image"].max() for sample in samples) == 1.0
    with np.load(RESOURCES / "digits-test.npz") as data:
        np.testing.assert_array_equal(first[0, 0], data["images"][0] / 16)
        np.testing.assert_array_equal(np.concatenate([sample.labels for sample in samples]), data["labels"])


def test_a_limit_draws_the_same_samples_for_the_same_seed(tmp_path):
    path = npz(tmp_path, images=np.arange(100.0).reshape(100, 1), labels=np.arange(100) % 10)

    def drawn(seed):
        return [float(sample.inputs["image"][0, 0]) for sample in opened(path, signature(1, 1), limit=10, seed=seed)]

    assert drawn(1) == drawn(1) == sorted(drawn(1))
    assert len(set(drawn(1))) == 10
    assert drawn(1) != drawn(2)


def test_images_fill_batches_and_a_rest_is_left_out(tmp_path):
    path = npz(tmp_path, images=np.arange(7 * 4.0).reshape(7, 2, 2), labels=np.arange(7))
    samples = list(opened(path, signature(3, 1, 2, 2)))
    assert [sample.inputs["image"].shape for sample in samples] == [(3, 1, 2, 2)] * 2
    assert [sample.labels.tolist() for sample in samples] == [[0, 1, 2], [3, 4, 5]]


def test_a_dynamic_batch_takes_its_extent_from_dims(tmp_path):
    path = npz(tmp_path, images=np.zeros((4, 2, 2)))
    config = DatasetConfig(path=str(path))
    dataset = load_dataset(config, signature("N", 1, 2, 2), dims={"N": 2})
    assert next(iter(dataset)).inputs["image"].shape == (2, 1, 2, 2)
    assert len(load_dataset(config, signature("N", 1, 2, 2))) == 4


def test_arrays_without_labels_have_none(tmp_path):
    samples = list(opened(npz(tmp_path, images=np.zeros((2, 4), np.float32)), signature(1, 4)))
    assert [sample.labels for sample in samples] == [None, None]


def test_an_only_array_is_that_of_the_samples_whatever_its_name(tmp_path):
    path = npz(tmp_path, x=np.ones((2, 64), np.float32), labels=np.arange(2))
    assert next(iter(opened(path, signature(1, 64)))).inputs["image"].shape == (1, 64)
    boxes = npz(tmp_path, boxes=np.ones((2, 64), np.float32))
    with pytest.raises(InputError, match="has no array 'images'"):
        opened(boxes, signature(1, 64), truth=["boxes"])


def test_a_negative_label_is_refused_when_the_array_is_opened(tmp_path):
    with pytest.raises(InputError, match="sample 1: has label -1"):
        opened(npz(tmp_path, images=np.zeros((2, 4), np.float32), labels=np.array([0, -1])), signature(1, 4))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_a_number_is_refused_when_the_array_is_opened_wherever_it_is(tmp_path, value):
    images = np.zeros((6, 4), np.float32)
    images[4, 1] = value
    path = npz(tmp_path, images=images)
    for batch in (1, 2):
        with pytest.raises(InputError, match="sample 4: input 'image' has NaN or infinity"):
            opened(path, signature(batch, 4))
    assert len(opened(path, signature(4, 4))) == 1  # the rest that fills no batch is never read


def test_rows_of_exactly_the_models_shape_are_taken_unchanged_even_without_a_batch_axis(tmp_path):
    rows = np.random.RandomState(0).standard_normal((3, 5, 6)).astype(np.float32)
    sign = Signature(inputs=(tensor("image", (5, 6)),), outputs=(tensor("y", (5, 6)),))
    for row, sample in zip(rows, opened(npz(tmp_path, images=rows), sign), strict=True):
        np.testing.assert_array_equal(sample.inputs["image"], row)


def test_token_ids_keep_values_that_float32_cannot_hold(tmp_path):
    ids = np.array([[2**24 + 1, 2**40 + 1]])
    sample = next(iter(opened(npz(tmp_path, images=ids), signature(1, 2, dtype="int64"))))
    np.testing.assert_array_equal(sample.inputs["image"], ids)


def test_several_inputs_are_fed_from_several_arrays(tmp_path):
    path = npz(tmp_path, images=np.zeros((2, 3), np.int64), mask=np.ones((2, 3), np.int32))
    sign = Signature(inputs=(tensor("ids", (1, 3), "int64"), tensor("mask", (1, 3), "int64")), outputs=())
    sample = next(iter(opened(path, sign, arrays={"mask": "mask"})))
    assert {name: (array.shape, array.dtype.name) for name, array in sample.inputs.items()} == {
        "ids": ((1, 3), "int64"),
        "mask": ((1, 3), "int64"),
    }


def test_sub_directories_are_classes_in_alphabetical_order(tmp_path):
    image(tmp_path / "cat" / "1.png")
    image(tmp_path / "ant" / "2.png")
    dataset = opened(tmp_path, signature(1, 3, 10, 20, classes=2))
    assert dataset.label_names == ["ant", "cat"]
    assert [sample.labels.tolist() for sample in dataset] == [[0], [1]]


def test_label_names_decide_the_index_of_a_directory(tmp_path):
    image(tmp_path / "data" / "cat" / "1.png")
    names = tmp_path / "names.txt"
    names.write_text("dog\ncat\n")
    dataset = opened(tmp_path / "data", signature(1, 3, 10, 20, classes=2), label_names=str(names))
    assert next(iter(dataset)).labels.tolist() == [1]


def test_sub_directories_of_some_classes_only_are_named_and_label_names_asked_for(tmp_path):
    for name in ("cat", "dog", "emu"):
        image(tmp_path / name / "a.png")
    problem = (
        r"has 3 sub-directories \(cat, dog, emu\), the model has 10 classes\n  list every class under `label_names`"
    )
    with pytest.raises(InputError, match=problem):
        opened(tmp_path, signature(1, 3, 10, 20))
    names = ["cat", "dog", "emu", *map(str, range(7))]
    assert len(opened(tmp_path, signature(1, 3, 10, 20), label_names=names)) == 3
    with pytest.raises(InputError, match="has 4 label names"):
        opened(tmp_path, signature(1, 3, 10, 20), label_names=names[:4])


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_a_list_of_files_and_labels(tmp_path, suffix, separator):
    image(tmp_path / "images" / "a.png")
    image(tmp_path / "images" / "b.png")
    lines = [("file", "label"), ("images/a.png", "7"), ("images/b.png", "cat")]
    path = tmp_path / f"list.{suffix}"
    path.write_text("\n".join(separator.join(line) for line in lines))
    names = ["cat", *(str(i) * 3 for i in range(9))]
    dataset = opened(path, signature(1, 3, 10, 20), label_names=names)
    assert [sample.labels.tolist() for sample in dataset] == [[7], [0]]


def test_image_files_are_scaled_to_one_and_laid_out_as_the_input_wants(tmp_path):
    image(tmp_path / "red.png", (255, 0, 102), (4, 4))
    nchw = next(iter(opened(tmp_path, signature(1, 3, 4, 4)))).inputs["image"]
    nhwc = next(iter(opened(tmp_path, signature(1, 4, 4, 3)))).inputs["image"]
    np.testing.assert_allclose(nchw[0, :, 0, 0], [1, 0, 0.4], rtol=1e-6)
    np.testing.assert_array_equal(nchw.transpose(0, 2, 3, 1), nhwc)


def test_bgr_reverses_the_channels_and_gray_weighs_them(tmp_path):
    image(tmp_path / "red.png", (200, 100, 50), (4, 4))
    bgr = next(iter(opened(tmp_path, signature(1, 3, 4, 4), preprocess={"color": "BGR", "scale": 1})))
    gray = next(iter(opened(tmp_path, signature(1, 1, 4, 4), preprocess={"scale": 1})))
    assert bgr.inputs["image"][0, :, 0, 0].tolist() == [50, 100, 200]
    assert gray.inputs["image"][0, 0, 0, 0] == round(0.299 * 200 + 0.587 * 100 + 0.114 * 50)


def test_gray_files_feed_three_channels(tmp_path):
    Image.new("L", (4, 4), 51).save(tmp_path / "gray.png")
    values = next(iter(opened(tmp_path, signature(1, 3, 4, 4)))).inputs["image"]
    np.testing.assert_allclose(values, np.full((1, 3, 4, 4), 0.2), rtol=1e-6)


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_of_sixteen_bits_the_upper_eight_are_taken(tmp_path, suffix):
    Image.fromarray(np.array([[0, 255], [40_000, 65_535]], np.uint16)).save(tmp_path / f"deep.{suffix}")
    values = next(iter(opened(tmp_path, signature(1, 1, 2, 2), preprocess={"scale": 1}))).inputs["image"]
    assert values.flatten().tolist() == [0, 0, 156, 255]


def test_pixels_of_32_bits_are_refused(tmp_path):
    for number, pixels in enumerate((np.full((2, 2), 0.5, np.float32), np.full((2, 2), 1 << 20, np.int32))):
        (tmp_path / str(number)).mkdir()
        Image.fromarray(pixels).save(tmp_path / str(number) / "deep.tif")
        with pytest.raises(InputError, match="its pixels have 32 bits: save it with 8 or 16"):
            next(iter(opened(tmp_path / str(number), signature(1, 1, 2, 2))))


def test_imagenet_preprocessing_is_that_of_pillow_and_numpy_by_hand(tmp_path):
    noise_image(tmp_path / "noise.png", 50, 80)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    preprocess = {"resize": 32, "crop": 28, "mean": mean, "std": std}
    got = next(iter(opened(tmp_path, signature(1, 3, 28, 28), preprocess=preprocess))).inputs["image"]
    resized = Image.open(tmp_path / "noise.png").resize((51, 32), Image.Resampling.BILINEAR)
    left = round((51 - 28) / 2)
    wanted = (np.asarray(resized)[2:30, left : left + 28] / 255 - mean) / std
    np.testing.assert_allclose(got[0], wanted.transpose(2, 0, 1), rtol=1e-4, atol=1e-5)


def test_stored_images_are_resized_like_files(tmp_path):
    pixels = noise_image(tmp_path / "noise.png")
    path = npz(tmp_path, images=pixels[None])
    preprocess = {"resize": (16, 24), "scale": 1}
    (tmp_path / "files").mkdir()
    (tmp_path / "noise.png").rename(tmp_path / "files" / "noise.png")
    stored, file = (
        next(iter(opened(source, signature(1, 3, 16, 24), preprocess=preprocess))).inputs["image"]
        for source in (path, tmp_path / "files")
    )
    np.testing.assert_array_equal(stored, file)


def test_a_quantised_input_gets_whole_pixels(tmp_path):
    image(tmp_path / "red.png", (255, 0, 102), (4, 4))
    values = next(iter(opened(tmp_path, signature(1, 4, 4, 3, dtype="uint8")))).inputs["image"]
    assert values.dtype == np.uint8
    assert values[0, 0, 0].tolist() == [255, 0, 102]
    shifted = opened(tmp_path, signature(1, 4, 4, 3, dtype="int8"), preprocess={"scale": 1, "mean": 128})
    assert next(iter(shifted)).inputs["image"][0, 0, 0].tolist() == [127, -128, -26]


ZEROS = np.zeros((4, 8, 8), np.uint8)


@pytest.mark.parametrize(
    ("arrays", "config", "sign", "says"),
    [
        ({"images": ZEROS}, {"images": "pixels"}, signature(1, 1, 8, 8), "has no array 'pixels'"),
        ({"images": ZEROS}, {"labels": "classes"}, signature(1, 1, 8, 8), "has no array 'classes'"),
        ({"images": ZEROS, "labels": np.arange(5)}, {}, signature(1, 1, 8, 8), "'labels' is [5] for 4 samples"),
        (
            {"images": ZEROS, "labels": np.array([0, 1, 12, 3])},
            {},
            signature(1, 1, 8, 8),
            "sample 2: has label 12, the model's classes are 0 to 9",
        ),
        ({"images": ZEROS, "labels": np.array([0, -1, 2, 3])}, {}, signature(1, 1, 8, 8), "sample 1: has label -1"),
        ({"images": ZEROS, "labels": np.array([0, 0.5, 2, 3])}, {}, signature(1, 1, 8, 8), "'labels' is float64"),
        ({"images": ZEROS}, {}, signature(1, 1, 9, 9), "is [8, 8], [1, 8, 8] after preprocessing; a sample of the"),
        ({"images": ZEROS}, {}, signature(1, 64), "a sample of the model's input is [64]"),
        ({"images": np.zeros((4, 65))}, {}, signature(1, 64), "is [65]; a sample of the model's input is [64]"),
        ({"images": np.array(["a", "b"])}, {}, signature(1, 1), "array 'images' is <U1"),
        ({"images": ZEROS}, {"limit": 2}, signature(3, 1, 8, 8), "2 of them for use; a call of the model needs 3"),
        ({"images": ZEROS}, {"input": "pixels"}, signature(1, 1, 8, 8), "the model has no input 'pixels'"),
        ({"images": ZEROS}, {"preprocess": {"crop": 9}}, signature(1, 1, 9, 9), "is 8×8 when it is to be cropped"),
        ({"images": ZEROS}, {"preprocess": {"mean": [1, 2]}}, signature(1, 1, 8, 8), "mean has 2 numbers, the input"),
        ({"images": ZEROS}, {"label_names": ["a"]}, signature(1, 1, 8, 8), "1 label name, the model has 10"),
        ({"images": ZEROS}, {"labels": "none"}, signature(1, 1, 8, 8), "or write null without labels"),
        ({"images": np.full((1, 2), 0.5)}, {}, signature(1, 2, dtype="int64"), "of type float64; the input is int64"),
        ({"images": np.full((1, 2), 300)}, {}, signature(1, 2, dtype="uint8"), "of type int64; the input is uint8"),
        ({"images": np.full((1, 2), -1)}, {}, signature(1, 2, dtype="bool"), "of type int64; the input is bool"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_what_they_have_and_what_is_wanted(
    tmp_path, arrays, config, sign, says
):
    path = npz(tmp_path, **arrays)
    with pytest.raises(InputError) as caught:
        list(opened(path, sign, **config))
    assert says in str(caught.value)
    assert caught.value.where.startswith(str(path))


@pytest.mark.parametrize(
    ("config", "batch", "remedy"),
    [
        ({"limit": 2}, 3, "add samples, or raise `limit`, or import the model with a smaller batch"),
        ({}, 5, "add samples, or import the model with a smaller batch"),
    ],
)
def test_of_too_few_samples_the_remedies_are_those_that_work(tmp_path, config, batch, remedy):
    with pytest.raises(InputError) as caught:
        opened(npz(tmp_path, images=ZEROS), signature(batch, 1, 8, 8), **config)
    assert caught.value.remedy == remedy


def test_a_second_input_that_nothing_feeds_is_refused(tmp_path):
    sign = Signature(inputs=(tensor("ids", (1, 3)), tensor("mask", (1, 3))), outputs=())
    with pytest.raises(InputError, match="nothing feeds input 'mask'"):
        opened(npz(tmp_path, images=np.zeros((2, 3))), sign)


def test_a_value_out_of_the_range_of_an_input_is_refused_and_not_wrapped(tmp_path):
    path = npz(tmp_path, images=np.ones((2, 4), "float32"), mask=np.array([[1, 2], [3, 2**40]]))
    sign = Signature(inputs=(tensor("x", (1, 4)), tensor("mask", (1, 2), "int32")), outputs=(tensor("y", (1, 10)),))
    with pytest.raises(InputError) as caught:
        list(opened(path, sign, arrays={"mask": "mask"}))
    assert caught.value.where == f"{path}, sample 1"
    assert caught.value.problem.startswith(
        "array 'mask' has the value 1099511627776 at [0, 1], out of the range of int32"
    )


def test_where_arrays_feed_every_input_the_remedy_is_one_that_works(tmp_path):
    sign = Signature(inputs=(tensor("ids", (1, 3)),), outputs=())
    path = npz(tmp_path, tokens=np.zeros((2, 3)))
    with pytest.raises(InputError) as caught:
        opened(path, sign, arrays={"ids": "tokens"})
    assert caught.value.remedy == "remove 'ids' from `arrays`, and set its key as `images: tokens`"
    assert len(opened(path, sign, images="tokens")) == 2


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n broken"])
def test_an_unreadable_image_is_refused_by_name(tmp_path, content):
    (tmp_path / "bad.png").write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.png: not a readable image"):
        list(opened(tmp_path, signature(1, 3, 4, 4)))


def test_class_indices_of_a_list_may_be_written_as_pandas_writes_a_column_with_gaps(tmp_path):
    for name in ("a.png", "b.png"):
        image(tmp_path / name)
    (tmp_path / "list.csv").write_text("a.png,0.0\nb.png,1.0\n")
    dataset = opened(tmp_path / "list.csv", signature(1, 3, 10, 20))
    assert [sample.labels.tolist() for sample in dataset] == [[0], [1]]


def test_a_truncated_image_is_refused_by_name(tmp_path):
    noise_image(tmp_path / "cut.png")
    data = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"cut\.png: not a readable image"):
        list(opened(tmp_path, signature(1, 3, 50, 80)))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("list.csv", "a.png,1\nb.png\n", "list.csv:2: has 1 columns"),
        ("list.csv", "a.png,cat\n", "list.csv:1: label 'cat' is not a class"),
        ("list.csv", "a.png;1\n", "list.csv:1: has one column, with ';' in it\n  write `file,label` on every line"),
        ("list.csv", "0,a.png\n", "label 'a.png' is not a class\n  the file comes first, and then its label"),
        ("list.csv", "a.png,0.5\n", "label '0.5' is not a class"),
        ("list.csv", "file,label\n", "lists no files"),
        ("list.csv", "a.png,1\n", "a.png: no such file"),
        ("list.csv", "here.png,1\nhere.png,2\n", "list.csv:2: here.png has the label '2', and '1' in line 1"),
        ("list.csv", "here.png,1\nthere.png,2\n", "there.png: no such file\n  remove the line"),
        ("data.npz", "garbage", "not an .npz of arrays"),
        ("data.npz", "", "data.npz: is empty"),
        (
            "data.npz",
            "version https://git-lfs.github.com/spec/v1\n",
            "a pointer of Git LFS, not the file itself\n  fetch it",
        ),
        ("data.npz", "PK\x03\x04 and no more", "is cut off: an .npz has a table of its arrays at its end"),
        ("data.bin", "garbage", "not a dataset"),
    ],
)
def test_files_that_are_no_dataset_are_refused(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    image(tmp_path / "here.png")
    with pytest.raises(InputError) as caught:
        list(opened(tmp_path / name, signature(1, 3, 4, 4)))
    assert says in str(caught.value)


@pytest.mark.parametrize("key", ["images", "labels"])
@pytest.mark.parametrize("name", ["", "list.csv"])
def test_keys_of_arrays_are_refused_where_the_samples_are_files(tmp_path, name, key):
    image(tmp_path / "a.png")
    (tmp_path / "list.csv").write_text("a.png,1\n")
    with pytest.raises(InputError, match=f"on which `{key}: mine` has no effect"):
        opened(tmp_path / name, signature(1, 3, 10, 20), **{key: "mine"})


def test_a_list_in_another_encoding_is_named_with_the_command_that_mends_it(tmp_path):
    (tmp_path / "list.csv").write_bytes("a.png,1\n".encode("utf-16"))
    with pytest.raises(InputError, match="it is not UTF-8 text\n  save it as UTF-8"):
        opened(tmp_path / "list.csv", signature(1, 3, 10, 20))


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_label(tmp_path):
    image(tmp_path / "data" / "cat" / "1.png")
    names = tmp_path / "names.txt"
    names.write_bytes("cat\ndog\n".encode("utf-8-sig"))
    dataset = opened(tmp_path / "data", signature(1, 3, 10, 20, classes=2), label_names=str(names))
    assert next(iter(dataset)).labels.tolist() == [0]


def test_a_link_that_leads_to_no_image_is_named_and_not_left_out(tmp_path):
    image(tmp_path / "a.png")
    (tmp_path / "b.png").symlink_to("gone.png")
    with pytest.raises(InputError, match=r"b\.png: no such file"):
        list(opened(tmp_path, signature(1, 3, 10, 20)))


def test_an_image_of_too_many_pixels_reports_the_limit(tmp_path):
    Image.new("1", (20_000, 9_000)).save(tmp_path / "large.png")
    with pytest.raises(InputError, match=r"large\.png: has more than 178,956,970 pixels"):
        list(opened(tmp_path, signature(1, 3, 4, 4)))


def test_a_missing_or_empty_directory_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such dataset"):
        opened(tmp_path / "nowhere", signature(1, 3, 4, 4))
    with pytest.raises(InputError, match="has no images"):
        opened(tmp_path, signature(1, 3, 4, 4))


def test_an_npz_of_pickles_is_not_unpickled(tmp_path):
    path = npz(tmp_path, images=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="cannot be read"):
        opened(path, signature(1, 1))
