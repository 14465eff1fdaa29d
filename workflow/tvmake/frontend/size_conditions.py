"""What has to be true of the inputs' sizes for those to be equal that operators need to be, as shapes of inputs and checks at run time.

A condition that gives a dimension by others (``total`` is ``past + length``) becomes the input's shape. Conditions that only the
multiples of a number meet make the dimension that number times another size: all sizes of the network are simple then, and known to be
equal. Others are checked when the network begins to run, and operands stay cast to the size that was taken for both.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.signature import Bounds
from tvmake.errors import InputError
from tvmake.frontend.equal_sizes import EqualSizes
from tvmake.ir.bounds import bounds_of, with_bounds
from tvmake.ir.rewriting import with_functions
from tvmake.ir.size_checks import with_size_checks
from tvmake.ir.size_expressions import divisors, evaluate_size, has_choice, size_text, with_sizes

from tvm import relax, tirx  # isort: skip

MOST_REMAINDERS = 4096
"""The largest divisor whose multiples are looked for."""

TIMES = (1, 2, 3, 7)

SAMPLES = 256
"""Sizes of several dimensions for which conditions are tried."""

LARGEST_SAMPLE = 500

BEYOND = (1, 2, 3, 10, 100, 1000)
"""How much more than a limit is tried, all of which has to be too much."""


def settle_sizes(module: "tvm.IRModule", equal_sizes: Sequence[EqualSizes], where: str) -> "tvm.IRModule":
    """A module in which dimensions meet the conditions: by the shapes of ``main``'s parameters, or by checks when it begins to run.

    Args:
        equal_sizes: what was taken for equal, in sizes of ``main``'s dimensions.
        where: the source, for messages.

    Raises:
        InputError: no size meets the conditions.
    """
    conditions = _conditions(module, equal_sizes)
    for condition in conditions:
        if not _names(condition):
            raise InputError(where, f"{_needs(condition)}, which they are not", "give the inputs other shapes")
    if not conditions:
        return module
    while (found := _defined_dimension(module, conditions)) is not None:
        module = relax.transform.BindSymbolicVars(found, "main")(module)
        conditions = _conditions(module, bind_sizes(conditions, found))
    multiples: dict[str, tuple[int, EqualSizes]] = {}
    rest: list[EqualSizes] = []
    implied: dict[str, Bounds] = {}
    for name, of_dimension in _by_dimension(conditions).items():
        multiple = _multiple(name, of_dimension, where) if name else None
        if name and (least := _smallest_size(name, of_dimension)) is not None:
            implied[name] = least, _largest_size(name, of_dimension, least)
        if multiple is None:
            rest += of_dimension
        elif multiple > 1:
            multiples[name] = multiple, of_dimension[0]
    if multiples or rest:
        module = with_bounds(module, _narrow(bounds_of(module), implied, conditions, where))
        analyzer = _analyzer(module)  # bounds are checked before a network runs
        rest = [
            replace(condition, size=analyzer.simplify(condition.size), wanted=analyzer.simplify(condition.wanted))
            for condition in rest
            if not analyzer.can_prove_equal(condition.size, condition.wanted)
        ]
        rest.sort(key=lambda condition: len(_needs(condition)))  # the first that fails is reported
        module = with_functions(module, {"main": _checked(module["main"], multiples, rest)})
    return relax.transform.CanonicalizeBindings()(module)  # without the casts that change nothing


def bind_sizes(equal_sizes: Iterable[EqualSizes], dims: Mapping[str, Any]) -> list[EqualSizes]:
    """Conditions with sizes for some of the dimensions, by their names."""
    return [
        replace(each, size=with_sizes(each.size, dims), wanted=with_sizes(each.wanted, dims)) for each in equal_sizes
    ]


def _conditions(module: "tvm.IRModule", equal_sizes: Sequence[EqualSizes]) -> list[EqualSizes]:
    """The conditions on inputs alone, each once, without those that are met by all sizes."""
    known, analyzer = _dimensions(module["main"]), _analyzer(module)
    conditions = {(size_text(each.size), size_text(each.wanted)): each for each in reversed(equal_sizes)}
    return [
        condition
        for condition in reversed(conditions.values())
        if (names := _names(condition)) <= known.keys()
        and not analyzer.can_prove_equal(condition.size, condition.wanted)
        and not _is_always_met(condition, sorted(names))
    ]


def _analyzer(module: "tvm.IRModule") -> Any:
    """What knows the bounds of the dimensions of ``main``'s parameters."""
    analyzer, bounds = tvm.sym.Analyzer(), bounds_of(module)
    for name, dimension in _dimensions(module["main"]).items():
        _bind(analyzer, dimension, *bounds.get(name, (0, None)))
    return analyzer


