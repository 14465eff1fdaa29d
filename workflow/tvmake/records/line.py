"""One line of records: a JSON object with its own sha256, its context and its workload.

    {"sha256":"<A>","place":"<B>","workload":"<C>","record":{…}}

``A`` is the sha256 of the line's bytes from ``"place"`` to the end. ``B`` is the digest of the tuning context and ``C`` the
workload's key, so a line alone says where it belongs. The value is canonical JSON, and its sha256 is the record's name. A line
holds a ``record``, a ``verdict`` on one, a ``comparison`` of several, a workload's ``description``, or (without a workload) the
``definition`` of a context.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, RootModel, ValidationError

from tvmake.records.plausible import TRACE_BYTES, implausible, implausible_comparison, implausible_verdict
from tvmake.records.record import Comparison, Measurement, Record, TuningContext, Verdict
from tvmake.storage.files import canonical_json

Kind = Literal["record", "verdict", "comparison", "description", "definition"]

ENTRIES: tuple[Kind, ...] = ("record", "verdict", "comparison")
"""Kinds of lines in a workload's file; other kinds have files of their own."""

START = b'{"sha256":"'
"""The beginning of every line. JSON strings escape quotes, so it does not occur in them."""

LINE_BYTES = 16 << 20
"""The maximum length of a line: room for a large workload's description."""

_HEAD = re.compile(
    rb'\{"sha256":"([0-9a-f]{64})",'
    rb'"place":"([0-9a-f]{64})",(?:"workload":"([0-9a-f]{64})",)?"(record|verdict|comparison|description|definition)":'
)
_DIGESTED_FROM = len(START) + 64 + 2

# Canonical JSON sorts members, so the trace is last. If this matches inside the fingerprint's details, the text
# before the match is not JSON, and the whole record is parsed.
_TRACE = re.compile(rb'"strategy":"(?:[^"\\]|\\.)*"(,"trace":)')


class BadLine(Exception):
    """The reason why a line must not be used."""


class Description(RootModel[dict[str, JsonValue]]):
    """A workload's description for other programs: any JSON object, with a ``name`` for people."""

    model_config = ConfigDict(frozen=True)


Value = Measurement | Verdict | Comparison | Description | TuningContext

MODELS: dict[Kind, type[BaseModel]] = {
    "record": Record,
    "verdict": Verdict,
    "comparison": Comparison,
    "description": Description,
    "definition": TuningContext,
}
"""The model of each kind of line."""

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Line:
    """An intact and plausible line."""

    kind: Kind
    context: str
    workload: str | None
    digest: str
    """sha256 of the line's value: a record's name."""
    raw: bytes
    """The line's bytes, without the line break."""
    value: Value


def encode(
    context: str, workload: str | None, value: Record | Verdict | Comparison | Description | TuningContext
) -> bytes:
    """The line of a value, with its line break.

    Args:
        context: the context's digest.
        workload: the workload's key; None for a context's definition.

    Raises:
        BadLine: the value is not JSON or not plausible, so no reader would accept the line.
    """
    (kind,) = (kind for kind, model in MODELS.items() if type(value) is model)
    try:
        payload = canonical_json(value.model_dump(mode="json")).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise BadLine(f"cannot be written as JSON ({_first_line(error)})") from error
    workload_member = f'"workload":"{workload}",' if workload else ""
    rest = f'"place":"{context}",{workload_member}"{kind}":'.encode() + payload + b"}"
    line = START + sha256(rest).hexdigest().encode() + b'",' + rest
    decode(line, thoroughly=True)
    return line + b"\n"


def decode(line: bytes, *, thoroughly: bool = False) -> Line:
    """Read a line, without its line break.

    Args:
        thoroughly: parse traces too, and refuse non-canonical JSON. For lines from outside; lines of the store passed this
            check before they were written.

    Raises:
        BadLine: altered, truncated, of an unknown structure, or implausible.
    """
    head = _HEAD.match(line)
    if head is None or not line.endswith(b"}"):
        raise BadLine("is not a line of records, or truncated")
    if len(line) > LINE_BYTES:
        raise BadLine(f"is longer than {LINE_BYTES >> 20} MiB")
    if sha256(line[_DIGESTED_FROM:]).hexdigest().encode() != head[1]:
        raise BadLine("differs from its sha256")
    kind: Any = head[4].decode()
    if (head[3] is None) != (kind == "definition"):
        raise BadLine(f"is a {kind} {'without a' if head[3] is None else 'with a'} workload")
    payload = line[head.end() : -1]
    decoded = Line(
        kind=kind,
        context=head[2].decode(),
        workload=head[3].decode() if head[3] else None,
        digest=sha256(payload).hexdigest(),
        raw=line,
        value=_value(kind, payload, thoroughly),
    )
    if kind == "definition" and decoded.digest != decoded.context:
        raise BadLine("defines a context under the digest of another")
    return decoded


def read_record(raw: bytes) -> Record:
    """The record, trace included, of a decoded line."""
    head = _HEAD.match(raw)
    assert head is not None
    return _parse(Record, raw[head.end() : -1])


def _value(kind: Kind, payload: bytes, thoroughly: bool) -> Any:
    if kind == "record":
        # Before parsing: a hostile record could take much memory.
        if len(payload) > TRACE_BYTES:
            raise BadLine(f"is a record of more than {TRACE_BYTES >> 20} MiB")
        value: Any = _parse(Record, payload) if thoroughly else _parse_measurement(payload)
        problem = implausible(value)
    else:
        value = _parse(MODELS[kind], payload)
        problem = _implausible(value)
    if problem:
        raise BadLine(problem)
    if thoroughly and not _is_canonical(value, payload):
        raise BadLine("is not canonical JSON")
    return value


def _implausible(value: Any) -> str | None:
    if isinstance(value, Verdict):
        return implausible_verdict(value)
    return implausible_comparison(value) if isinstance(value, Comparison) else None


def _parse_measurement(payload: bytes) -> Measurement:
    trace = _TRACE.search(payload)
    if trace:
        try:
            return Measurement.model_validate_json(payload[: trace.start(1)] + b"}")
        except ValidationError:
            pass  # validating the whole record gives the better message, and may succeed
    return _parse(Record, payload)


def _parse(kind: type[Model], payload: bytes) -> Model:
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
