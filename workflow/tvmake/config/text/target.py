"""Parse a target in one line of text: a name, a triple, or an older syntax of TVM.

Supported are names of the catalogue (``adreno-730-texture``), TVM's tags (``qcom/adreno-opencl``), kinds (``llvm``), kinds
with options in the syntax before TVM 0.18 (``opencl -device=adreno -max_num_threads=256``), a kind and its host in the
syntax of ``tvmc`` (``opencl, llvm -mtriple=aarch64-linux-android``), and TVM's JSON (``{"kind": "llvm", "mcpu": …}``).
"""

import json
import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from tvmake.targets.catalogue.entries import catalogue
from tvmake.targets.catalogue.names import suggestion

Values = dict[str, Any]

OWN_OPTIONS = ("mcpu", "mtriple", "mattr", "arch", "host")
"""Options that are keys of a target; all others are attributes."""

OTHER_OPTIONS = (
    "max_num_threads", "max_threads_per_block", "max_shared_memory_per_block", "thread_warp_size",
    "texture_spatial_limit", "texture_depth_limit", "image_base_address_alignment", "max_function_args",
    "num-cores", "model", "mfloat-abi", "mabi", "opt-level",
)  # fmt: skip
"""Attributes of TVM's kinds that an option may set."""

DEVICES = {
    ("opencl", "adreno"): "adreno-texture",
    ("opencl", "mali"): "mali-bifrost",
    ("opencl", "bifrost"): "mali-bifrost",
    ("opencl", "intel_graphics"): "opencl-intel",
    ("opencl", "nvidia"): "opencl-nvidia",
}
"""Catalogue names for ``-device`` of older TVM."""

_THIS_CPU = "write llvm, or {kind: llvm, mcpu: native} for all features of this machine's CPU"
_OTHER_CPU = "write its triple, such as {example}"

WORDS = {
    **dict.fromkeys(("cpu", "host", "native", "local"), _THIS_CPU),
    **dict.fromkeys(
        ("arm64", "aarch64", "arm"), _OTHER_CPU.format(example="aarch64-linux-gnu or aarch64-linux-android")
    ),
    **dict.fromkeys(("x86", "x86_64", "x86-64", "amd64", "x64"), _OTHER_CPU.format(example="x86_64-linux-gnu")),
    "gpu": "name its kind: cuda, opencl, vulkan, rocm or metal",
}
"""Remedies for words that are not targets but have a clear meaning."""

TRIPLE = re.compile(r"(?P<arch>aarch64|arm64|armv\w+|arm|x86_64|i[36]86|riscv(32|64))-[\w.]+(-[\w.]+){0,2}")


def parse_target(text: str, kinds: Collection[str], tags: Collection[str]) -> Values:
    """Parse a line of text into the keys of a target (``TargetConfig``).

    Raises:
        ValueError: the text is not a target; the message has a remedy after a semicolon.
    """
    if text in tags:  # some of TVM's tags have a comma
        return {"tag": text}
    if text.lstrip().startswith("{"):
        return _from_json(text, kinds, tags)
    parts = [part.strip() for part in text.split(",")]
    # A list of features also has commas.
    parts = _join_features(parts)
    if any(not part for part in parts):
        raise ValueError(f"a target is missing in '{text}'; name one, such as adreno-730-texture or llvm")
    first, *rest = parts
    hosts = [part for part in rest if part != "clml"]  # a library, not a kind
    if len(hosts) > 1:
        raise ValueError(f"'{text}' names more than a device and its host; write two targets instead")
    values = _parse_one(first, kinds, tags)
    if hosts != rest:
        values["tag"] = re.sub("-(buffer|texture)$", "-clml", values.get("tag", "adreno-clml"))
        if values.pop("kind", "opencl") != "opencl" or not values["tag"].endswith("-clml"):
            raise ValueError(f"'{text}': clml is for Adreno GPUs; write 'opencl -device=adreno, clml' or adreno-clml")
    if hosts:
        host = _parse_one(hosts[0], kinds, tags)
        if host.get("kind", "llvm") not in ("llvm", "c"):
            raise ValueError(f"'{text}': the second target is the device's host and must be a CPU; name llvm there")
        values["host"] = host
    return values


