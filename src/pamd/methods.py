"""The named methods and their fidelity, as data. `pipeline+distance` replaces the comparator and nothing else.

`paper` follows the text and, where the text is silent, the released code; `released` follows the released code
(docs/fidelity.md lists every difference).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

from pamd.agent.method import Method, Part, Sac, Scale
from pamd.distances import DISTANCES, distance
from pamd.errors import ConfigError, UnknownNameError
from pamd.objective import Objective

__all__ = ["PIPELINES", "SCALES", "difference", "method", "names", "scale"]

Fidelity = Literal["paper", "released"]

_RELEASED_DBC = Sac(first_updates=1000)
_RELEASED_INDEPENDENT = Sac(
    hidden=1024, critic_tau=0.01, encoder_tau=0.05, temperature_learning_rate=1e-4, temperature_beta1=0.5
)


def _dbc(fidelity: Fidelity, **fields: Any) -> Method:
    """What the DBC side shares: LayerNorm latents, reward decoder, half the metric loss."""
    released = fidelity == "released"
    common: dict[str, Any] = {
        "fidelity": fidelity,
        "family": "bisimulation",
        "objective": Objective(weight=0.5),
        "target_encoder": "online" if released else "ema",
        "next_latent_encoder": "online" if released else "ema",
        "reward_decoder": True,
        "weight_decay": 0.0 if released else 1e-7,
        "sac": _RELEASED_DBC if released else Sac(),
    }
    return Method(**{**common, **fields})


def _independent(fidelity: Fidelity, **fields: Any) -> Method:
    """What the MICo/SimSR side shares."""
    released = fidelity == "released"
    common: dict[str, Any] = {
        "fidelity": fidelity,
        "family": "independent",
        "target_encoder": "ema",
        "next_latent_encoder": "online" if released else "ema",
        "sac": _RELEASED_INDEPENDENT if released else Sac(),
    }
    return Method(**{**common, **fields})


def _sac(fidelity: Fidelity) -> Method:
    return _dbc(fidelity, name="sac", reward_decoder=False)


def _deepmdp(fidelity: Fidelity) -> Method:
    return _dbc(fidelity, name="deepmdp", transition="deterministic")


def _probabilistic_dbc(fidelity: Fidelity) -> Method:
    if fidelity == "released":
        comparator, options = "coordinate", {"reading": "coordinate", "reward_gap": "smooth-l1"}
    else:
        comparator, options = "l1", {"reading": "norm", "reward_gap": "abs"}
    return _dbc(
        fidelity,
        name="dbc",
        distance=Part(comparator),
        operator=Part("bisimulation", options),
        transition="gaussian",
    )


def _deterministic_dbc(fidelity: Fidelity) -> Method:
    released = fidelity == "released"
    return _dbc(
        fidelity,
        name="dbc-det",
        distance=Part("coordinate" if released else "l1"),
        operator=Part("bisimulation-det", {"reward_gap": "smooth-l1" if released else "abs"}),
        transition="deterministic",
    )


def _mico(fidelity: Fidelity) -> Method:
    return _independent(
        fidelity,
        name="mico",
        distance=Part("mico"),
        operator=Part("independent", {"next_latents": "replay"}),
        objective=Objective(right="target", regression="smooth-l1", weight=1e-5),
        target_encoder="periodic",
        metric_in="critic",
        critic_weight=1 - 1e-5,
    )


def _simsr(fidelity: Fidelity) -> Method:
    released = fidelity == "released"
    return _independent(
        fidelity,
        name="simsr",
        distance=Part("cosine", {"normalised": not released}),
        operator=Part("independent", {"next_latents": "model"}),
        # The paper's own pairing is one permutation; released SimSR regresses all B x B pairs.
        objective=Objective(
            pairing="all" if released else "permutation", regression="smooth-l1" if released else "mse"
        ),
        latent_space="sphere",
        transition="ensemble",
    )


PIPELINES = {
    "sac": _sac,
    "deepmdp": _deepmdp,
    "dbc": _probabilistic_dbc,
    "dbc-det": _deterministic_dbc,
    "mico": _mico,
    "simsr": _simsr,
}

SCALES = {
    "paper": Scale(),
    "cpu": Scale(name="cpu", size=48, filters=32, strides=(3, 2, 1, 1), batch=64),
    "smoke": Scale(name="smoke", size=24, filters=8, strides=(2, 2), batch=16),
}


def method(name: str, fidelity: Fidelity = "paper", **fields: Any) -> Method:
    """The method called `name`, "pipeline" or "pipeline+distance"; `fields` of the record win over it."""
    pipeline, plus, comparator = name.partition("+")
    if pipeline not in PIPELINES:
        raise UnknownNameError("method", name, names())
    if fidelity not in ("paper", "released"):
        raise UnknownNameError("fidelity", fidelity, ("paper", "released"))
    made = PIPELINES[pipeline](fidelity)
    if plus:
        made = _with_distance(made, comparator)
    unknown = [key for key in fields if key not in {f.name for f in dataclasses.fields(Method)}]
    if unknown:
        raise UnknownNameError("field of a method", unknown[0], [f.name for f in dataclasses.fields(Method)])
    return dataclasses.replace(made, **fields)


def scale(name: str, **fields: Any) -> Scale:
    """The scale called `name`, with fields replaced."""
    if name not in SCALES:
        raise UnknownNameError("scale", name, SCALES)
    return dataclasses.replace(SCALES[name], **fields)


def names() -> list[str]:
    """Every pipeline and every pipeline+distance that makes sense."""
    found = list(PIPELINES)
    for pipeline in PIPELINES:
        for comparator in DISTANCES.names():
            try:
                _with_distance(PIPELINES[pipeline]("paper"), comparator)
            except ConfigError:
                continue
            found.append(f"{pipeline}+{comparator}")
    return found


def difference(one: Method, other: Method) -> Iterator[tuple[str, Any, Any]]:
    """Field by field, nested ones dotted: what the two do not share."""
    left, right = (_flat(dataclasses.asdict(m)) for m in (one, other))
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            yield key, left.get(key), right.get(key)


def _with_distance(pipeline: Method, comparator: str) -> Method:
    """`pipeline` with its comparator replaced."""
    cls = DISTANCES.get(comparator)
    if pipeline.distance is None:
        raise ConfigError(f"method {pipeline.name!r} has no comparator to replace with {comparator!r}")
    euclidean = pipeline.operator is not None and pipeline.operator.name == "bisimulation"
    if euclidean and list(distance(comparator, latent_dim=pipeline.latent_dim).parameters()):
        raise ConfigError(
            f"'dbc+{comparator}': DBC's Gaussian W2 is tied to a Euclidean ground metric, which a learned distance"
            f" would not replace; use 'dbc-det+{comparator}'"
        )
    changes: dict[str, Any] = {"name": f"{pipeline.name}+{comparator}", "distance": _comparator(pipeline, comparator)}
    if pipeline.operator is not None and euclidean:
        reading = "coordinate" if cls.coordinate_wise else "norm"
        changes["operator"] = Part("bisimulation", {**pipeline.operator.options, "reading": reading})
    if pipeline.fidelity == "released" and pipeline.objective.pairing == "all":
        # As released: the PAMD variant of SimSR regresses B pairs where SimSR regresses B x B.
        changes["objective"] = dataclasses.replace(pipeline.objective, pairing="permutation")
    return dataclasses.replace(pipeline, **changes)


def _comparator(pipeline: Method, comparator: str) -> Part:
    preset = "paper"
    if pipeline.fidelity == "released":
        preset = "released-dbc" if pipeline.family == "bisimulation" else "released-independent"
    presets = DISTANCES.get(comparator).presets
    return Part(comparator, dict(presets.get(preset, presets.get(pipeline.fidelity, {}))))


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
