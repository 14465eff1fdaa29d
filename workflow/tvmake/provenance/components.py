"""The component list of a package, in CycloneDX: its parts, the tools that built it, and its requirements.

It depends only on the package and its origin: no time, no random serial number. So it can be recomputed from the two, byte for
byte.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.source import SourceRecord
from tvmake.errors import InputError
from tvmake.provenance.statement import RECORDS, uri

if TYPE_CHECKING:
    from cyclonedx.model.component import Component as Part

    from tvmake.artifact.elf import Library

SUFFIX = ".cdx.json"
"""CycloneDX's recommended name for JSON files."""

RUNTIME = ("apache-tvm", "apache-tvm-ffi")
"""The components that a package is run with; the others only took part in making it."""

DRIVERS = {
    "opencl": "OpenCL driver",
    "cuda": "CUDA driver",
    "vulkan": "Vulkan driver",
    "metal": "Metal",
    "rocm": "ROCm",
}
"""The runtime that a device needs for kernels of a kind of target."""


SOURCE = "source:"
"""The prefix of references to a model's own files, which the package does not name."""


def component_list(
    manifest: Manifest, package_sha256: str, library: "Library", source: SourceRecord | None = None
) -> str:
    """The list as JSON text (CycloneDX 1.6).

    Args:
        package_sha256: the package's digest, which identifies it in the list.
        library: mod.so's requirements on the system that loads it.
        source: the files that the network was read from, if known.
    """
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import ComponentType
    from cyclonedx.output.json import JsonV1Dot6

    package = _part(
        ComponentType.MACHINE_LEARNING_MODEL,
        f"{manifest.model}/{manifest.precision}/{manifest.target_name}",
        "package",
        sha256=package_sha256,
        version=package_sha256[:16],
        properties={
            "tvmake:precision": manifest.precision,
            "tvmake:target": str(manifest.target.get("kind", "")),
            "tvmake:kernels:tuned": f"{manifest.coverage.tuned} of {manifest.coverage.tunable}",
        },
    )
    origins = [*_network(manifest), *(_source(source) if source else ())]
    parts = [*_contents(manifest), *origins, *_programs(manifest), *_system(manifest, library)]
    bom = Bom(
        serial_number=uuid5(NAMESPACE_URL, f"urn:tvmake:package:{package_sha256}"),
        metadata=BomMetaData(component=package),
        components=parts,
    )
    bom.register_dependency(package, parts)
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    # The library always notes the time; the format does not ask for it.
    del document["metadata"]["timestamp"]
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def check_component_list(data: bytes, expected: str, where: str, wholly: bool, with_source: bool) -> None:
    """Check that a list agrees with its package.

    Args:
        expected: the list, recomputed from the package.
        wholly: compare the whole list, not only the package's identity.
        with_source: compare the model's own files too, which must be known here.

    Raises:
        InputError: it is damaged, belongs to another package, or contradicts the package.
    """
    try:
        listed = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(where, "is not a component list: not JSON, or truncated") from None
    derived = json.loads(expected)
    if not isinstance(listed, dict) or listed.get("bomFormat") != "CycloneDX":
        raise InputError(where, "is not a CycloneDX component list")
    if listed.get("serialNumber") != derived["serialNumber"]:
        raise InputError(where, "is the component list of another package")
    if not with_source:
        listed, derived = _without_source(listed), _without_source(derived)
    if wholly and listed != derived:
        key = next(key for key in sorted({*listed, *derived}) if listed.get(key) != derived.get(key))
        raise InputError(where, f"contradicts the package ({key})")


def _contents(manifest: Manifest) -> "Iterable[Part]":
    from cyclonedx.model.component import ComponentType

    for name, entry in sorted(manifest.files.items()):
        yield _part(ComponentType.FILE, name, f"file:{name}", sha256=entry.sha256)


def _network(manifest: Manifest) -> "Iterable[Part]":
    from cyclonedx.model.component import ComponentType

    for name, digest in sorted(manifest.network.items()):
        yield _part(ComponentType.DATA, name, f"network:{name}", sha256=digest)
    if manifest.records_sha256:
        yield _part(ComponentType.DATA, RECORDS, f"records:{RECORDS}", sha256=manifest.records_sha256)


def _source(source: SourceRecord) -> "Iterable[Part]":
    from cyclonedx.model.component import ComponentType

    notes = {"tvmake:format": source.format}
    for name, digest in sorted(source.files.items()):
        yield _part(ComponentType.MACHINE_LEARNING_MODEL, name, f"{SOURCE}{name}", sha256=digest, properties=notes)
    if not source.files:
        # A network that tvmake draws itself.
        reference = f"{SOURCE}{source.source}"
        yield _part(ComponentType.MACHINE_LEARNING_MODEL, source.source, reference, properties=notes)


def _without_source(listed: dict[str, Any]) -> dict[str, Any]:
    """A list without the model's own files, valid or not."""

    def is_source(reference: Any) -> bool:
        return isinstance(reference, str) and reference.startswith(SOURCE)

    def less(entry: Any) -> Any:
        depends = entry.get("dependsOn") if isinstance(entry, dict) else None
        return (
            {**entry, "dependsOn": [item for item in depends if not is_source(item)]}
            if isinstance(depends, list)
            else entry
        )

    kept = dict(listed)
    for key, name in (("components", "bom-ref"), ("dependencies", "ref")):
        if isinstance(entries := listed.get(key), list):
            kept[key] = [less(item) for item in entries if not (isinstance(item, dict) and is_source(item.get(name)))]
    return kept


def _programs(manifest: Manifest) -> "Iterable[Part]":
    from cyclonedx.model.component import ComponentScope, ComponentType

    for component in manifest.components:
        is_run = component.name in RUNTIME
        yield _part(
            ComponentType.LIBRARY if is_run or component.name == "numpy" else ComponentType.APPLICATION,
            component.name,
            f"program:{component.name}",
            version=component.version,
            scope=ComponentScope.REQUIRED if is_run else ComponentScope.EXCLUDED,
            purl=uri(component),
        )


def _system(manifest: Manifest, library: "Library") -> "Iterable[Part]":
    from cyclonedx.model.component import ComponentScope, ComponentType

    for name in sorted(set(library.needed)):
        notes = {"tvmake:processor": library.machine}
        if name.startswith("libc.") and library.glibc:
            notes["tvmake:glibc"] = ".".join(map(str, library.glibc))
        yield _part(ComponentType.LIBRARY, name, f"system:{name}", scope=ComponentScope.REQUIRED, properties=notes)
    if driver := DRIVERS.get(str(manifest.target.get("kind"))):
        yield _part(ComponentType.DEVICE_DRIVER, driver, f"system:{driver}", scope=ComponentScope.REQUIRED)


def _part(
    kind: Any,
    name: str,
    reference: str,
    *,
    sha256: str | None = None,
    version: str | None = None,
    scope: Any = None,
    purl: str | None = None,
    properties: dict[str, str] | None = None,
) -> "Part":
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.component import Component
    from packageurl import PackageURL

    return Component(
        type=kind,
        name=name,
        bom_ref=reference,
        version=version,
        scope=scope,
        purl=PackageURL.from_string(purl) if purl else None,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else [],
        properties=[Property(name=key, value=value) for key, value in (properties or {}).items()],
    )