def parse_host(text: str, kinds: Collection[str], tags: Collection[str]) -> Values:
    """Parse a host: one target, or a triple (``aarch64-linux-android``).

    Raises:
        ValueError: the text is not a target.
    """
    if TRIPLE.fullmatch(text.strip()):
        return {"kind": "llvm", "mtriple": text.strip()}
    return _parse_one(text.strip(), kinds, tags)


def _from_json(text: str, kinds: Collection[str], tags: Collection[str]) -> Values:
    try:
        target = json.loads(text)
    except ValueError as error:
        raise ValueError(f'\'{text}\': not valid JSON: {error}; write a target as {{"kind": "llvm"}}') from None
    host = target.pop("host", None)
    values = _parse_one(_line(target), kinds, tags)
    if host is not None:
        values["host"] = _parse_one(_line(host) if isinstance(host, dict) else str(host), kinds, tags)
    return values


def _line(target: Mapping[str, Any]) -> str:
    """Write a target's JSON as kind and options."""
    name = str(target.get("kind") or target.get("tag") or "")
    if not name:
        raise ValueError(f'\'{json.dumps(target)}\': names no kind; write {{"kind": "llvm", …}}')
    options = {key: value for key, value in target.items() if key not in ("kind", "tag")}
    texts = {
        key: ",".join(map(str, value)) if isinstance(value, list) else str(value) for key, value in options.items()
    }
    return shlex.join([name, *(f"-{key}={value}" for key, value in texts.items())])


def _join_features(parts: list[str]) -> list[str]:
    joined: list[str] = []
    for part in parts:
        if joined and re.match(r"[+-][\w.]+$", part) and "-mattr=" in joined[-1]:
            joined[-1] += f",{part}"
        else:
            joined.append(part)
    return joined


def _parse_one(text: str, kinds: Collection[str], tags: Collection[str]) -> Values:
    try:
        words = shlex.split(text)
    except ValueError:
        raise ValueError(f"'{text}': a quotation mark is missing; close it") from None
    name, options = words[0], words[1:]
    if name in catalogue() or name in tags:
        return _with_options({"tag": name}, options, text)
    if name in kinds:
        return _with_options({"kind": name}, options, text)
    if TRIPLE.fullmatch(name):
        return _with_options({"kind": "llvm", "mtriple": name}, options, text)
    if remedy := WORDS.get(name.lower()):
        raise ValueError(f"no such target '{name}'; {remedy}")
    raise ValueError(f"no such target '{name}'{suggestion(name, [*catalogue(), *tags, *kinds])}")


def _with_options(values: Values, options: list[str], text: str) -> Values:
    settings: dict[str, str] = {}
    for option in options:
        option = option if "=" in option else f"{option}="
        name, _, value = option.lstrip("-").partition("=")
        if not option.startswith("-"):
            raise ValueError(f"'{text}': '{option.rstrip('=')}' is not an option; options are written -name=value")
        settings[name] = value
    for name, value in settings.items():
        if name == "device":
            _device(values, value)
        elif name == "keys":
            values.setdefault("attributes", {})["keys"] = value.split(",")
        elif name == "mattr":
            values["mattr"] = [feature for feature in value.split(",") if feature]
        elif name in OWN_OPTIONS:
            values[name] = value
        elif name in OTHER_OPTIONS:
            values.setdefault("attributes", {})[name] = int(value) if re.fullmatch(r"\d+", value) else value
        else:
            known = ["device", "keys", *OWN_OPTIONS, *OTHER_OPTIONS]
            listed = f"options are {', '.join(known)}"
            raise ValueError(f"'{text}': no such option '-{name}'{suggestion(name, known, listed)}")
    return values


def _device(values: Values, device: str) -> None:
    kind = values.get("kind", "")
    if name := DEVICES.get((kind, device)):
        values.pop("kind", None)
        values["tag"] = name
    elif kind == "llvm" and device == "arm_cpu":
        pass  # a hint for schedules that TVM no longer has
    else:
        devices = [known for owner, known in DEVICES if owner == kind]
        raise ValueError(f"'{kind} -device={device}' is unknown{suggestion(device, devices or list(catalogue()))}")
