"""The named methods and their fidelity, as data. `pipeline+distance` replaces the comparator of `pipeline`.

`paper` follows the paper's text. If the text does not specify a detail, it follows the released code. `released`
follows the released code. docs/fidelity.md lists every difference, and the two names that change more than the
comparator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch

from pamd.config import override
from pamd.distances import DISTANCES
from pamd.errors import ConfigError, UnknownNameError
from pamd.methods.record import DistancePart, Method, OperatorPart
from pamd.objective import Objective

__all__ = ["LIST_METHODS", "PIPELINES", "STEP_OFFSET", "Fidelity", "Side", "method", "names", "side"]

LIST_METHODS = "pamd list methods --all"
"""The command that prints every method name."""

Fidelity = Literal["paper", "released"]
Side = Literal["dbc", "independent"]
"""The released code base of a pipeline: DBC's, or that of MICo and SimSR."""

STEP_OFFSET = 999
"""Released schedules count steps from 0. Their first update is at step 1000, so update u is at step u + 999."""


class Pipeline(NamedTuple):
    """A method without its comparator's name: how to build its record, and its released code base."""

    build: Callable[[Fidelity], Method]
    side: Side
    cites: str
    """The source of the method."""


def _dbc_side(fidelity: Fidelity, **fields: Any) -> Method:
    """Build a method with the settings of the DBC side: LayerNorm latents, reward decoder, half the metric loss.

    The paper does not say how sigma is bounded or how the models are initialized. Both follow the released code.
    """
    released = fidelity == "released"
    common: dict[str, Any] = {
        "fidelity": fidelity,
        "objective": Objective(weight=0.5),
        "target_encoder": "online" if released else "ema",
        "transition_std": "sigmoid",
        "model_init": "pytorch",
        "reward_decoder": True,
        "weight_decay": 0.0 if released else 1e-7,
    }
    return Method(**{**common, **fields})


def _independent_side(fidelity: Fidelity, **fields: Any) -> Method:
    """Build a method with the settings of the MICo/SimSR side."""
    released = fidelity == "released"
    common: dict[str, Any] = {
        "fidelity": fidelity,
        "encoder_tau": 0.05 if released else 0.005,
        "follow_offset": STEP_OFFSET if released else 0,
    }
    return Method(**{**common, **fields})


def _none(fidelity: Fidelity) -> Method:
    return _dbc_side(fidelity, name="none", reward_decoder=False)


def _deepmdp(fidelity: Fidelity) -> Method:
    return _dbc_side(fidelity, name="deepmdp", transition="deterministic")


def _dbc(fidelity: Fidelity) -> Method:
    if fidelity == "released":
        comparator, options = "coordinate", {"reading": "coordinate", "reward_gap": "smooth-l1"}
    else:
        comparator, options = "l1", {"reading": "norm", "reward_gap": "abs"}
    return _dbc_side(
        fidelity,
        name="dbc",
        distance=DistancePart(comparator),
        operator=OperatorPart("bisimulation", options),
        transition="gaussian",
    )


def _dbc_det(fidelity: Fidelity) -> Method:
    released = fidelity == "released"
    return _dbc_side(
        fidelity,
        name="dbc-det",
        distance=DistancePart("coordinate" if released else "l1"),
        operator=OperatorPart("bisimulation-det", {"reward_gap": "smooth-l1" if released else "abs"}),
        transition="deterministic",
    )


def _dbc_unit(fidelity: Fidelity) -> Method:
    """Build `dbc-det` with a reward weight of 1 - gamma. For rewards in [0, 1], every target is then in [0, 1].

    A trace-normalized distance can reach such targets. docs/evidence.md compares this method with `dbc-det`.
    """
    made = _dbc_det(fidelity)
    assert made.operator is not None
    options = dataclasses.replace(made.operator.options, c_R="1-gamma")
    return dataclasses.replace(made, name="dbc-unit", operator=dataclasses.replace(made.operator, options=options))


