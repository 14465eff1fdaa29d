"""Antialiased resizes of images of one column differ from those of two equal columns."""

import sys

import torch

SIZES = [(size, result) for size in (2, 3, 5, 7, 12) for result in (3, 5, 9, 16)]


def resize(image: torch.Tensor, size: tuple[int, int], mode: str, align: bool) -> torch.Tensor:
    return torch.nn.functional.interpolate(image, size, mode=mode, align_corners=align, antialias=True)


def still_needed() -> bool:
    wrong = []
    for mode in ("bicubic", "bilinear"):
        for size, result in SIZES:
            rows = torch.eye(size)[None].permute(0, 2, 1)[..., None]  # [1, size, size, 1]
            for align in (False, True):
                one = resize(rows, (result, 1), mode, align)[..., 0]
                two = resize(rows.expand(-1, -1, -1, 2), (result, 2), mode, align)
                if not torch.allclose(one, two[..., 0], atol=1e-5):
                    wrong.append((mode, size, result, align))
    print(f"{len(wrong)} resizes of one column differ from those of two equal columns: {wrong[:3]}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(still_needed())
