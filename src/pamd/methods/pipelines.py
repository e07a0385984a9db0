"""The named methods and their fidelity, as data. `pipeline+distance` replaces the comparator of `pipeline`.

`paper` follows the paper's text. If the text does not specify a detail, it follows the released code. `released`
follows the released code. docs/fidelity.md lists every difference, and the two names that change more than the
comparator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch

from pamd.distances import DISTANCES
from pamd.errors import ConfigError, UnknownNameError, nearest
from pamd.methods.record import Method, TargetCopies
from pamd.schema import Part, new_names
from pamd.settings import override
from pamd.table import Table
from pamd.terms import TERMS, DistancePart, MetricConfig, OperatorPart, TermPart

DEFAULT_METHOD = "dbc-unit+pamd"
"""The default of `pamd train`, and the way to use PAMD: its targets are within its reach (docs/evidence.md)."""

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
    mix: float | None = None
    """w, if the released agent minimizes (1 - w) * critic + w * metric. `agent_method` applies it."""


def _transition(kind: str, **options: Any) -> TermPart:
    return TermPart("transition", {"kind": kind, **options})


def _metric(fidelity: Fidelity, distance: DistancePart, operator: OperatorPart, **options: Any) -> TermPart:
    options["terminations"] = fidelity == "paper"
    return TermPart("metric", MetricConfig(distance=distance, operator=operator, **options))


def _dbc_models(fidelity: Fidelity, kind: str | None, *, reward: bool = True) -> tuple[TermPart, ...]:
    """Return the latent model and the reward decoder of the DBC side.

    The paper does not say how sigma is bounded or how the models are initialized. Both follow the released code.
    """
    if kind is None:
        return ()
    options = {"init": "pytorch", "weight_decay": 0.0 if fidelity == "released" else 1e-7}
    model = _transition(kind, std="sigmoid", **options)
    return (model, TermPart("reward", options)) if reward else (model,)


def _dbc_metric(fidelity: Fidelity, distance: str, operator: str, **options: Any) -> TermPart:
    """Return the metric of the DBC side: half the loss, and at `released` no target copy and a Huber reward gap."""
    released = fidelity == "released"
    gap = {"reward_gap": "smooth-l1" if released else "abs"}
    target = "online" if released else "ema"
    return _metric(
        fidelity, DistancePart(distance), OperatorPart(operator, {**gap, **options}), weight=0.5, target_encoder=target
    )


def _independent_targets(fidelity: Fidelity, **fields: Any) -> TargetCopies:
    """Return the target copies of the MICo/SimSR side."""
    released = fidelity == "released"
    return TargetCopies(tau=0.05 if released else 0.005, offset=STEP_OFFSET if released else 0, **fields)


def _none(fidelity: Fidelity) -> Method:
    return Method("none", fidelity)


def _zp(fidelity: Fidelity) -> Method:
    """Build self-prediction alone: `deepmdp` without its reward decoder."""
    return Method("zp", fidelity, terms=_dbc_models(fidelity, "deterministic", reward=False))


def _deepmdp(fidelity: Fidelity) -> Method:
    return Method("deepmdp", fidelity, terms=_dbc_models(fidelity, "deterministic"))


def _dbc(fidelity: Fidelity) -> Method:
    released = fidelity == "released"
    distance = "coordinate" if released else "l1"
    metric = _dbc_metric(fidelity, distance, "bisimulation", per_coordinate=released)
    return Method("dbc", fidelity, terms=(*_dbc_models(fidelity, "gaussian"), metric))


def _dbc_det(fidelity: Fidelity) -> Method:
    distance = "coordinate" if fidelity == "released" else "l1"
    metric = _dbc_metric(fidelity, distance, "bisimulation-det")
    return Method("dbc-det", fidelity, terms=(*_dbc_models(fidelity, "deterministic"), metric))


def _dbc_unit(fidelity: Fidelity) -> Method:
    """Build `dbc-det` with a reward weight of 1 - gamma. For rewards in [0, 1], every target is then in [0, 1].

    A trace-normalized distance can reach such targets. docs/evidence.md compares this method with `dbc-det`.
    """
    distance = "coordinate" if fidelity == "released" else "l1"
    metric = _dbc_metric(fidelity, distance, "bisimulation-det", c_R="1-gamma")
    return Method("dbc-unit", fidelity, terms=(*_dbc_models(fidelity, "deterministic"), metric))


def _dbc_normed(fidelity: Fidelity) -> Method:
    """Build `dbc` in a ball that can hold its targets. The ball, the comparator and W2's ground metric all use l2."""
    metric = _dbc_metric(fidelity, "l2", "bisimulation")
    return Method("dbc-normed", fidelity, latent_space="ball", terms=(*_dbc_models(fidelity, "gaussian"), metric))


