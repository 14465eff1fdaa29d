"""Parse YAML of bounded size: values are counted before they are constructed.

A few lines of aliases can expand to more values than fit into memory, and deep nesting can exhaust the stack.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

LARGEST_BYTES = 4 * 2**20
LARGEST_COUNT = 1_000_000
DEEPEST = 64
LARGEST_BITS = 64
"""Largest integer, in bits."""
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
"""YAML's tags of numbers."""

_OCTAL = re.compile("[-+]?0[0_]*[1-7][0-7_]*")
"""Octal numbers of YAML 1.1; zero is the same in every base and does not match."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Load plain data and report the line of invalid values.

    Invalid are values that Python cannot construct (an impossible date, a very long number), and 10:22 and 010, which
    YAML 1.1 reads as 622 and 8.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct the value of a node."""
        if node.tag in NUMBERS and (base := 60 if ":" in node.value else 8 if _OCTAL.fullmatch(node.value) else None):
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"YAML reads {node.value[:20]} as a number in base {base}",
                node.start_mark,
                "put it in quotation marks if it is text, or write the number in digits"
                + (" without a leading 0" if base == 8 else ""),
            )
        try:
            value = super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = f"not a valid value of its type ({str(error).partition(';')[0][:100]})"
            raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark) from None
        if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
            raise yaml.constructor.ConstructorError(
                None, None, f"an integer of more than {LARGEST_BITS} bits", node.start_mark
            )
        return value


def parse(text: str) -> "Document":
    """Read one YAML document.

    Raises:
        yaml.YAMLError: the text is not YAML, too large, or nested too deep; usually with the line.
    """
    if len(text.encode(errors="surrogatepass")) > LARGEST_BYTES:
        raise yaml.YAMLError(f"larger than {LARGEST_BYTES // 2**20} MiB, the limit for a config")
    _check_extent(text)
    loader = _Loader(text)
    try:
        return Document(loader, loader.get_single_node())
    except BaseException:
        loader.dispose()
        raise


class Document:
    """A parsed document whose values are not constructed yet."""

    def __init__(self, loader: Any, root: yaml.Node | None):
        self._loader = loader
        self.root = root

    def values(self) -> Any:
        """Construct the values as Python objects.

        Raises:
            yaml.YAMLError: a value is invalid.
        """
        try:
            return None if self.root is None else self._loader.construct_document(self.root)
        finally:
            self._loader.dispose()


def _check_extent(text: str) -> None:
    """Check the number of values and the depth, with aliases expanded, from the parser's event stream."""
    anchored: dict[Hashable, tuple[int, int]] = {}
    open_nodes: list[tuple[str | None, int, int]] = [(None, 0, 0)]
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1, 0))
            _check(event, len(open_nodes) - 1, 0)
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, count, depth = open_nodes.pop()
            depth += 1
        elif isinstance(event, yaml.AliasEvent):
            anchor, (count, depth) = None, anchored.get(event.anchor, (1, 1))
        elif isinstance(event, yaml.ScalarEvent):
            anchor, count, depth = event.anchor, 1, 1
        else:
            continue
        if anchor is not None:
            anchored[anchor] = count, depth
        outer, total, deepest = open_nodes.pop()
        open_nodes.append((outer, total + count, max(deepest, depth)))
        _check(event, len(open_nodes) - 1 + depth, total + count)


def _check(event: yaml.Event, depth: int, count: int) -> None:
    problem = ""
    if depth > DEEPEST:
        problem = f"nested more than {DEEPEST} levels deep"
    elif count > LARGEST_COUNT:
        problem = f"expands to more than {LARGEST_COUNT:,} values"
    if problem:
        raise yaml.composer.ComposerError(None, None, problem, event.start_mark)  # type: ignore[arg-type]
