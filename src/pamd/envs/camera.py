"""A camera that uses MuJoCo's renderer and rebuilds it whenever the model changes."""

from __future__ import annotations

import atexit
import functools
import weakref
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pamd.envs.backend import import_simulator, no_backend
from pamd.envs.task import Adjust, MaskedFrame
from pamd.errors import ConfigError, RenderError

_SKY_SHARE = 0.01
"""The minimum fraction of the image that shows sky. Below it, the floor is the background."""


class Camera:
    """A renderer for one camera of a MuJoCo model.

    Unlike `physics.render`, it does not build a new scene for every image. OpenGL is initialized for the first image,
    so it is not needed to query the spaces of an environment.
    """

    def __init__(self, camera: int, fast: bool, floor: bool = False) -> None:
        """With `floor`, the floor is always background."""
        self._camera = camera
        self._fast = fast
        self._floor = floor
        self._model: Any = None
        self._terrain: NDArray[Any] | None = None
        self._options: Any = None
        self._renderers: dict[int, Any] = {}
        self._backdrop: Literal["sky", "floor"] | None = None
        self._background: tuple[list[Any], tuple[NDArray[Any], NDArray[Any]]] | None = None
        # An environment that was never closed must free its context before EGL shuts down. Otherwise Python prints
        # tracebacks at exit. The handler must be registered after MuJoCo's own handler, so that it runs first. This is
        # why weakref.finalize cannot be used.
        self._at_exit = functools.partial(_close, weakref.ref(self))

    def draw(self, model: Any, data: Any, size: int) -> NDArray[np.uint8]:
        """Draw mujoco.MjModel `model` in the state mujoco.MjData `data` as a new RGB image [size, size, 3]."""
        picture: NDArray[np.uint8] = self._stage(model, data, size).render()
        return picture

    def draw_masked(
        self, model: Any, data: Any, size: int, adjust: Adjust | None = None, *, foreground_only: bool = False
    ) -> MaskedFrame:
        """Draw an image like `draw`, with a mask [size, size] of the background from MuJoCo's segmentation.

        The background is the sky (id -1). If the camera was built with `floor`, or sees almost no sky in the model's
        initial pose (reacher, point_mass), the floor is also background. With `foreground_only`, the background pixels
        are arbitrary, which is faster. Use it if the caller replaces them. `adjust` may change the scene before it is
        drawn and never affects the simulation. Without these two options, the image equals the result of `draw`, with
        one exception: if a floor extends beyond the sky box (quadruped_walk), `draw` shows one or two pixels of sky in
        front of that floor.
        """
        mujoco = import_simulator("mujoco")
        floor = self.backdrop(model, size) == "floor"
        renderer = self._stage(model, data, size, adjust)
        scene = renderer.scene
        geoms = scene.geoms[: scene.ngeom]
        # Transparency and multisampling blend the task with its background, so both must be drawn together.
        if not self._fast or any(geom.rgba[3] < 1 for geom in geoms):
            picture = renderer.render()
            return MaskedFrame(picture, _segmented_background(mujoco, renderer, floor))
        # Otherwise, draw the task without its background, and draw the background separately if it has changed. The
        # depths determine which is in front. The mask equals the segmentation mask and costs less than a second image.
        floors = [(geom, geom.type) for geom in geoms if floor and _is_floor(mujoco, geom)]
        for geom, _ in floors:
            geom.type = mujoco.mjtGeom.mjGEOM_NONE
        scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = False
        picture = renderer.render()
        depth = _depth(mujoco, renderer)
        if foreground_only and not floor:
            return MaskedFrame(picture, depth == 0)
        for geom in geoms:
            geom.type = mujoco.mjtGeom.mjGEOM_NONE
        for geom, kind in floors:
            geom.type = kind
        background, background_depth = self._draw_background(mujoco, renderer, floor, sky=not foreground_only)
        mask = depth <= background_depth if floor else depth == 0
        if not foreground_only:
            np.copyto(picture, background, where=mask[:, :, None])
        return MaskedFrame(picture, mask)

    def _draw_background(self, mujoco: Any, renderer: Any, floor: bool, sky: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the image and depth of the background. They are redrawn only if the camera or lights have moved."""
        scene = renderer.scene
        seen = scene.camera[0]
        key = [seen.forward.tobytes(), seen.up.tobytes(), (seen.frustum_center, seen.frustum_top, renderer.height, sky)]
        if floor:  # The view of the floor depends on the camera position. The view of the sky does not.
            key += [seen.pos.tobytes()]
            key += [light.pos.tobytes() + light.dir.tobytes() for light in scene.lights[: scene.nlight]]
        if self._background is None or self._background[0] != key:
            scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = sky
            self._background = (key, (renderer.render(), _depth(mujoco, renderer)))
        return self._background[1]

    def backdrop(self, model: Any, size: int) -> Literal["sky", "floor"]:
        """Return the kind of background of this camera. It is determined once, in the model's initial pose."""
        if self._is_stale(model):
            self.close()
        if self._backdrop is None:
            mujoco = import_simulator("mujoco")
            data = mujoco.MjData(model)
            mujoco.mj_forward(model, data)
            renderer = self._stage(model, data, size)
            sky = _segmented_background(mujoco, renderer, False).mean()
            if sky < _SKY_SHARE and not _segmented_background(mujoco, renderer, True).any():
                raise ConfigError(
                    f"camera {self._camera} shows neither sky nor floor, so it has no background to replace"
                )
            self._backdrop = "floor" if self._floor or sky < _SKY_SHARE else "sky"
        return self._backdrop

    def _stage(self, model: Any, data: Any, size: int, adjust: Adjust | None = None) -> Any:
        """Return the renderer for this image size, with its scene updated to the given state."""
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
        """Free every OpenGL context. The next image creates a new one."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()
        self._model = self._terrain = self._backdrop = self._background = None
        atexit.unregister(self._at_exit)

    def _is_stale(self, model: Any) -> bool:
        """Return whether the contexts belong to another model, or the terrain of this model has changed."""
        if self._model is None:
            return False
        if model is not self._model:
            return True
        return self._terrain is not None and not np.array_equal(self._terrain, model.hfield_data)

    def _open(self, mujoco: Any, model: Any, size: int) -> Any:
        if self._camera >= model.ncam:
            raise ConfigError(f"camera must be between -1 and {model.ncam - 1} for this model, got {self._camera}")
        # These settings have no effect after the context is created.
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, size)
        model.vis.global_.offheight = max(model.vis.global_.offheight, size)
        if self._fast:
            model.vis.quality.offsamples = 0
            model.vis.quality.shadowsize = 0
        try:
            renderer = mujoco.Renderer(model, size, size)
        except Exception as error:  # Every backend raises its own types of errors.
            raise RenderError(no_backend(error)) from error
        self._options = mujoco.MjvOption()
        # Hide the beams of range finders, as dm_control does.
        self._options.flags[mujoco.mjtVisFlag.mjVIS_RANGEFINDER] = False
        self._model = model
        self._terrain = model.hfield_data.copy() if model.nhfield else None
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)
        return renderer


def _segmented_background(mujoco: Any, renderer: Any, with_floor: bool) -> NDArray[np.bool_]:
    """Return a mask [H, W] of the pixels without an object in a segmentation pass, optionally including the floor."""
    scene = renderer.scene
    before = scene.flags.copy()
    scene.flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = True
    scene.flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = True
    colors = renderer.render().astype(np.int32)
    np.copyto(scene.flags, before)
    numbers = colors[..., 0] + (colors[..., 1] << 8) + (colors[..., 2] << 16)  # segid + 1; 0 is the sky
    is_background = np.zeros(scene.ngeom + 1, np.bool_)
    is_background[0] = True
    if with_floor:
        for geom in scene.geoms[: scene.ngeom]:
            if geom.segid >= 0 and _is_floor(mujoco, geom):
                is_background[geom.segid + 1] = True
    background: NDArray[np.bool_] = is_background[numbers]
    return background


def _is_floor(mujoco: Any, geom: Any) -> bool:
    # Vertical planes are walls, which belong to the task.
    return geom.type in (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD) and geom.mat[2, 2] > 0.5


def _depth(mujoco: Any, renderer: Any) -> NDArray[np.float32]:
    """Return the depth [H, W] of the last image. Larger values are nearer; 0 means that nothing was drawn."""
    height, width = renderer.height, renderer.width
    depth = np.empty((height, width), np.float32)
    # mujoco.Renderer uses a depth map that is 0 at the far plane.
    mujoco.mjr_readPixels(None, depth, mujoco.MjrRect(0, 0, width, height), renderer._mjr_context)
    return depth[::-1]


def _close(camera: weakref.ref[Camera]) -> None:
    alive = camera()
    if alive is not None:
        alive.close()
