"""Turn assumptions about equal sizes into shapes of inputs and checks at run time.

A condition that defines a dimension by others (``total`` is ``past + length``) becomes the input's shape. If only multiples of a number
meet the conditions, the dimension becomes that number times a new size, so that TVM can prove the sizes equal. Other conditions are
checked when the network starts; the operands stay cast to the assumed size.
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
"""The largest divisor for which all remainders are tried."""

FACTORS = (1, 2, 3, 7)

SAMPLES = 256
"""Number of random sizes on which a condition is tried."""

LARGEST_SAMPLE = 500

BEYOND = (1, 2, 3, 10, 100, 1000)
"""Distances beyond a limit; conditions must fail at all of them."""


def settle_sizes(module: "tvm.IRModule", equal_sizes: Sequence[EqualSizes], where: str) -> "tvm.IRModule":
    """A module whose dimensions meet the conditions: by the shapes of ``main``'s parameters, or by checks when it starts.

    Args:
        equal_sizes: sizes that were assumed equal, over ``main``'s dimensions.
        where: the source, for messages.

    Raises:
        InputError: no size meets the conditions.
    """
    conditions = _conditions(module, equal_sizes)
    for condition in conditions:
        if not _names(condition):
            raise InputError(where, f"{_requirement(condition)}, which they are not", "give the inputs other shapes")
    if not conditions:
        return module
    while (definition := _defined_dimension(module, conditions)) is not None:
        module = relax.transform.BindSymbolicVars(definition, "main")(module)
        conditions = _conditions(module, bind_sizes(conditions, definition))
    multiples: dict[str, tuple[int, EqualSizes]] = {}
    rest: list[EqualSizes] = []
    implied: dict[str, Bounds] = {}
    for name, group in _by_dimension(conditions).items():
        multiple = _multiple(name, group, where) if name else None
        if name and (least := _smallest_size(name, group)) is not None:
            implied[name] = least, _largest_size(name, group, least)
        if multiple is None:
            rest += group
        elif multiple > 1:
            multiples[name] = multiple, group[0]
    if multiples or rest:
        module = with_bounds(module, _narrow(bounds_of(module), implied, conditions, where))
        analyzer = _analyzer(module)  # may use the bounds: they are checked before a network runs
        rest = [
            replace(condition, size=analyzer.simplify(condition.size), wanted=analyzer.simplify(condition.wanted))
            for condition in rest
            if not analyzer.can_prove_equal(condition.size, condition.wanted)
        ]
        rest.sort(key=lambda condition: len(_requirement(condition)))  # the first that fails is reported
        module = with_functions(module, {"main": _with_checks(module["main"], multiples, rest)})
    return relax.transform.CanonicalizeBindings()(module)  # drops casts that change nothing


def bind_sizes(equal_sizes: Iterable[EqualSizes], dims: Mapping[str, Any]) -> list[EqualSizes]:
    """Conditions with dimensions replaced by sizes.

    Args:
        equal_sizes: the conditions.
        dims: sizes by the dimensions' names.
    """
    return [
        replace(condition, size=with_sizes(condition.size, dims), wanted=with_sizes(condition.wanted, dims))
        for condition in equal_sizes
    ]


def _conditions(module: "tvm.IRModule", equal_sizes: Sequence[EqualSizes]) -> list[EqualSizes]:
    """The distinct conditions on dimensions of inputs, without those that all sizes meet."""
    known, analyzer = _dimensions(module["main"]), _analyzer(module)
    conditions = {
        (size_text(condition.size), size_text(condition.wanted)): condition for condition in reversed(equal_sizes)
    }
    return [
        condition
        for condition in reversed(conditions.values())
        if (names := _names(condition)) <= known.keys()
        and not analyzer.can_prove_equal(condition.size, condition.wanted)
        and not _is_always_met(condition, sorted(names))
    ]


def _analyzer(module: "tvm.IRModule") -> Any:
    """An analyzer with the bounds of the dimensions of ``main``'s parameters."""
    analyzer, bounds = tvm.sym.Analyzer(), bounds_of(module)
    for name, dimension in _dimensions(module["main"]).items():
        _bind(analyzer, dimension, *bounds.get(name, (0, None)))
    return analyzer


def _bind(analyzer: Any, dimension: Any, least: int, most: int | None) -> None:
    unlimited = tvm.sym.ConstIntBound.POS_INF
    analyzer.update(dimension, tvm.sym.ConstIntBound(least, unlimited if most is None else most))


def _dimensions(main: "relax.Function") -> dict[str, Any]:
    """The dimensions of ``main``'s parameters by name, in order."""
    dimensions: dict[str, Any] = {}
    for parameter in main.params:
        for size in getattr(parameter.ty, "shape", None) or ():
            if isinstance(size, tirx.Var):
                dimensions.setdefault(str(size.name), size)
    return dimensions


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
    """The least common multiple of the sizes' divisors."""
    return lcm(
        *(
            divisor
            for condition in conditions
            for size in (condition.size, condition.wanted)
            for divisor in divisors(size)
        )
    )