def _mico(fidelity: Fidelity) -> Method:
    return _independent_side(
        fidelity,
        name="mico",
        distance=DistancePart("mico"),
        operator=OperatorPart("independent", {"next_latents": "replay"}),
        objective=Objective(right="target", regression="smooth-l1", weight=1e-5),
        target_encoder="periodic",
        target_offset=1001 if fidelity == "released" else 1000,
        metric_in="critic",
        critic_weight=1 - 1e-5,
    )


def _simsr(fidelity: Fidelity) -> Method:
    released = fidelity == "released"
    return _independent_side(
        fidelity,
        name="simsr",
        distance=DistancePart("cosine", {"normalised": not released}),
        operator=OperatorPart("independent", {"next_latents": "model"}),
        # The paper pairs states by one permutation. Released SimSR uses all B x B pairs.
        objective=Objective(
            pairing="all" if released else "permutation", regression="smooth-l1" if released else "mse"
        ),
        latent_space="sphere",
        transition="ensemble",
    )


def _zp(fidelity: Fidelity) -> Method:
    """Build self-prediction alone: `deepmdp` without its reward decoder."""
    return _dbc_side(fidelity, name="zp", transition="deterministic", reward_decoder=False)


def _dbc_normed(fidelity: Fidelity) -> Method:
    """Build `dbc` in a ball that can hold its targets. The ball, the comparator and W2's ground metric all use l2."""
    gap = "smooth-l1" if fidelity == "released" else "abs"
    return _dbc_side(
        fidelity,
        name="dbc-normed",
        distance=DistancePart("l2"),
        operator=OperatorPart("bisimulation", {"reading": "norm", "reward_gap": gap}),
        latent_space="ball",
        transition="gaussian",
    )


def _rap(fidelity: Fidelity) -> Method:
    return _independent_side(
        fidelity,
        name="rap",
        distance=DistancePart("mico", {"beta": 1e-6}),
        operator=OperatorPart("rap"),
        objective=Objective(regression="smooth-l1", weight=0.5),
        latent_dim=100,
        transition="gaussian",
        transition_std="sigmoid",
        model_init="pytorch",
        state_reward=True,
        transition_weight=1e-4,
        reward_weight=1e-4,
    )


PIPELINES: dict[str, Pipeline] = {
    "none": Pipeline(_none, "dbc", "the learner alone"),
    "zp": Pipeline(_zp, "dbc", "Ni et al. 2024"),
    "deepmdp": Pipeline(_deepmdp, "dbc", "Gelada et al. 2019"),
    "dbc": Pipeline(_dbc, "dbc", "Zhang et al. 2021"),
    "dbc-det": Pipeline(_dbc_det, "dbc", "Zhang et al. 2021"),
    "dbc-unit": Pipeline(_dbc_unit, "dbc", "this package"),
    "dbc-normed": Pipeline(_dbc_normed, "dbc", "Kemertas & Aumentado-Armstrong 2021"),
    "mico": Pipeline(_mico, "independent", "Castro et al. 2021"),
    "simsr": Pipeline(_simsr, "independent", "Zang et al. 2022"),
    "rap": Pipeline(_rap, "independent", "Chen & Pan 2022"),
}


def method(name: str, fidelity: Fidelity = "paper", *, settings: Sequence[str] = (), **fields: Any) -> Method:
    """Return the method called `name`: "pipeline" or "pipeline+distance". `fields` override fields of the record.

    `settings` set the fields of its parts, by their path: "distance.hidden=64", "objective.pairing=all". They override
    `fields`.
    """
    pipeline, plus, comparator = name.partition("+")
    if pipeline not in PIPELINES:
        raise UnknownNameError("method", name, names(), command=LIST_METHODS)
    if fidelity not in ("paper", "released"):
        raise UnknownNameError("fidelity", fidelity, ("paper", "released"))
    made = PIPELINES[pipeline].build(fidelity)
    if plus:
        made = _with_distance(made, comparator)
    known = [f.name for f in dataclasses.fields(Method)]
    for key in fields:
        if key not in known:
            raise UnknownNameError("field of a method", key, known)
    if any(setting.partition("=")[0] == "fidelity" for setting in settings):
        raise ConfigError("settings cannot change the fidelity of a method; pass fidelity='released'")
    return override(dataclasses.replace(made, **fields), settings, f"method {name!r}")


