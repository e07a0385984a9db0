"""`pamd diagnose residual | geometry | latents | exact`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pamd.cli.progress import Steps
from pamd.errors import RunInterrupted
from pamd.training.threads import available_threads

__all__ = ["diagnose"]


def residual(
    source: Path | None = None,
    /,
    preset: Literal["quick", "paper", "released"] = "quick",
    distances: tuple[str, ...] = ("pamd", "mlp"),
    seeds: int | None = None,
    steps: int | None = None,
    transitions: int | None = None,
    encoder: Literal["random", "run"] | None = None,
    latent_dim: int | None = None,
    match: str | None = None,
    out: Path | None = None,
    threads: int | None = None,
) -> None:
    """Test whether the distance head absorbs the supervision.

    Each distance is fitted to its fixed point twice: with a frozen and with a trained encoder.

    Finished curves are kept. After an interruption, rerun the same command to continue; it may add seeds or distances.

    Args:
        source: a run directory or a saved replay (default: a replay filled by a random policy)
        preset: settings; quick takes ten minutes on two cores
        distances: distances to test; see `pamd list distances`
        seeds: number of seeds (default: 3 for quick, 4 for paper and released)
        steps: gradient steps per curve (default: the preset's)
        transitions: number of replay transitions to use (default: the preset's)
        encoder: initial weights of the encoder: random or the run's (default: the preset's)
        latent_dim: dimension of the latents (default: the preset's)
        match: distance whose parameter count the other heads match (default: pamd)
        out: directory of the results (default: RUN/diagnostics/residual-PRESET or diagnostics/residual-PRESET)
        threads: CPU threads of torch (default: all cores)
    """
    from pamd import diagnostics

    given = {"steps": steps, "transitions": transitions, "encoder": encoder, "latent_dim": latent_dim, "match": match}
    changes = {name: value for name, value in given.items() if value is not None}
    place = out or _default_directory(source) / f"residual-{preset}"

    def compute(progress: Steps, interrupted: bool) -> Any:
        return diagnostics.residual(
            source, preset=preset, distances=distances, seeds=seeds, out=place, progress=progress,
            interrupted=interrupted, **changes,
        )  # fmt: skip

    dimension = latent_dim or 50
    heads = ["matched heads:", *(f"  {diagnostics.match(name, dimension, match or 'pamd')}" for name in distances)]
    _run(compute, place, threads, before=heads)


def geometry(run: Path, /, pairs: int = 512, seed: int = 0, out: Path | None = None) -> None:
    """Examine the learned matrices of a run: spectrum, anisotropy, dead diagonals, guards, triangle inequality.

    Args:
        run: a run directory whose distance is a quadratic form
        pairs: pairs of latents to examine
        seed: seed of the pairs
        out: directory of the results (default: RUN/diagnostics/geometry)
    """
    from pamd import diagnostics

    place = out or _default_directory(run) / "geometry"
    _run(lambda progress, _: diagnostics.geometry(run, pairs=pairs, seed=seed, progress=progress), place, None)


def latents(
    run: Path, /, states: int = 400, episodes: int = 4, neighbors: int = 4, seed: int = 0, out: Path | None = None
) -> None:
    """Examine the latents of a run: nearest neighbors as images, correlations with behavior, 2D maps.

    Args:
        run: a run directory; its policy plays new episodes
        states: number of states over all episodes
        episodes: number of episodes
        neighbors: nearest neighbors per state
        seed: seed of the episodes
        out: directory of the results (default: RUN/diagnostics/latents)
    """
    from pamd import diagnostics

    place = out or _default_directory(run) / "latents"

    def compute(progress: Steps, _: bool) -> Any:
        return diagnostics.latents(
            run, states=states, episodes=episodes, neighbors=neighbors, seed=seed, progress=progress
        )

    _run(compute, place, None)


def exact(
    distances: tuple[str, ...] | None = None,
    dimensions: tuple[int, ...] | None = None,
    metrics: tuple[str, ...] | None = None,
    seeds: int = 2,
    steps: int | None = None,
    distortion: float | None = None,
    out: Path | None = None,
    threads: int | None = None,
) -> None:
    """Embed exact metrics of finite MDPs with each distance, with trained and with frozen latents.

    With --distortion, find the smallest dimension at which each distance reaches that distortion, over 22 MDPs, and
    compare it with the dimension of the metrics themselves. Finished fits are kept. After an interruption, rerun the
    same command to continue.

    Args:
        distances: distances to test; see `pamd list distances` (default: seven of them, or all with --distortion)
        dimensions: latent dimensions (default: 2 4 8 16 32, or 1 2 3 4 6 8 with --distortion)
        metrics: bisimulation, policy-bisimulation, mico, value, advantage, n-step, state-action or kernel (default:
            bisimulation mico, or policy-bisimulation with --distortion)
        seeds: fits with different seeds; with --distortion the best one counts
        steps: gradient steps per fit (default: 400, or 150 with --distortion)
        distortion: the largest distortion allowed; 1 is a perfect fit (default: not set)
        out: directory of the results (default: diagnostics/exact, or diagnostics/dimension)
        threads: CPU threads of torch (default: all cores)
    """
    from pamd import diagnostics

    place = out or _default_directory(None) / ("exact" if distortion is None else "dimension")
    options = {"metrics": metrics, "distances": distances, "dimensions": dimensions, "steps": steps}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}

    def compute(progress: Steps, interrupted: bool) -> Any:
        common = {**given, "out": place, "progress": progress, "interrupted": interrupted}
        if distortion is not None:
            return diagnostics.dimension(within=distortion, seeds=seeds, **common)
        return diagnostics.exact(seeds=seeds, **common)

    _run(compute, place, threads)


diagnose: dict[str, Callable[..., None]] = {
    "residual": residual,
    "geometry": geometry,
    "latents": latents,
    "exact": exact,
}


def _default_directory(source: Path | None) -> Path:
    """Return the default directory of the results, in the run directory or in the working directory."""
    in_run = source is not None and (source / "config.json").is_file()
    return (source if in_run and source is not None else Path()) / "diagnostics"


def _run(
    compute: Callable[[Steps, bool], Any], place: Path, threads: int | None, before: list[str] | None = None
) -> None:
    """Compute, save, draw and print the result. After Ctrl-C, do the same with the finished parts."""
    import torch

    from pamd import diagnostics
    from pamd.report import diagnostics as drawings

    torch.set_num_threads(threads or available_threads())
    with Steps() as progress:
        for line in before or []:
            progress.say(line)
        stopped = False
        try:
            result = compute(progress, False)
        except KeyboardInterrupt:
            # Only diagnostics that save finished parts can show a partial result.
            if not any(place.glob("*.jsonl")):
                raise RunInterrupted("interrupted before any part was finished") from None
            stopped, result = True, compute(progress, True)
        if stopped and not (getattr(result, "curves", ()) or getattr(result, "cells", ())):
            raise RunInterrupted("interrupted before any part was finished")
        diagnostics.save(result, place)
        section = drawings.draw(place)
        progress.say(section.text())
        progress.say(f"{place}")
    if stopped:
        raise RunInterrupted(f"interrupted; the finished parts are in {place}; rerun the same command to continue")