def _defined_dimension(module: "tvm.IRModule", conditions: Sequence[EqualSizes]) -> dict[str, Any] | None:
    """A dimension that a condition defines by others, with its size; the later one if there are two."""
    order = list(_dimensions(module["main"]))
    for condition in conditions:
        pairs = [(condition.size, condition.wanted), (condition.wanted, condition.size)]
        definitions = {
            str(dimension.name): size
            for dimension, size in pairs
            if isinstance(dimension, tirx.Var)
            and str(dimension.name) not in _dimension_names(size)
            and not has_choice(size)
        }
        if definitions:
            name = max(definitions, key=order.index)
            return {name: definitions[name]}
    return None


def _by_dimension(conditions: Sequence[EqualSizes]) -> dict[str, list[EqualSizes]]:
    """Group conditions by their dimension; conditions on several dimensions are under ``""``."""
    groups: dict[str, list[EqualSizes]] = {}
    for condition in conditions:
        names = _names(condition)
        groups.setdefault(min(names) if len(names) == 1 else "", []).append(condition)
    return groups


def _multiple(name: str, conditions: Sequence[EqualSizes], where: str) -> int | None:
    """The number whose multiples are exactly the sizes that meet the conditions; None if there is no such number.

    For a fixed remainder, sizes with divisors are linear in the quotient by the period. A difference that is the same for several
    quotients is the same for all.

    Raises:
        InputError: no size meets the conditions.
    """
    period = _period(conditions)
    if period > MOST_REMAINDERS or any(map(_has_choice, conditions)):
        return None
    remainders = []
    for remainder in range(period):
        differences = [
            {_difference(condition, {name: factor * period + remainder}) for factor in FACTORS}
            for condition in conditions
        ]
        if any(len(values) > 1 or None in values for values in differences):
            return None
        if all(values == {0} for values in differences):
            remainders.append(remainder)
    if not remainders:
        problem = f"{_requirement(conditions[0])}, and no size of {name} makes them equal"
        raise InputError(where, problem, "export the network another way")
    multiple = remainders[1] if len(remainders) > 1 else period
    return multiple if not period % multiple and remainders == list(range(0, period, multiple)) else None


def _smallest_size(name: str, conditions: Sequence[EqualSizes]) -> int | None:
    """The smallest size of a dimension that meets the conditions and makes no derived size zero; None if none is found."""
    for size in range(LARGEST_SAMPLE):
        dims = {name: size}
        if all(
            _difference(condition, dims) == 0 and (_has_choice(condition) or evaluate_size(condition.size, dims) > 0)
            for condition in conditions
        ):
            return size
    return None


def _largest_size(name: str, conditions: Sequence[EqualSizes], least: int) -> int | None:
    """The largest size of a dimension that meets the conditions, as in ``min(length, 512) == length``; None if they do not limit it."""
    limits = [condition for condition in conditions if _has_choice(condition)]
    if not limits:
        return None
    numbers: list[int] = []
    sizes = [size for limit in limits for size in (limit.size, limit.wanted)]
    tvm_ffi.structural_walk(sizes, (tirx.IntImm, lambda number: numbers.append(int(number))))
    variables = {str(variable.name): variable for size in sizes for variable in tirx.analysis.undefined_vars(size)}
    (dimension,) = variables.values()
    for most in sorted({first - second for first in numbers for second in (0, *numbers)}, reverse=True):
        analyzer = tvm.sym.Analyzer()
        _bind(analyzer, dimension, least, max(least, most))
        is_met = all(analyzer.can_prove_equal(limit.size, limit.wanted) for limit in limits)
        if most >= least and is_met and all(_is_violated(limits, {name: most + more}) for more in BEYOND):
            return most
    return None


def _has_choice(condition: EqualSizes) -> bool:
    return has_choice(condition.size) or has_choice(condition.wanted)


def _is_violated(conditions: Sequence[EqualSizes], dims: Mapping[str, int]) -> bool:
    return any(_difference(condition, dims) != 0 for condition in conditions)


def _difference(condition: EqualSizes, dims: Mapping[str, int]) -> int | None:
    try:
        return evaluate_size(condition.size, dims) - evaluate_size(condition.wanted, dims)
    except (ValueError, ZeroDivisionError):
        return None


def _requirement(condition: EqualSizes) -> str:
    return f"{condition.operator} needs {size_text(condition.size)} and {size_text(condition.wanted)} to be equal"


def _narrow(
    bounds: Mapping[str, Bounds], implied: Mapping[str, Bounds], conditions: Sequence[EqualSizes], where: str
) -> dict[str, Bounds]:
    """The intersection of two sets of bounds, by the dimensions' names.

    Raises:
        InputError: it is empty.
    """
    narrowed = dict(bounds)
    for name, (least, most) in implied.items():
        known_least, known_most = bounds.get(name, (0, None))
        limits = [limit for limit in (most, known_most) if limit is not None]
        narrowed[name] = max(least, known_least), min(limits, default=None)
        if limits and min(limits) < max(least, known_least):
            condition = next(condition for condition in conditions if name in _names(condition))
            problem = f"{_requirement(condition)}, and no size of {name} that the file allows makes them equal"
            raise InputError(where, problem, "export the network another way")
    return narrowed


def _with_checks(
    main: "relax.Function", multiples: Mapping[str, tuple[int, EqualSizes]], conditions: Sequence[EqualSizes]
) -> "relax.Function":
    """The function with checks, and with inputs whose dimensions are multiples."""
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
