"""Transform: fold, bind, change layout and precision, run user passes; independent of the target."""

from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.module_files import load_module, load_params, save_module, save_params
from tvmake.artifact.signature import Signature
from tvmake.config.requests.transforming import TransformRequest
from tvmake.transform.graph import bound_signature, transform


def transform_model(
    imported: Path,
    imported_params: Path,
    signature: Path,
    request: TransformRequest,
    module: Path,
    params: Path,
    bound: Path,
) -> None:
    """Transform an imported model; write ``module``, ``params`` and ``bound`` (its signature with dimensions bound).

    Raises:
        InputError: an unknown dimension or operator, a failing user pass, or damaged stage files.
    """
    before = stage_json.load(Signature, signature)
    rewritten, weights = transform(load_module(imported), load_params(imported_params), request)
    save_params(weights, params)
    save_module(rewritten, module)
    stage_json.save(bound_signature(before, rewritten), bound)
