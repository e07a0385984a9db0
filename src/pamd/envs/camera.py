"""MuJoCo's own renderer, kept in step with the model in use."""

from __future__ import annotations

import atexit
import functools
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.envs.backend import import_simulator, no_backend
from pamd.errors import ConfigError, RenderError

__all__ = ["Camera"]


class Camera:
    """Pictures of a MuJoCo model from one of its cameras.

    Not `physics.render`: that builds a scene anew for every picture. OpenGL starts with the first picture, so an
    environment that is only asked for its spaces costs none.
    """

    def __init__(self, camera: int, fast: bool) -> None:
        self._camera = camera
        self._fast = fast
        self._model: Any = None
        self._terrain: NDArray[Any] | None = None
        self._options: Any = None
        self._renderers: dict[int, Any] = {}
        # An environment that was never closed must let go of its context before EGL is shut down, or Python's exit is
        # full of tracebacks. Only a handler registered after MuJoCo's own runs before it: not so weakref.finalize.
        self._at_exit = functools.partial(_close, weakref.ref(self))

    def draw(self, model: Any, data: Any, size: int) -> NDArray[np.uint8]:
        """A new RGB picture [size, size, 3] of mujoco.MjModel `model` in the state mujoco.MjData `data`."""
        if self._is_stale(model):
            self.close()
        mujoco = import_simulator("mujoco")
        renderer = self._renderers.get(size)
        if renderer is None:
            renderer = self._renderers[size] = self._open(mujoco, model, size)
        renderer.update_scene(data, self._camera, self._options)
        if self._fast:
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        picture: NDArray[np.uint8] = renderer.render()
        return picture

    def close(self) -> None:
        """Free every context. The next picture opens a new one."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()
        self._model = self._terrain = None
        atexit.unregister(self._at_exit)

    def _is_stale(self, model: Any) -> bool:
        """Whether the contexts show another model, or this one with terrain that has changed since it was uploaded."""
        if self._model is None:
            return False
        if model is not self._model:
            return True
        return self._terrain is not None and not np.array_equal(self._terrain, model.hfield_data)

    def _open(self, mujoco: Any, model: Any, size: int) -> Any:
        if self._camera >= model.ncam:
            raise ConfigError(f"camera must be -1 to {model.ncam - 1} in this model, got {self._camera}")
        # All of these count only if they are there before the context is made.
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, size)
        model.vis.global_.offheight = max(model.vis.global_.offheight, size)
        if self._fast:
            model.vis.quality.offsamples = 0
            model.vis.quality.shadowsize = 0
        try:
            renderer = mujoco.Renderer(model, size, size)
        except Exception as error:  # Each back end fails with types of its own.
            raise RenderError(no_backend(error)) from error
        self._options = mujoco.MjvOption()
        # As in dm_control: the beams of range finders are not part of the picture.
        self._options.flags[mujoco.mjtVisFlag.mjVIS_RANGEFINDER] = False
        self._model = model
        self._terrain = model.hfield_data.copy() if model.nhfield else None
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)
        return renderer


def _close(camera: weakref.ref[Camera]) -> None:
    alive = camera()
    if alive is not None:
        alive.close()
