"""How a package computes sizes for which it has no code of its own."""

from tvmake.artifact.manifest import Manifest, PackageFunction, RowRange
from tvmake.artifact.other_sizes import other_sizes
from tvmake.artifact.signature import Bounds, Signature


def function(least: int, most: int | None, **sizes: int) -> PackageFunction:
    rows = RowRange(dimension="batch", least=least, most=most)
    return PackageFunction(name="f", sizes=sizes, kernels=[], rows=rows)


def described(bounds: Bounds, *functions: PackageFunction) -> list[tuple[str, str, dict[str, int]]]:
    signature = Signature(inputs=(), outputs=(), bounds={"batch": bounds})
    manifest = Manifest.model_construct(signature=signature, functions=list(functions))
    return [(entry.range, entry.how, entry.smallest) for entry in other_sizes(manifest)]


def test_ranges_are_padded_below_a_function_and_split_above_it():
    assert described((1, None), function(1, 2, batch=1), function(3, None, batch=4)) == [
        ("batch 2", "1 at a time", {"batch": 2}),
        ("batch 3", "padded to 4", {"batch": 3}),
        ("batch 5 or more", "4 at a time, and the rest as a smaller size", {"batch": 5}),
    ]


def test_ranges_stay_within_the_bounds_of_the_dimension():
    assert described((2, 8), function(1, None, batch=8)) == [("batch 2 to 7", "padded to 8", {"batch": 2})]


def test_other_dimensions_have_the_sizes_of_the_function():
    found = described((1, 4), function(1, None, batch=4, length=16), function(1, None, length=3, batch=2))
    assert found == [
        ("length=3, batch 1", "padded to 2", {"batch": 1, "length": 3}),
        ("length=3, batch 3 to 4", "2 at a time, and the rest as a smaller size", {"batch": 3, "length": 3}),
        ("length=16, batch 1 to 3", "padded to 4", {"batch": 1, "length": 16}),
    ]


def test_packages_with_dynamic_code_have_none():
    assert described((1, None), PackageFunction(name="main_any", sizes={}, kernels=[])) == []