def side(name: str) -> Side:
    """Return the released code base of the method called `name`."""
    return PIPELINES[name.partition("+")[0]].side


def names() -> list[str]:
    """Return every pipeline and every valid pipeline+distance."""
    found = list(PIPELINES)
    for pipeline, (build, _, _) in PIPELINES.items():
        for comparator in DISTANCES.names():
            try:
                _with_distance(build("paper"), comparator)
            except ConfigError:
                continue
            found.append(f"{pipeline}+{comparator}")
    return found


def _with_distance(pipeline: Method, comparator: str) -> Method:
    """Return `pipeline` with its comparator replaced."""
    cls = DISTANCES.get(comparator)
    if pipeline.distance is None or pipeline.operator is None:
        raise ConfigError(f"method {pipeline.name!r} has no distance to replace with {comparator!r}")
    _check_shapes(pipeline, comparator)
    euclidean = pipeline.operator.name == "bisimulation"
    if euclidean and _is_learned(comparator, pipeline.latent_dim):
        raise ConfigError(
            f"'{pipeline.name}+{comparator}': the W2 of Gaussians requires a Euclidean ground metric, which a learned"
            f" distance would not replace; use 'dbc-det+{comparator}'"
            + (" with method.latent_space=ball" if pipeline.latent_space == "ball" else "")
        )
    changes: dict[str, Any] = {
        "name": f"{pipeline.name}+{comparator}",
        "distance": DistancePart(comparator, _preset(pipeline, comparator)),
        "objective": _objective(pipeline, comparator),
    }
    if euclidean:
        reading = "coordinate" if cls.coordinate_wise else "norm"
        options = dataclasses.replace(pipeline.operator.options, reading=reading)
        changes["operator"] = dataclasses.replace(pipeline.operator, options=options)
    return dataclasses.replace(pipeline, **changes)


def _check_shapes(pipeline: Method, comparator: str) -> None:
    """Raise ConfigError if a coordinate-wise comparator is used in a pipeline that compares one number per pair."""
    scalar = pipeline.name in ("rap", "dbc-normed")
    if scalar and DISTANCES.get(comparator).coordinate_wise:
        raise ConfigError(
            f"'{pipeline.name}+{comparator}': {pipeline.name} compares one number per pair, but {comparator!r} has one"
            f" per coordinate; use '{pipeline.name}+l1'"
        )


def _objective(pipeline: Method, comparator: str) -> Objective:
    """Return the pipeline's objective for this comparator, as in the paper or the released code."""
    changes: dict[str, Any] = {}
    if pipeline.fidelity == "released" and pipeline.objective.pairing == "all":
        changes["pairing"] = "permutation"  # SimSR uses B x B pairs, its variants use B
    if (pipeline.name, comparator) == ("simsr", "mlp"):
        changes["regression"] = "smooth-l1"  # from the paper's text, only for the MLP distance
    return dataclasses.replace(pipeline.objective, **changes)


def _is_learned(comparator: str, latent_dim: int) -> bool:
    cls = DISTANCES.get(comparator)
    with torch.random.fork_rng(devices=[]):  # building a distance must not change the user's random state
        return any(True for _ in cls(latent_dim, cls.resolve(cls.Config(), latent_dim)).parameters())


def _preset(pipeline: Method, comparator: str) -> dict[str, Any]:
    """Return the comparator's options at the pipeline's fidelity."""
    preset = "paper" if pipeline.fidelity == "paper" else f"released-{side(pipeline.name)}"
    presets = DISTANCES.get(comparator).presets
    return dict(presets.get(preset, presets.get(pipeline.fidelity, {})))
