"""MuJoCo's own renderer, kept in step with the model in use."""

from __future__ import annotations

import atexit
import functools
import weakref
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pamd.envs.backend import import_simulator, no_backend
from pamd.envs.task import Adjust, Shot
from pamd.errors import ConfigError, RenderError

__all__ = ["Camera"]

SKY_SHARE = 0.01
"""A task whose camera shows less sky than this has its floor for a background."""


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
        self._backdrop: Literal["sky", "floor"] | None = None
        self._behind: tuple[list[Any], tuple[NDArray[Any], NDArray[Any]]] | None = None
        # An environment that was never closed must let go of its context before EGL is shut down, or Python's exit is
        # full of tracebacks. Only a handler registered after MuJoCo's own runs before it: not so weakref.finalize.
        self._at_exit = functools.partial(_close, weakref.ref(self))

    def draw(self, model: Any, data: Any, size: int) -> NDArray[np.uint8]:
        """A new RGB picture [size, size, 3] of mujoco.MjModel `model` in the state mujoco.MjData `data`."""
        picture: NDArray[np.uint8] = self._stage(model, data, size).render()
        return picture

    def shoot(self, model: Any, data: Any, size: int, adjust: Adjust | None = None, *, bare: bool = False) -> Shot:
        """As `draw`, with a mask [size, size] of the background by MuJoCo's segmentation: the sky, id -1.

        Where the camera sees no sky in the model's own first pose (reacher, point_mass), the floor is background too.
        `bare` leaves open what the picture shows in the background, for who paints over it: that is cheaper.
        `adjust` may change the scene before it is drawn: that never reaches the simulation. Without it, the picture is
        that of `draw`; only where a floor reaches farther than the box that the sky is painted on
        (quadruped_walk), `draw` shows a pixel or two of sky in front of that floor.
        """
        mujoco = import_simulator("mujoco")
        floor = self.backdrop(model, size) == "floor"
        renderer = self._stage(model, data, size, adjust)
        scene = renderer.scene
        geoms = scene.geoms[: scene.ngeom]
        # What is transparent, or smoothed by multisampling, mixes with what is behind it: there all must be drawn.
        if not self._fast or any(geom.rgba[3] < 1 for geom in geoms):
            picture = renderer.render()
            return Shot(picture, _segmented_background(mujoco, renderer, floor))
        # Otherwise the task is drawn without what is behind it, and that by itself where it has changed: the depths
        # say which is in front. The same pixels as the segmentation's, for less than the price of a second picture.
        floors = [(geom, geom.type) for geom in geoms if floor and _is_floor(mujoco, geom)]
        for geom, _ in floors:
            geom.type = mujoco.mjtGeom.mjGEOM_NONE
        scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = False
        picture = renderer.render()
        depth = _depth(mujoco, renderer)
        if bare and not floor:
            return Shot(picture, depth == 0)
        for geom in geoms:
            geom.type = mujoco.mjtGeom.mjGEOM_NONE
        for geom, kind in floors:
            geom.type = kind
        behind = self._draw_behind(mujoco, renderer, floor, sky=not bare)
        background = depth <= behind[1] if floor else depth == 0
        if not bare:
            np.copyto(picture, behind[0], where=background[:, :, None])
        return Shot(picture, background)

    def _draw_behind(self, mujoco: Any, renderer: Any, floor: bool, sky: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """Picture and depth of what is left in the scene; drawn anew only where camera or lights have moved."""
        scene = renderer.scene
        seen = scene.camera[0]
        key = [seen.forward.tobytes(), seen.up.tobytes(), (seen.frustum_center, seen.frustum_top, renderer.height, sky)]
        if floor:  # the sky is the same from everywhere, the floor is not
            key += [seen.pos.tobytes()]
            key += [light.pos.tobytes() + light.dir.tobytes() for light in scene.lights[: scene.nlight]]
        if self._behind is None or self._behind[0] != key:
            scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = sky
            self._behind = (key, (renderer.render(), _depth(mujoco, renderer)))
        return self._behind[1]

    def backdrop(self, model: Any, size: int) -> Literal["sky", "floor"]:
        """What is behind everything else for this camera; decided in the model's first pose, so once and for all."""
        if self._is_stale(model):
            self.close()
        if self._backdrop is None:
            mujoco = import_simulator("mujoco")
            data = mujoco.MjData(model)
            mujoco.mj_forward(model, data)
            renderer = self._stage(model, data, size)
            sky = _segmented_background(mujoco, renderer, False).mean()
            if sky < SKY_SHARE and not _segmented_background(mujoco, renderer, True).any():
                raise ConfigError(f"camera {self._camera} shows neither sky nor floor: there is no background")
            self._backdrop = "floor" if sky < SKY_SHARE else "sky"
        return self._backdrop

    def _stage(self, model: Any, data: Any, size: int, adjust: Adjust | None = None) -> Any:
        """The renderer of this size with the scene of this state."""
        if self._is_stale(model):
            self.close()
        mujoco = import_simulator("mujoco")
        renderer = self._renderers.get(size)
        if renderer is None:
            renderer = self._renderers[size] = self._open(mujoco, model, size)
        renderer.update_scene(data, self._camera, self._options)
        flags = renderer.scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = True
        if self._fast:
            flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
            flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        if adjust is not None:
            adjust(model, renderer.scene)
        return renderer

    def close(self) -> None:
        """Free every context. The next picture opens a new one."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()
        self._model = self._terrain = self._backdrop = self._behind = None
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


def _segmented_background(mujoco: Any, renderer: Any, with_floor: bool) -> NDArray[np.bool_]:
    """[H, W]: where the scene, drawn once more in its objects' numbers, shows nothing or the floor."""
    scene = renderer.scene
    before = scene.flags.copy()
    scene.flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = True
    scene.flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = True
    colours = renderer.render().astype(np.int32)
    np.copyto(scene.flags, before)
    numbers = colours[..., 0] + (colours[..., 1] << 8) + (colours[..., 2] << 16)  # segid + 1; 0 is the sky
    is_background = np.zeros(scene.ngeom + 1, np.bool_)
    is_background[0] = True
    if with_floor:
        for geom in scene.geoms[: scene.ngeom]:
            if geom.segid >= 0 and _is_floor(mujoco, geom):
                is_background[geom.segid + 1] = True
    background: NDArray[np.bool_] = is_background[numbers]
    return background


def _is_floor(mujoco: Any, geom: Any) -> bool:
    # Planes that stand upright are walls, which are part of the task.
    return geom.type in (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD) and geom.mat[2, 2] > 0.5


def _depth(mujoco: Any, renderer: Any) -> NDArray[np.float32]:
    """[H, W] of the picture just drawn: the larger the nearer, 0 where nothing was drawn."""
    height, width = renderer.height, renderer.width
    depth = np.empty((height, width), np.float32)
    # mujoco.Renderer has set MuJoCo's map of depths to the one that is 0 at the far plane.
    mujoco.mjr_readPixels(None, depth, mujoco.MjrRect(0, 0, width, height), renderer._mjr_context)
    return depth[::-1]


def _close(camera: weakref.ref[Camera]) -> None:
    alive = camera()
    if alive is not None:
        alive.close()
