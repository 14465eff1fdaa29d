"""A saved program with a derived dimension (``2*batch``) cannot be decomposed after it is loaded."""

import io
import sys

import torch


def still_needed() -> bool:
    batch = torch.export.Dim("batch", min=2, max=8)

    class Join(torch.nn.Module):
        def forward(self, single, double):
            return torch.nn.functional.gelu(double) + torch.cat([single, single])

    program = torch.export.export(
        Join(), (torch.ones(3, 4), torch.ones(6, 4)), dynamic_shapes={"single": {0: batch}, "double": {0: 2 * batch}}
    )
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    try:
        torch.export.load(file).run_decompositions()
    except Exception as error:
        print(f"run_decompositions of the loaded program: {type(error).__name__}: {str(error).splitlines()[0]}")
        return True
    print("the loaded program is decomposed")
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