def _mico(fidelity: Fidelity) -> Method:
    metric = _metric(
        fidelity,
        DistancePart("mico", {"angle": "released" if fidelity == "released" else "exact"}),
        OperatorPart("independent", {"next_latents": "replay"}),
        right="target",
        regression="smooth-l1",
        weight=0.5,  # of the original MICo for DMControl; the paper's agents have `Pipeline.mix` instead
        target_encoder="periodic",
        in_step="critic",
    )
    targets = _independent_targets(fidelity, period_offset=STEP_OFFSET if fidelity == "released" else 1000)
    return Method("mico", fidelity, targets=targets, terms=(metric,))


def _simsr(fidelity: Fidelity) -> Method:
    released = fidelity == "released"
    metric = _metric(
        fidelity,
        DistancePart("cosine", {"normalized": not released}),
        OperatorPart("independent", {"next_latents": "model"}),
        # The paper pairs states by one permutation. Released SimSR uses all B x B pairs.
        pairing="all" if released else "permutation",
        regression="smooth-l1" if released else "mse",
    )
    targets = _independent_targets(fidelity)
    return Method("simsr", fidelity, latent_space="sphere", targets=targets, terms=(_transition("ensemble"), metric))


def _rap(fidelity: Fidelity) -> Method:
    models = {"init": "pytorch", "weight": 1e-4}
    terms = (
        _transition("gaussian", std="sigmoid", **models),
        TermPart("state-reward", models),
        _metric(
            fidelity, DistancePart("mico", {"beta": 1e-6}), OperatorPart("rap"), regression="smooth-l1", weight=0.5
        ),
    )
    return Method("rap", fidelity, latent_dim=100, targets=_independent_targets(fidelity), terms=terms)


def _curl(fidelity: Fidelity) -> Method:
    return Method("curl", fidelity, targets=TargetCopies(tau=0.05), terms=(TermPart("curl"),))


def _taco(fidelity: Fidelity) -> Method:
    return Method("taco", fidelity, terms=(TermPart("taco"), TermPart("curl")))


def _mrq(fidelity: Fidelity) -> Method:
    targets = TargetCopies(period=250, period_offset=0)
    return Method("mrq", fidelity, targets=targets, terms=(TermPart("mrq"),))


def _spr(fidelity: Fidelity) -> Method:
    return Method("spr", fidelity, terms=(TermPart("spr"),))


PIPELINES: dict[str, Pipeline] = {
    "none": Pipeline(_none, "dbc", "the learner alone"),
    "zp": Pipeline(_zp, "dbc", "Ni et al. 2024"),
    "deepmdp": Pipeline(_deepmdp, "dbc", "Gelada et al. 2019"),
    "dbc": Pipeline(_dbc, "dbc", "Zhang et al. 2021"),
    "dbc-det": Pipeline(_dbc_det, "dbc", "Zhang et al. 2021"),
    "dbc-unit": Pipeline(_dbc_unit, "dbc", "this package"),
    "dbc-normed": Pipeline(_dbc_normed, "dbc", "Kemertas & Aumentado-Armstrong 2021"),
    "mico": Pipeline(_mico, "independent", "Castro et al. 2021", mix=1e-5),
    "simsr": Pipeline(_simsr, "independent", "Zang et al. 2022"),
    "rap": Pipeline(_rap, "independent", "Chen & Pan 2022"),
    "curl": Pipeline(_curl, "dbc", "Laskin et al. 2020"),
    "taco": Pipeline(_taco, "dbc", "Zheng et al. 2023"),
    "mrq": Pipeline(_mrq, "dbc", "Fujimoto et al. 2025"),
    "spr": Pipeline(_spr, "dbc", "Schwarzer et al. 2021"),
}


def method(name: str, fidelity: Fidelity = "paper", *, settings: Sequence[str] = (), **fields: Any) -> Method:
    """Return the method called `name`: "pipeline" or "pipeline+distance". `fields` override fields of the record.

    A field with the name of a term changes the options of that term: `metric={"pairing": "all"}`. None drops the term;
    a term that the method does not have is added. A bare name is a part with its default options:
    `metric={"distance": "l2"}`. `settings` do the same as text: "metric.pairing=all",
    "metric.distance.hidden=64", "reward=null". They override `fields`.
    """
    return _changed(_named(name, fidelity), settings, fields)


