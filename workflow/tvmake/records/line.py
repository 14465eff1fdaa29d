"""One line of records: a JSON object that carries its own sha256 and names the place and workload it belongs to.

    {"sha256":"<A>","place":"<B>","workload":"<C>","record":{…}}

``A`` is the sha256 of the line's bytes from ``"place"`` to the end, so that no bit of it can change unseen. ``B`` is the
place's digest and ``C`` the workload's key, so that a line can be placed by itself: in the store, in a shared one
and in a file that is passed on. What follows is canonical JSON, and its sha256 is the record's name. Instead of a
``record`` there may be a ``verdict`` on one, a ``comparison`` of some, the ``description`` of the workload, or (without a workload) the
``definition`` of the place.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, RootModel, ValidationError

from tvmake.records.plausible import TRACE_BYTES, implausible, implausible_comparison, implausible_verdict
from tvmake.records.record import Comparison, Measured, Record, TuningContext, Verdict
from tvmake.storage.files import canonical_json

Kind = Literal["record", "verdict", "comparison", "description", "definition"]

ENTRIES: tuple[Kind, ...] = ("record", "verdict", "comparison")
"""What a workload's file holds; the others have files of their own."""

START = b'{"sha256":"'
"""How every line begins. Inside JSON strings quotes are escaped, so it does not occur in them."""

LINE_BYTES = 16 << 20
"""The longest line that is read: room for a large workload's description."""

_HEAD = re.compile(
    rb'\{"sha256":"([0-9a-f]{64})",'
    rb'"place":"([0-9a-f]{64})",(?:"workload":"([0-9a-f]{64})",)?"(record|verdict|comparison|description|definition)":'
)
_DIGESTED_FROM = len(START) + 64 + 2

# The trace is the last member, because canonical JSON sorts them. Should this match inside the fingerprint's details, what
# is before it is not JSON, and the whole record is read.
_TRACE = re.compile(rb'"strategy":"(?:[^"\\]|\\.)*"(,"trace":)')


class BadLine(Exception):
    """A line that must not be used, with the reason."""


class Description(RootModel[dict[str, JsonValue]]):
    """What a workload is, for those who want to compute with it: any JSON object, with its ``name`` for people."""

    model_config = ConfigDict(frozen=True)


Value = Measured | Verdict | Comparison | Description | TuningContext

MODELS: dict[Kind, type[BaseModel]] = {
    "record": Record,
    "verdict": Verdict,
    "comparison": Comparison,
    "description": Description,
    "definition": TuningContext,
}
"""What each kind of line holds."""

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is intact and plausible."""

    kind: Kind
    place: str
    workload: str | None
    digest: str
    """sha256 of the line's value: a record's name."""
    raw: bytes
    """The line as it is, without its line break."""
    value: Value


def encode(
    place: str, workload: str | None, value: Record | Verdict | Comparison | Description | TuningContext
) -> bytes:
    """The line of a value, line break included.

    Args:
        place: the place's digest.
        workload: the workload's key; None for a place.

    Raises:
        BadLine: the value is no plain JSON or is implausible; nobody could read the line back.
    """
    (kind,) = (kind for kind, model in MODELS.items() if type(value) is model)
    try:
        payload = canonical_json(value.model_dump(mode="json")).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise BadLine(f"cannot be written as JSON ({_first_line(error)})") from error
    workload_member = f'"workload":"{workload}",' if workload else ""
    rest = f'"place":"{place}",{workload_member}"{kind}":'.encode() + payload + b"}"
    line = START + sha256(rest).hexdigest().encode() + b'",' + rest
    decode(line, thoroughly=True)
    return line + b"\n"


def decode(line: bytes, *, thoroughly: bool = False) -> Line:
    """Read a line, without its line break.

    Args:
        thoroughly: read traces too, and refuse other spellings of the same JSON. For lines from outside; those in the
            store were read like this before they were written.

    Raises:
        BadLine: altered, cut short, of an unknown structure, or implausible.
    """
    head = _HEAD.match(line)
    if head is None or not line.endswith(b"}"):
        raise BadLine("is no line of records, or cut short")
    if len(line) > LINE_BYTES:
        raise BadLine(f"is longer than {LINE_BYTES >> 20} MiB")
    if sha256(line[_DIGESTED_FROM:]).hexdigest().encode() != head[1]:
        raise BadLine("differs from its sha256")
    kind: Any = head[4].decode()
    if (head[3] is None) != (kind == "definition"):
        raise BadLine(f"is a {kind} {'without a' if head[3] is None else 'of one'} workload")
    payload = line[head.end() : -1]
    read = Line(
        kind=kind,
        place=head[2].decode(),
        workload=head[3].decode() if head[3] else None,
        digest=sha256(payload).hexdigest(),
        raw=line,
        value=_value(kind, payload, thoroughly),
    )
    if kind == "definition" and read.digest != read.place:
        raise BadLine("defines a place under another's digest")
    return read


def read_record(raw: bytes) -> Record:
    """The record, trace included, of a line that :func:`decode` read."""
    head = _HEAD.match(raw)
    assert head is not None
    return _parsed(Record, raw[head.end() : -1])


def _value(kind: Kind, payload: bytes, thoroughly: bool) -> Any:
    if kind == "record":
        # Before it is parsed: a hostile one could ask for much memory.
        if len(payload) > TRACE_BYTES:
            raise BadLine(f"is a record of more than {TRACE_BYTES >> 20} MiB")
        value: Any = _parsed(Record, payload) if thoroughly else _measured(payload)
        wrong = implausible(value)
    else:
        value = _parsed(MODELS[kind], payload)
        wrong = _implausible(value)
    if wrong:
        raise BadLine(wrong)
    if thoroughly and not _is_canonical(value, payload):
        raise BadLine("is spelled in another way than tvmake does")
    return value


def _implausible(value: Any) -> str | None:
    if isinstance(value, Verdict):
        return implausible_verdict(value)
    return implausible_comparison(value) if isinstance(value, Comparison) else None


def _measured(payload: bytes) -> Measured:
    trace = _TRACE.search(payload)
    if trace:
        try:
            return Measured.model_validate_json(payload[: trace.start(1)] + b"}")
        except ValidationError:
            pass  # validating the whole record gives the better message, and it may be right
    return _parsed(Record, payload)


def _parsed(kind: type[Model], payload: bytes) -> Model:
    try:
        return kind.model_validate_json(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])[:80]
        raise BadLine(f"{key + ': ' if key else ''}{first['msg'].lower()}") from None


def _is_canonical(value: BaseModel, payload: bytes) -> bool:
    try:
        return canonical_json(value.model_dump(mode="json")).encode() == payload
    except (ValueError, RecursionError):
        return False


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