def _bind(analyzer: Any, dimension: Any, least: int, most: int | None) -> None:
    unlimited = tvm.sym.ConstIntBound.POS_INF
    analyzer.update(dimension, tvm.sym.ConstIntBound(least, unlimited if most is None else most))


def _dimensions(main: "relax.Function") -> dict[str, Any]:
    """The dimensions of ``main``'s parameters by name, in order."""
    found: dict[str, Any] = {}
    for parameter in main.params:
        for size in getattr(parameter.ty, "shape", None) or ():
            if isinstance(size, tirx.Var):
                found.setdefault(str(size.name), size)
    return found


def _names(condition: EqualSizes) -> set[str]:
    return _dimension_names(condition.size) | _dimension_names(condition.wanted)


def _dimension_names(size: Any) -> set[str]:
    return {str(dimension.name) for dimension in tirx.analysis.undefined_vars(size)}


def _is_always_met(condition: EqualSizes, names: Sequence[str]) -> bool:
    period = _period([condition])
    if period > MOST_REMAINDERS or _has_choice(condition):
        return False
    draw = random.Random(0).randint
    samples = ({name: draw(1, LARGEST_SAMPLE + 8 * period) for name in names} for _ in range(SAMPLES))
    return all(_difference(condition, dims) == 0 for dims in samples)


def _period(conditions: Sequence[EqualSizes]) -> int:
    """The smallest common multiple of what sizes are divided by."""
    return lcm(*(divisor for each in conditions for size in (each.size, each.wanted) for divisor in divisors(size)))


def _defined_dimension(module: "tvm.IRModule", conditions: Sequence[EqualSizes]) -> dict[str, Any] | None:
    """A dimension that a condition gives by the others, with its size; of two dimensions the later one."""
    order = list(_dimensions(module["main"]))
    for condition in conditions:
        pairs = [(condition.size, condition.wanted), (condition.wanted, condition.size)]
        found = {
            str(dimension.name): size
            for dimension, size in pairs
            if isinstance(dimension, tirx.Var)
            and str(dimension.name) not in _dimension_names(size)
            and not has_choice(size)
        }
        if found:
            name = max(found, key=order.index)
            return {name: found[name]}
    return None


def _by_dimension(conditions: Sequence[EqualSizes]) -> dict[str, list[EqualSizes]]:
    """Conditions by the only dimension that each is about; by ``""`` those about several."""
    groups: dict[str, list[EqualSizes]] = {}
    for condition in conditions:
        names = _names(condition)
        groups.setdefault(min(names) if len(names) == 1 else "", []).append(condition)
    return groups


def _multiple(name: str, conditions: Sequence[EqualSizes], where: str) -> int | None:
    """The number whose multiples alone meet the conditions; None where it is not so simple.

    Sizes with divisors are linear in how many times the divisors' multiple is in a dimension, whatever remains: where their difference is the
    same for several times, it is so for all.

    Raises:
        InputError: no size meets them.
    """
    period = _period(conditions)
    if period > MOST_REMAINDERS or any(map(_has_choice, conditions)):
        return None
    remainders = []
    for remainder in range(period):
        differences = [
            {_difference(condition, {name: times * period + remainder}) for times in TIMES} for condition in conditions
        ]
        if any(len(of_condition) > 1 or None in of_condition for of_condition in differences):
            return None
        if all(of_condition == {0} for of_condition in differences):
            remainders.append(remainder)
    if not remainders:
        problem = f"{_needs(conditions[0])}, which they are for no {name}"
        raise InputError(where, problem, "export the network another way")
    multiple = remainders[1] if len(remainders) > 1 else period
    return multiple if remainders == list(range(0, period, multiple)) else None


def _smallest_size(name: str, conditions: Sequence[EqualSizes]) -> int | None:
    """The smallest size of a dimension that meets the conditions, and makes none of the sizes zero that follow from it alone."""
    for size in range(LARGEST_SAMPLE):
        dims = {name: size}
        if all(
            _difference(each, dims) == 0 and (_has_choice(each) or evaluate_size(each.size, dims) > 0)
            for each in conditions
        ):
            return size
    return None


