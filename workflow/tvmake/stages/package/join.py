"""Join: the packages of a model's functions become one package, with each distinct weight once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.cache.recipe import Recipe
from tvmake.config.requests.building import JoinRequest
from tvmake.config.root import FunctionsConfig
from tvmake.stages.descriptor import Input, Log, Output, Stage

if TYPE_CHECKING:
    from tvmake.artifact.joined import Joined
    from tvmake.stages.context import JobContext


def join(
    packages: Sequence[Path],
    request: JoinRequest,
    package: Path,
    joined: Path,
    networks: Sequence[Path] | None = None,
) -> Joined:
    """Write the package with all functions, and ``joined`` (JSON); the same files give the same bytes.

    Args:
        packages: the package of each function, in the order of the functions.
        request: the functions' names, and those of the package.
        package: the package to write (tar).
        joined: the record to write.
        networks: the parameters of each function's network, before its build packed them.

    Raises:
        InputError: a package is damaged, or no device could run all of them.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.joined import Joined
    from tvmake.artifact.joining import join as join_packages
    from tvmake.artifact.package import WEIGHTS, inspect_functions
    from tvmake.artifact.states import shared_states, unshared_states
    from tvmake.artifact.weights.contents import distinct_bytes
    from tvmake.storage.files import digest_file

    functions = dict(zip(request.functions, packages, strict=True))
    manifest = join_packages(
        functions,
        package,
        model=request.model,
        precision=request.precision,
        target_name=request.target_name,
        links=request.links,
        separate_states=request.separate_states,
    )
    signatures = {name: own.signature for name, own in inspect_functions(package)[1].items()}
    record = Joined(
        functions={name: digest_file(file) for name, file in functions.items()},
        package_sha256=digest_file(package),
        package_bytes=package.stat().st_size,
        params_bytes=manifest.files[WEIGHTS].size,
        notes=unshared_states(signatures, manifest.separate_states),
        shared_states=shared_states(signatures, manifest.separate_states),
        distinct_bytes=distinct_bytes(networks or ()),
    )
    stage_json.save(record, joined)
    return record


def join_request(job: JobContext) -> JoinRequest:
    """The functions of a package."""
    request = JoinRequest(model=job.group, precision=job.precision, target_name=job.target, functions=[*job.functions])
    model = job.config.models.get(job.group)  # None for a network that is not a function
    if not isinstance(model, FunctionsConfig):
        return request
    return request.model_copy(update={"links": model.links, "separate_states": model.separate_states})


STAGE = Stage(
    name="join",
    summary="Join the packages of a model's functions to one package over the same weights.",
    function=join,
    inputs=(
        Input(
            "package.tar",
            "packages",
            lambda job: [function.file("package.tar") for function in job.functions.values()],
            is_many=True,
        ),
        Input(
            ("module.params", "chosen/module.params", "assigned/module.params"),
            "networks",
            lambda job: [function.network_file("module.params") for function in job.functions.values()],
            "Parameters of each function's network; repeatable.",
            is_many=True,
            is_optional=True,
        ),
    ),
    outputs=(
        Output("joined/package.tar", paths.JOINED, "package", "Package to write (tar).", has_parts=True),
        Output("joined.json", paths.JOINED, "joined", "Record of the functions and the weights to write (JSON)."),
    ),
    logs=(Log("{group}/{precision}/{target}/join.log"),),
    request_model=JoinRequest,
    request=join_request,
    exists=lambda job: bool(job.functions),
    subject=lambda arguments: arguments["package"],
    report=lambda joined: [f"warning: {note}" for note in joined.notes],
    is_goal=True,
    is_hermetic=True,
    recipe=Recipe(is_machine_independent=True),
    memory_mb=600,
    minutes=20,
    holds_weights=False,
)
