"""The colors of a DMControl scene: the suite's own, or the colors of the released DBC code.

The released DBC code uses a modified suite. Two of its changes are known: the floor of cheetah, hopper and walker is
dark gray, and the marks in the sky are black. They are applied to the loaded model before it is drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.envs.backend import import_simulator
from pamd.envs.distractors.compose import to_gray

__all__ = ["GRAY_FLOORS", "recolor"]

GRAY_FLOORS = ("cheetah", "hopper", "walker")
"""The domains whose floor is dark gray. The others keep their floor."""

_MARK = 255
"""The channel value of the marks. Nothing else in the sky is pure white."""


def recolor(model: Any, domain: str) -> None:
    """Apply the colors of the released DBC code to mujoco.MjModel `model`. Call this before the first image.

    Gray texels keep their original brightness.
    """
    mujoco = import_simulator("mujoco")
    for texture in range(model.ntex):
        if model.tex_type[texture] == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            sky = texels(model, texture)
            sky[(sky == _MARK).all(-1)] = 0
    if domain in GRAY_FLOORS:
        for material in _floor_materials(mujoco, model):
            for texture in {int(number) for number in np.ravel(model.mat_texid[material]) if number >= 0}:
                floor = texels(model, texture)
                floor[:] = to_gray(floor)


def texels(model: Any, texture: int) -> NDArray[np.uint8]:
    """Return a view [H, W, 3] of texture number `texture`. Writing to it changes the model."""
    height, width, channels = model.tex_height[texture], model.tex_width[texture], model.tex_nchannel[texture]
    start = model.tex_adr[texture]
    view: NDArray[np.uint8] = model.tex_data[start : start + height * width * channels]
    return view.reshape(height, width, channels)


def _floor_materials(mujoco: Any, model: Any) -> set[int]:
    is_plane = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
    return {int(material) for material in model.geom_matid[is_plane] if material >= 0}