def agent_method(name: str, fidelity: Fidelity = "paper", *, settings: Sequence[str] = (), **fields: Any) -> Method:
    """Return the method called `name` as the agents of `pamd train` have it. The arguments are those of `method`.

    It differs from `method` only for MICo. The release minimizes (1 - 1e-5) * critic + 1e-5 * metric. In other training
    code nobody weights the critic's loss, and a metric of weight 1e-5 would be nearly off.
    """
    made = _named(name, fidelity)
    if (mix := PIPELINES[name.partition("+")[0]].mix) is not None:
        made = dataclasses.replace(made.with_term("metric", weight=mix), critic_weight=1 - mix)
    return _changed(made, settings, fields)


def unknown_method(name: str, others: Iterable[str] = ()) -> UnknownNameError:
    """Return the error for an unknown method. `others` are valid names that are no methods."""
    of_distance = f"{DEFAULT_METHOD.partition('+')[0]}+{name}"
    meant = of_distance if of_distance in names() else None
    return UnknownNameError("method", name, [*names(), *others], meant=meant, command=LIST_METHODS)


def _named(name: str, fidelity: Fidelity) -> Method:
    if not isinstance(name, str):
        raise ConfigError(
            f"a method is given by its name, such as 'simsr+pamd', got {name if name is None else type(name).__name__}"
        )
    pipeline, plus, comparator = name.partition("+")
    if pipeline not in PIPELINES:
        raise unknown_method(name)
    if fidelity not in ("paper", "released"):
        raise UnknownNameError("fidelity", fidelity, ("paper", "released"))
    made = PIPELINES[pipeline].build(fidelity)
    return _with_distance(made, comparator) if plus else made


def _changed(made: Method, settings: Sequence[str], fields: Mapping[str, Any]) -> Method:
    if any(setting.partition("=")[0] == "fidelity" for setting in settings):
        raise ConfigError("settings cannot change the fidelity of a method; pass fidelity='released'")
    return override(_with_fields(made, fields), settings, f"method {made.name!r}")


def _with_fields(made: Method, fields: Mapping[str, Any]) -> Method:
    """Return the method with other fields and options of terms, all changed at once, so that checks see the result."""
    own = [f.name for f in dataclasses.fields(Method)]
    terms: dict[str, Any] = {part.name: part.options for part in made.terms}
    for key, value in fields.items():
        term = key.replace("_", "-")
        if key in own:
            continue
        if new_name := new_names(Method).get(key):
            meant = f"settings=['{new_name}=...']" if "." in new_name else f"{new_name}={{...}}"
            raise UnknownNameError("field of a method", key, own, meant=meant)
        if term not in TERMS.names():
            choices = [*own, *(name.replace("-", "_") for name in TERMS.names())]
            advice = "" if nearest(key, choices) else TERMS.advice(term)
            raise UnknownNameError("field of a method", key, choices, advice=advice)
        if value is None:
            if term not in terms:
                raise ConfigError(
                    f"method {made.name!r} has no term {term!r} to drop; it has: {', '.join(terms) or '(none)'}"
                )
            terms.pop(term)
        elif not isinstance(value, Mapping):
            raise ConfigError(f"method {made.name!r}: {key} must be a mapping of options or None, got {value!r}")
        else:
            terms[term] = dataclasses.replace(terms[term], **value) if term in terms else dict(value)
    parts = tuple(TermPart(term, options) for term, options in terms.items())
    return dataclasses.replace(made, terms=parts, **{key: fields[key] for key in fields if key in own})


def side(name: str) -> Side:
    """Return the released code base of the method called `name`."""
    return PIPELINES[name.partition("+")[0]].side


def names() -> list[str]:
    """Return every pipeline and every valid pipeline+distance."""
    found = list(PIPELINES)
    for pipeline, entry in PIPELINES.items():
        for comparator in DISTANCES.names():
            try:
                _with_distance(entry.build("paper"), comparator)
            except ConfigError:
                continue
            found.append(f"{pipeline}+{comparator}")
    return found


