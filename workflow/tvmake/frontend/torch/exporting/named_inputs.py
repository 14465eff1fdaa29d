"""Give ``forward`` one argument for each input, because torch.export names inputs after its arguments."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn


class NamedInputsModule(nn.Module):
    """A model whose ``forward`` has one argument for each input, with the input's name.

    Args:
        model: the model.
        names: the inputs' names, which are Python identifiers.
        function: calls the model with the list of inputs.
    """

    def __init__(self, model: Any, names: Sequence[str], function: Callable[[Any, list[Tensor]], Any]):
        super().__init__()
        self.model = model
        self.function = function
        arguments = ", ".join(names)
        namespace: dict[str, Any] = {}
        exec(f"def forward(self, {arguments}):\n    return self.function(self.model, [{arguments}])", namespace)
        self.forward = namespace["forward"].__get__(self)
