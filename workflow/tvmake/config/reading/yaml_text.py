"""YAML of bounded size: what it stands for is counted before anything is made of it.

A few lines of aliases can stand for more values than fit into memory, and nesting can exhaust the stack.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

LARGEST_BYTES = 4 * 2**20
LARGEST_COUNT = 1_000_000
DEEPEST = 64
LARGEST_BITS = 64
"""Of a whole number."""
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
"""How YAML calls them."""

_OCTAL = re.compile("[-+]?0[0_]*[1-7][0-7_]*")
"""How YAML 1.1 writes numbers in base 8; zeros alone are 0 in any base."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads plain data. What Python cannot make a value of (a date that is none, a very long number) is an error with its place,
    and so are 10:22 and 010, which YAML 1.1 reads as 622 and 8."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node."""
        if node.tag in NUMBERS and (base := 60 if ":" in node.value else 8 if _OCTAL.fullmatch(node.value) else None):
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"YAML reads {node.value[:20]} as a number in base {base}",
                node.start_mark,
                "put it in quotation marks if it is text, or write the number in digits"
                + (" that do not begin with 0" if base == 8 else ""),
            )
        try:
            value = super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = f"this text has no value of its kind ({str(error).partition(';')[0][:100]})"
            raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark) from None
        if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
            raise yaml.constructor.ConstructorError(
                None, None, "a whole number this large is not used", node.start_mark
            )
        return value


def parse(text: str) -> "Document":
    """Read one YAML document.

    Raises:
        yaml.YAMLError: it is not YAML, too large, or nested too deep; mostly with its line.
    """
    if len(text.encode(errors="surrogatepass")) > LARGEST_BYTES:
        raise yaml.YAMLError(f"larger than {LARGEST_BYTES // 2**20} MiB, which no config is")
    _check_extent(text)
    loader = _Loader(text)
    try:
        return Document(loader, loader.get_single_node())
    except BaseException:
        loader.dispose()
        raise


class Document:
    """A document that was read, and not yet made values of."""

    def __init__(self, loader: Any, root: yaml.Node | None):
        self._loader = loader
        self.root = root

    def values(self) -> Any:
        """What it says, as Python's own values.

        Raises:
            yaml.YAMLError: something in it has no value.
        """
        try:
            return None if self.root is None else self._loader.construct_document(self.root)
        finally:
            self._loader.dispose()


def _check_extent(text: str) -> None:
    """Count values and depth, with what aliases stand for; only the parser's events are looked at, one after the other."""
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
        problem = f"stands for more than {LARGEST_COUNT:,} values"
    if problem:
        raise yaml.composer.ComposerError(None, None, problem, event.start_mark)  # type: ignore[arg-type]
