"""A package's network: its operators in the order of computation, with their share of the time."""

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from tvmake.artifact.manifest import GraphNode, Manifest
from tvmake.artifact.operator_errors import OperatorErrors
from tvmake.report import quantities
from tvmake.report.page.charts.scale import Scale
from tvmake.report.results import VariantResults

MOST_NODES = 300
"""Of a variant; the others are in the package's manifest."""

MOST_ON_A_PAGE = 6000
HEIGHT = 10
SCHEDULES = {"record": "tuned", "rule": "by a rule", "default": "plain loops"}


@dataclass(frozen=True)
class NodeLine:
    """One operator."""

    name: str
    kernel: str
    inputs: str
    output: str
    schedule: str
    share: str
    bar: Markup
    noise: str


@dataclass(frozen=True)
class Network:
    """The first operators of a network."""

    nodes: list[NodeLine]
    note: str
    has_noise: bool


def networks(results: Iterable[VariantResults]) -> dict[str, Network]:
    """The networks of profiled packages by their paths, as many as fit on a page."""
    found: dict[str, Network] = {}
    left = MOST_ON_A_PAGE
    for result in results:
        if result.latency and result.latency.report.ops and result.manifest.graph:
            left -= min(MOST_NODES, len(result.manifest.graph))
            if left < 0:
                break
            found[result.package] = _network(result)
    return found


def _network(result: VariantResults) -> Network:
    manifest = result.manifest
    assert result.latency is not None
    # A kernel's time is spread evenly over its calls.
    shares = {op.kernel: op.share / max(1.0, op.calls) for op in result.latency.report.ops}
    nodes = manifest.graph[:MOST_NODES]
    longest = max((shares.get(node.call, 0.0) for node in nodes), default=0.0)
    schedules = {kernel.name: SCHEDULES[kernel.scheduled] for kernel in manifest.kernels}
    note = "In order of computation; the time of a kernel with several calls is spread evenly over them."
    if len(manifest.graph) > len(nodes):
        note += f" The first {len(nodes)} of {len(manifest.graph)} operators."
    compared = result.operators
    noises = {error.position: error.noise for error in compared.operators} if compared else {}
    lines = [
        _line(node, shares.get(node.call), longest, schedules.get(node.call, ""), noises.get(position))
        for position, node in enumerate(nodes)
    ]
    return Network(lines, f"{note} {_errors(manifest, compared)}", has_noise=bool(noises))


def _errors(manifest: Manifest, compared: OperatorErrors | None) -> str:
    if compared is not None and compared.why_not:
        return f"Its operators are not compared: {compared.why_not}."
    if compared is not None:
        return (
            "Noise: of the result, relative to the original network's, for one sample, computed in plain loops; "
            "none for values that the original network does not have."
        )
    name = f"{manifest.model}/{manifest.precision}/{manifest.target_name}"
    return f"`validation.operators: true` adds the noise of each; `tvmake debug {name}` names the first that departs."


def _line(node: GraphNode, share: float | None, longest: float, schedule: str, noise: float | None) -> NodeLine:
    shape = "" if node.shape is None else f"{' × '.join(map(str, node.shape)) or 'scalar'} {node.dtype or ''}"
    return NodeLine(
        name=node.name,
        kernel=node.call,
        inputs=", ".join(node.inputs),
        output=shape.strip(),
        schedule=schedule,
        share=quantities.share(share, 1),
        bar=_bar(share or 0.0, longest),
        noise="" if noise is None else f"{noise:.1e}",
    )


def _bar(share: float, longest: float) -> Markup:
    width = Scale(0.0, longest or 1.0).at(share)
    return Markup(
        '<svg class="bars" width="100%" height="{0}" aria-hidden="true"><rect class="bar" x="0" y="0" width="{1}%" height="{0}" rx="2"/></svg>'
    ).format(HEIGHT, width)
