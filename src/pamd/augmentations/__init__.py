"""Augmentations of observations by name. To add one, add a file here; no other edit is needed."""

from __future__ import annotations

from typing import Any

from pamd.augmentations.base import AUGMENTATIONS, Augmentation, AugmentationPart
from pamd.schema import build

__all__ = ["AUGMENTATIONS", "Augmentation", "AugmentationPart", "augmentation"]


def augmentation(name: str, **options: Any) -> Augmentation[Any]:
    """Return the augmentation called `name`. `options` are the fields of its config, e.g. ``pixels=4``."""
    cls = AUGMENTATIONS.get(name)
    return cls(build(cls.Config, options, f"augmentation {name!r}"))
