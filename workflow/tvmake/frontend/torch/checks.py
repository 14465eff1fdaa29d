"""What PyTorch looks up in values before it computes with them, which torch.export cannot follow and no result depends on.

``torch.distributions`` checks its parameters and what it is given; a compiled network could raise no error about them.
``nn.Transformer`` looks whether a mask is the causal one, to choose an attention that needs no mask and computes the same.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn
from torch.distributions import Distribution

CAUSAL_HINTS = {nn.TransformerEncoder: ("is_causal", 3), nn.TransformerDecoder: ("tgt_is_causal", 6)}
"""Arguments for which None means to look at the mask, and their positions."""


@contextmanager
def left_out(module: nn.Module) -> Iterator[None]:
    """Nothing is looked up in values meanwhile, wherever a user has not asked for it.

    Args:
        module: that is traced.
    """
    was_validated = Distribution._validate_args
    with ExitStack() as stack:
        for part in module.modules():
            hint = next((name for kind, name in CAUSAL_HINTS.items() if isinstance(part, kind)), None)
            if hint is not None:
                handle = part.register_forward_pre_hook(_with_mask_as_given(*hint), with_kwargs=True)
                stack.callback(handle.remove)
        Distribution.set_default_validate_args(False)
        stack.callback(Distribution.set_default_validate_args, was_validated)
        yield


def _with_mask_as_given(name: str, position: int) -> Any:
    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        if kwargs.get(name) is not None or len(args) > position:
            return None
        return args, {**kwargs, name: False}

    return hook