def _largest_size(name: str, conditions: Sequence[EqualSizes], least: int) -> int | None:
    """The largest size of a dimension that meets the conditions, as in ``min(length, 512) == length``; None where they do not limit it."""
    limits = [each for each in conditions if _has_choice(each)]
    if not limits:
        return None
    numbers: list[int] = []
    sizes = [size for each in limits for size in (each.size, each.wanted)]
    tvm_ffi.structural_walk(sizes, (tirx.IntImm, lambda number: numbers.append(int(number))))
    (dimension,) = {str(found.name): found for size in sizes for found in tirx.analysis.undefined_vars(size)}.values()
    for most in sorted({number - other for number in numbers for other in (0, *numbers)}, reverse=True):
        analyzer = tvm.sym.Analyzer()
        _bind(analyzer, dimension, least, max(least, most))
        is_met = all(analyzer.can_prove_equal(each.size, each.wanted) for each in limits)
        if most >= least and is_met and all(_is_violated(limits, {name: most + more}) for more in BEYOND):
            return most
    return None


def _has_choice(condition: EqualSizes) -> bool:
    return has_choice(condition.size) or has_choice(condition.wanted)


def _is_violated(conditions: Sequence[EqualSizes], dims: Mapping[str, int]) -> bool:
    return any(_difference(each, dims) != 0 for each in conditions)


def _difference(condition: EqualSizes, dims: Mapping[str, int]) -> int | None:
    try:
        return evaluate_size(condition.size, dims) - evaluate_size(condition.wanted, dims)
    except (ValueError, ZeroDivisionError):
        return None


def _needs(condition: EqualSizes) -> str:
    return f"{condition.operator} needs {size_text(condition.size)} and {size_text(condition.wanted)} to be equal"


def _narrow(
    bounds: Mapping[str, Bounds], implied: Mapping[str, Bounds], conditions: Sequence[EqualSizes], where: str
) -> dict[str, Bounds]:
    """Bounds of dimensions, by name, that both have.

    Raises:
        InputError: they have none.
    """
    narrowed = dict(bounds)
    for name, (least, most) in implied.items():
        known_least, known_most = bounds.get(name, (0, None))
        ends = [end for end in (most, known_most) if end is not None]
        narrowed[name] = max(least, known_least), min(ends, default=None)
        if ends and min(ends) < max(least, known_least):
            condition = next(each for each in conditions if name in _names(each))
            problem = f"{_needs(condition)}, which they are for no {name} that the file allows"
            raise InputError(where, problem, "export the network another way")
    return narrowed


def _checked(
    main: "relax.Function", multiples: Mapping[str, tuple[int, EqualSizes]], conditions: Sequence[EqualSizes]
) -> "relax.Function":
    """The function with checks, and with inputs whose dimensions are known to be multiples."""
    if not multiples and not conditions:
        return main
    sizes = {name: tirx.Var(name, "int64") for name in multiples}
    exact = {name: sizes[name] // multiple * multiple for name, (multiple, _) in multiples.items()}
    checks = []
    for name, (multiple, condition) in multiples.items():
        report = (
            f"{name} is {{0}}, and the network takes multiples of {multiple}: {condition.operator} needs equal sizes"
        )
        checks.append((sizes[name], exact[name], report))
    for condition in bind_sizes(conditions, exact):
        first, second = sorted((condition.size, condition.wanted), key=lambda size: not isinstance(size, tirx.Var))
        report = (
            f"{condition.operator} needs equal sizes, and {size_text(first)} is {{0}}, {size_text(second)} is {{1}}"
        )
        checks.append((first, second, report))
    parameters, casts = [], []
    for parameter in main.params:
        shape = getattr(parameter.ty, "shape", None) or ()
        wanted = [with_sizes(size, sizes) for size in shape]
        if all(before.same_as(after) for before, after in zip(shape, wanted, strict=True)):
            parameters.append(parameter)
            continue
        parameters.append(relax.Var(parameter.name, relax.TensorType(wanted, parameter.ty.dtype)))
        casts.append(relax.MatchCast(parameter, parameters[-1], parameter.ty))
    function = relax.Function(parameters, main.body, main.ret_ty, main.is_pure, main.attrs)
    function = with_size_checks(function, checks, casts)
    dimensions = {str(variable.name): variable for variable in relax.analysis.defined_symbolic_vars(main)}
    return function.bind_symbolic_vars({dimensions[name]: size for name, size in exact.items()}) if exact else function
