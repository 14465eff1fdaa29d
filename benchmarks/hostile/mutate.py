"""Mutations of bytes, of JSON, and of protobuf messages, from a seeded random generator."""

import copy
import json
import random
from contextlib import suppress
from typing import Any

MARK = "it_ran"
"""A directory that code out of a file would make in the working directory."""

CODE = f"__import__('os').mkdir('{MARK}')"

NUMBERS = (-1, 0, 1, 2, 127, 255, 2**15, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30)

TEXTS = (
    "",
    "x" * 100_000,
    "../../outside",
    "/etc/passwd",
    "a\x00b",
    "a\nb",
    "\x1b[2J",
    "\ud800",
    "9**9**9**9",
    "1" * 5000,
    CODE,
    f"exec({CODE!r})",
    "nan",
    "s0**s0**s0",
    "{{7*7}}",
    "\u202e",
)


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    """One to three of: flipped bits, bytes of extreme values, a cut, something taken out, put in, doubled or swapped."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(changed) + 1)
        length = chance.choice((1, 2, 4, 8, 64, 512))
        match chance.randrange(8):
            case 0 | 1:
                for _ in range(chance.choice((1, 1, 4, 32))):
                    if changed:
                        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            case 2:
                changed[at : at + length] = chance.choice((b"\0", b"\xff", b"\x80", b"\x7f")) * length
            case 3:
                del changed[at:]
            case 4:
                del changed[at : at + length]
            case 5:
                changed[at:at] = chance.randbytes(length)
            case 6:
                changed[at:at] = changed[at : at + length]
            case 7:
                aligned = at // 4 * 4
                number = chance.choice(NUMBERS) & 0xFFFFFFFF
                changed[aligned : aligned + 4] = number.to_bytes(4, "little")
    return bytes(changed)


def mutate_json(value: Any, chance: random.Random) -> Any:
    """A copy with a random element replaced, removed, doubled or nested."""
    changed = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 2, 3))):
        positions = list(_places(changed))
        if not positions:
            return changed
        holder, key = chance.choice(positions)
        match chance.randrange(6):
            case 0:
                del holder[key]
            case 1 | 2:
                holder[key] = _other(holder[key], chance)
            case 3:
                for _ in range(chance.choice((1, 100, 3000))):
                    holder[key] = [holder[key]] if chance.random() < 0.5 else {"a": holder[key]}
            case 4 if isinstance(holder, dict):
                holder[chance.choice(TEXTS)] = holder.pop(key)
            case _:
                other, other_key = chance.choice(positions)
                with suppress(RecursionError, LookupError):
                    holder[key] = copy.deepcopy(other[other_key])
    return changed


def dumps(value: Any) -> bytes:
    """JSON, also for values that are not JSON."""
    try:
        return json.dumps(value).encode("utf-8", "surrogatepass")
    except (RecursionError, ValueError):
        return b"[" * 100_000


def _places(value: Any) -> Any:
    stack = [value]
    while stack:
        holder = stack.pop()
        entries = list(holder.items()) if isinstance(holder, dict) else list(enumerate(holder))
        for key, below in entries:
            yield holder, key
            if isinstance(below, dict | list):
                stack.append(below)


def _other(value: Any, chance: random.Random) -> Any:
    if isinstance(value, str) and chance.random() < 0.7:
        return chance.choice(TEXTS)
    if isinstance(value, int | float) and chance.random() < 0.7:
        return chance.choice((*NUMBERS, float("nan"), float("inf"), 1e308, 0.5))
    return chance.choice((None, True, [], {}, chance.choice(NUMBERS), chance.choice(TEXTS)))


Field = tuple[int, int, Any]
"""Number, wire type, value: an int, bytes, or a list of fields where the bytes are a message."""


def mutate_message(data: bytes, chance: random.Random) -> bytes:
    """A message of protobuf with fields changed, removed, doubled, moved or nested."""
    fields = parse(data)
    if not fields:
        return mutate_bytes(data, chance)
    for _ in range(chance.choice((1, 1, 2, 4))):
        level = fields
        while True:
            index = chance.randrange(len(level))
            number, wire, value = level[index]
            if isinstance(value, list) and value and chance.random() < 0.85:
                level = value
                continue
            break
        level[index : index + 1] = _changed(number, wire, value, level, chance)
        if not fields:
            break
    return encode(fields)


def _changed(number: int, wire: int, value: Any, level: list[Field], chance: random.Random) -> list[Field]:
    match chance.randrange(8):
        case 0:
            return []
        case 1:
            return [(number, wire, value)] * chance.choice((2, 2, 10, 300))
        case 2:
            other = chance.choice(level)
            return [(number, other[1], other[2])]
        case 3 if wire == 2:
            for _ in range(chance.choice((1, 10, 200))):
                value = [(number, 2, value)]
            return [(number, 2, value)]
    if wire == 0:
        return [(number, 0, chance.choice(NUMBERS) % (1 << 64))]
    if wire == 2:
        if isinstance(value, list) or chance.random() < 0.3:
            return [(number, 2, mutate_bytes(value if isinstance(value, bytes) else encode(value), chance))]
        text = chance.choice((*TEXTS, "\udcff\udcfe"))
        return [(number, 2, text.encode("utf-8", "surrogateescape" if "\udcff" in text else "surrogatepass"))]
    return [(number, wire, chance.randbytes(8 if wire == 1 else 4))]


def parse(data: bytes, depth: int = 0) -> list[Field] | None:
    """The fields of a message; None if it is none."""
    fields: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag is None or tag >> 3 == 0 or tag >> 3 > 1000:
            return None
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
            if value is None:
                return None
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at : at + size], at + size
        elif wire == 2:
            size, at = _varint(data, at)
            if size is None or at + size > len(data):
                return None
            value, at = data[at : at + size], at + size
            below = parse(value, depth + 1) if depth < 12 and size and size < 100_000 else None
            value = below if below else value
        else:
            return None
        fields.append((number, wire, value))
    return fields if at == len(data) else None


def encode(fields: list[Field] | bytes) -> bytes:
    """The bytes of a message."""
    if isinstance(fields, bytes):
        return fields
    written = bytearray()
    for number, wire, value in fields:
        written += _as_varint(number << 3 | wire)
        if wire == 0:
            written += _as_varint(value)
        elif wire == 2:
            content = encode(value)
            written += _as_varint(len(content)) + content
        else:
            written += value
    return bytes(written)


def _varint(data: bytes, at: int) -> tuple[int | None, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return None, at


def _as_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