def _with_distance(pipeline: Method, comparator: str) -> Method:
    """Return `pipeline` with its comparator replaced."""
    cls = DISTANCES.get(comparator)
    metric = pipeline.metric
    if metric is None:
        raise ConfigError(f"method {pipeline.name!r} has no distance to replace with {comparator!r}")
    _check_shapes(pipeline, comparator)
    changes: dict[str, Any] = {"distance": DistancePart(comparator, _preset(pipeline, comparator))}
    if metric.operator.name == "bisimulation":
        if _is_learned(comparator, pipeline.latent_dim):
            raise ConfigError(
                f"'{pipeline.name}+{comparator}': the W2 of Gaussians requires a Euclidean ground metric, which a"
                f" learned distance would not replace; use 'dbc-det+{comparator}'"
                + (" with method.latent_space=ball" if pipeline.latent_space == "ball" else "")
            )
        options = dataclasses.replace(metric.operator.options, per_coordinate=cls.coordinate_wise)
        changes["operator"] = dataclasses.replace(metric.operator, options=options)
    if pipeline.fidelity == "released" and metric.pairing == "all":
        changes["pairing"] = "permutation"  # SimSR uses B x B pairs, its variants use B
    if (pipeline.name, comparator) == ("simsr", "mlp"):
        changes["regression"] = "smooth-l1"  # from the paper's text, only for the MLP distance
    return dataclasses.replace(pipeline.with_term("metric", **changes), name=f"{pipeline.name}+{comparator}")


def _check_shapes(pipeline: Method, comparator: str) -> None:
    """Raise ConfigError if a coordinate-wise comparator is used in a pipeline that compares one number per pair."""
    scalar = pipeline.name in ("rap", "dbc-normed")
    if scalar and DISTANCES.get(comparator).coordinate_wise:
        raise ConfigError(
            f"'{pipeline.name}+{comparator}': {pipeline.name} compares one number per pair, but {comparator!r} has one"
            f" per coordinate; use '{pipeline.name}+l1'"
        )


def _is_learned(comparator: str, latent_dim: int) -> bool:
    cls = DISTANCES.get(comparator)
    # Without weights: building a distance is fast, and does not change the user's random state.
    with torch.device("meta"):
        return any(True for _ in cls(latent_dim, cls.resolve(cls.Config(), latent_dim)).parameters())


def _preset(pipeline: Method, comparator: str) -> dict[str, Any]:
    """Return the comparator's options at the pipeline's fidelity."""
    preset = "paper" if pipeline.fidelity == "paper" else f"released-{side(pipeline.name)}"
    presets = DISTANCES.get(comparator).presets
    return dict(presets.get(preset, presets.get(pipeline.fidelity, {})))


COLUMNS = ("method", "comparator", "target", "latent space", "model", "reward head", "other losses", "citation")
_OWN_COLUMNS = ("metric", "transition", "reward", "state-reward")
"""The terms that the other columns show."""


def family(fidelity: Fidelity = "paper", *, every: bool = False) -> Table:
    """Return a table with one row per pipeline and PAMD version; with `every`, also one per pipeline+distance."""
    chosen = names() if every else [name for pipeline in PIPELINES for name in _with_pamd(pipeline)]
    return Table("family", f"The family, fidelity {fidelity}", COLUMNS, [_row(name, fidelity) for name in chosen])


def _with_pamd(pipeline: str) -> list[str]:
    """Return the pipeline, and its PAMD version if there is one."""
    try:
        method(f"{pipeline}+pamd")
    except ConfigError:
        return [pipeline]
    return [pipeline, f"{pipeline}+pamd"]


def _row(name: str, fidelity: Fidelity) -> list[str | None]:
    made = method(name, fidelity)
    cites = PIPELINES[name.partition("+")[0]].cites
    return [
        name,
        made.distance.name if made.distance else None,
        _target(made.operator) if made.operator else None,
        made.latent_space,
        None if (transition := made.term("transition")) is None else transition.kind,
        _reward_head(made),
        ", ".join(part.name for part in made.terms if part.name not in _OWN_COLUMNS) or None,
        cites + ("; PAMD" if "+pamd" in name else ""),
    ]


def _target(operator: Part) -> str:
    """Return the operator's name and the options that differ from its defaults."""
    default = operator.cls.Config()
    changed = [
        f.name for f in dataclasses.fields(default) if getattr(operator.options, f.name) != getattr(default, f.name)
    ]
    return " ".join([operator.name, *(f"{name}={getattr(operator.options, name)}" for name in changed)])


def _reward_head(made: Method) -> str | None:
    if made.term("state-reward") is not None:
        return "of the state"
    return None if made.term("reward") is None else "of the predicted next latent"
