"""Where everything lies: one place names every file of a run."""

from typing import Literal

Artifact = Literal[
    "imported_module", "imported_params", "signature", "source", "reference",
    "module", "params", "bound_signature",
    "candidate_module", "candidate_params", "candidate_signature",
    "chosen_module", "chosen_params", "chosen_signature", "layout",
    "tasks", "workloads", "budget", "kernels", "kernel", "tuned", "best",
    "lib", "manifest", "weights", "sources", "package", "provenance", "components", "receipt", "numerics", "latency",
    "summary", "summary_csv", "page", "resolved_config",
]  # fmt: skip

MODEL = "{results}/{model}"
TRANSFORMED = MODEL + "/{precision}"
VARIANT = TRANSFORMED + "/{target}"
CANDIDATE = TRANSFORMED + "/layouts/{layout}"
PASS = "{results}/tuning/{target}/pass{number}"

LAYOUT: dict[str, str] = {
    "imported_module": MODEL + "/model.json",
    "imported_params": MODEL + "/model.params",
    "signature": MODEL + "/signature.json",
    "source": MODEL + "/source.json",
    "reference": MODEL + "/reference.npz",
    "module": TRANSFORMED + "/module.json",
    "params": TRANSFORMED + "/module.params",
    "bound_signature": TRANSFORMED + "/signature.json",
    "candidate_module": CANDIDATE + "/module.json",
    "candidate_params": CANDIDATE + "/module.params",
    "candidate_signature": CANDIDATE + "/signature.json",
    "chosen_module": VARIANT + "/module.json",
    "chosen_params": VARIANT + "/module.params",
    "chosen_signature": VARIANT + "/signature.json",
    "layout": VARIANT + "/layout.json",
    "tasks": VARIANT + "/tasks.json",
    "workloads": VARIANT + "/workloads",
    "budget": PASS + "/budget.json",
    "kernels": PASS + "/workloads",
    "kernel": PASS + "/workloads/{workload}.json",
    "tuned": PASS + "/{workload}.json",
    "best": VARIANT + "/best.json",
    "lib": VARIANT + "/mod.so",
    "manifest": VARIANT + "/mod.json",
    "weights": VARIANT + "/mod.params",
    "sources": VARIANT + "/sources",
    "package": VARIANT + "/package.tar",
    "provenance": VARIANT + "/package.provenance.json",
    "components": VARIANT + "/package.cdx.json",
    "receipt": VARIANT + "/receipt.json",
    "numerics": VARIANT + "/numerics.json",
    "latency": VARIANT + "/latency.json",
    "summary": "{results}/summary.json",
    "summary_csv": "{results}/summary.csv",
    "page": "{results}/index.html",
    "resolved_config": "{results}/config.resolved.yaml",
}


def pattern(artifact: Artifact, results: str) -> str:
    """The file's path with its wildcards (``{model}``, ``{target}`` …) left in."""
    return LAYOUT[artifact].replace("{results}", results)


def path(artifact: Artifact, results: str, **wildcards: str | int) -> str:
    """The file's path for one model, precision, target …"""
    return LAYOUT[artifact].format(results=results, **wildcards)
