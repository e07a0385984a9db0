"""A representation in anyone's loop: any encoder, any actions, no learner."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tests.terms.windows import inputs_for
from torch import Tensor, nn

import pamd
from pamd.distances.base import NoOptions
from pamd.errors import ConfigError, DtypeError, ShapeError, UnknownNameError
from pamd.latents import BatchLatents
from pamd.methods import names
from pamd.representation.meters import read_meters
from pamd.terms import TERMS, Term
from pamd.types import Batch, Loss

D = 8


def plain_encoder() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, D))


def make(name: str = "simsr+pamd", **options: Any) -> pamd.Representation:
    torch.manual_seed(0)
    return pamd.Representation(name, encoder=plain_encoder(), latent_dim=D, action_dim=3, **options)


def transitions(discrete: bool = False, seed: int = 0, size: int = 12) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    obs, next_obs = (torch.randn(size, 5, generator=draw) for _ in range(2))
    action = torch.randint(3, (size,), generator=draw) if discrete else torch.rand(size, 3, generator=draw)
    return obs, action, torch.rand(size, generator=draw), next_obs


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("name", names())
def test_every_method_trains_a_foreign_encoder(name: str, discrete: bool) -> None:
    rep = make(name)
    batch, draw = transitions(discrete), torch.Generator().manual_seed(0)
    # A method without windows gets None, as if the inputs were omitted.
    losses = rep.losses(*batch, generator=draw, inputs=inputs_for(rep.method, *batch[1:], torch.Generator()))
    assert list(losses) == [part.name for part in rep.method.terms]
    if not losses:
        assert float(losses.total.detach()) == 0
        losses.total.backward()
        return
    losses.total.backward()
    gradients = [p.grad for p in rep.encoder.parameters()]
    assert any(g is not None and bool(g.abs().sum() > 0) for g in gradients)
    assert all(g is None or bool(g.isfinite().all()) for g in gradients)
    assert all(value.isfinite() for value in losses.metrics.values())
    assert not any(p.requires_grad for p in rep.target_encoders.parameters())
    rep.update_targets()


def test_the_total_is_the_sum_of_the_terms() -> None:
    losses = make("dbc-det+pamd").losses(*transitions())
    torch.testing.assert_close(losses.total, sum(loss.value for loss in losses.values()))
    assert {"transition_loss", "reward_loss", "metric_loss"} <= losses.metrics.keys()


def test_latents_that_were_computed_already_are_used() -> None:
    rep = make()
    obs, action, reward, next_obs = transitions()
    passes = []
    rep.encoder.network.register_forward_hook(lambda *_: passes.append(1))
    z = rep.encode(obs)
    with_z = rep.losses(obs, action, reward, next_obs, z=z, generator=torch.Generator().manual_seed(0))
    assert len(passes) == 2, "the online encoder sees states once, in `encode`, and next states once"
    anew = rep.losses(obs, action, reward, next_obs, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(with_z.total, anew.total)


def test_a_generator_draws_everything() -> None:
    rep = make("simsr+pamd")
    totals = []
    for process in (1, 2):
        torch.manual_seed(process)
        totals.append(rep.losses(*transitions(), generator=torch.Generator().manual_seed(3)).total)
    assert torch.equal(*totals)


def test_rewards_may_have_a_column() -> None:
    rep = make()
    obs, action, reward, next_obs = transitions()
    one, other = (
        rep.losses(obs, action, r, next_obs, generator=torch.Generator().manual_seed(0)).total
        for r in (reward, reward[:, None])
    )
    assert torch.equal(one, other)


@pytest.mark.parametrize("space", ["layernorm", "sphere"])
def test_the_latent_space_is_added_or_declared(space: Any) -> None:
    method = pamd.method("simsr+pamd", latent_dim=D, latent_space=space)
    obs = transitions()[0]
    added = pamd.Representation(method, encoder=plain_encoder(), action_dim=3)
    z = added.encode(obs)
    if space == "sphere":
        torch.testing.assert_close(z.norm(dim=-1), torch.ones(len(z)))
    else:
        torch.testing.assert_close(z.mean(-1), torch.zeros(len(z)), atol=1e-5, rtol=0)
    encoder = plain_encoder()
    declared = pamd.Representation(method, encoder=encoder, action_dim=3, normalized=True)
    torch.testing.assert_close(declared.encode(obs), encoder(obs))
    assert declared.encoder.max_norm() == (1.0 if space == "sphere" else float("inf"))


def test_target_copies_move_at_their_pace() -> None:
    rep = make("mico+pamd", target_encoder=True)
    with torch.no_grad():
        for p in rep.encoder.parameters():
            p.add_(1.0)
    before = copy.deepcopy(rep.target_encoders)
    rep.update_targets()  # the first of two updates: nothing moves
    for one, other in zip(rep.target_encoders.parameters(), before.parameters(), strict=True):
        assert torch.equal(one, other)
    rep.update_targets()
    for name, p in rep.target_encoders["ema"].named_parameters():
        torch.testing.assert_close(p, dict(before["ema"].named_parameters())[name] + 0.005)


def test_layers_with_a_memory_of_their_own_are_copied_and_left_alone() -> None:
    """BatchNorm and Dropout in the encoder: target copies have its statistics and are in evaluation mode."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, D))
    rep = pamd.Representation("simsr+pamd", encoder=encoder, latent_dim=D, action_dim=3).train()
    slow = rep.target_encoders["ema"]
    assert not slow.training
    rep.losses(*transitions()).total.backward()
    rep.update_targets(), rep.update_targets()
    assert torch.equal(slow.network[1].running_mean, encoder[1].running_mean)
    before = encoder[1].running_mean.clone()
    encoder[0].requires_grad_(False)
    with torch.no_grad():
        meters = read_meters(rep, *transitions())
    assert meters["gradient_encoder"] > 0
    assert torch.equal(encoder[1].running_mean, before)
    assert rep.training


def test_naming_methods_draws_no_random_numbers() -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    names()
    assert torch.equal(torch.get_rng_state(), state)


def test_state_survives_copying_and_saving() -> None:
    rep = make("mico+pamd")
    for _ in range(3):
        rep.update_targets()
    file = io.BytesIO()
    torch.save(rep.state_dict(), file)
    file.seek(0)
    other = make("mico+pamd")
    other.load_state_dict(torch.load(file))
    assert int(other.updates) == 3
    generator = [torch.Generator().manual_seed(0) for _ in range(3)]
    totals = [
        r.losses(*transitions(), generator=g).total
        for r, g in zip((rep, other, copy.deepcopy(rep)), generator, strict=True)
    ]
    assert torch.equal(totals[0], totals[1])
    assert torch.equal(totals[0], totals[2])


def test_built_in_encoders_serve_too() -> None:
    encoder = pamd.encoder("conv", observation_shape=(3, 20, 20), latent_dim=D, filters=4, strides=(2, 2))
    rep = pamd.Representation("dbc-det+pamd", encoder=encoder, latent_dim=D, action_dim=2)
    obs, next_obs = (torch.randint(0, 256, (6, 3, 20, 20), dtype=torch.uint8) for _ in range(2))
    losses = rep.losses(obs, torch.rand(6, 2), torch.rand(6), next_obs)
    losses.total.backward()
    assert encoder.layers[0].weight.grad is not None


def test_another_discount_reaches_the_operator() -> None:
    assert make(gamma=0.9).operator.config.gamma == 0.9  # type: ignore[union-attr]
    assert make().operator.config.gamma == 0.99  # type: ignore[union-attr]


def test_a_terminated_episode_has_no_discounted_term() -> None:
    rep, (obs, action, reward, next_obs) = make("mico+pamd"), transitions()

    def target_mean(**options: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        return rep.losses(obs, action, reward, next_obs, generator=generator, **options).metrics["target_mean"]

    right = torch.randperm(len(obs), generator=torch.Generator().manual_seed(0))
    gap = (reward - reward[right]).abs().mean()
    assert torch.allclose(target_mean(not_done=torch.zeros(len(obs), 1)), gap)
    assert torch.equal(target_mean(not_done=torch.ones(len(obs))), target_mean())
    assert target_mean() > gap


def test_the_latent_model_runs_once_where_both_losses_read_online_latents() -> None:
    def runs(**fields: Any) -> int:
        method = pamd.method("simsr+pamd", latent_dim=D, metric=fields)
        rep = pamd.Representation(method, encoder=plain_encoder(), action_dim=3)
        calls: list[int] = []
        model = rep.terms["transition"].model
        model.register_forward_hook(lambda *_: calls.append(1))
        losses = rep.losses(*transitions())
        losses.total.backward()
        assert all(p.grad is not None for p in model.parameters())
        return len(calls)

    assert runs(target_encoder="online") == 1
    assert runs(target_encoder="ema") == 2


def test_wrong_inputs_are_named() -> None:
    obs, action, reward, next_obs = transitions()
    with pytest.raises(UnknownNameError, match=r"unknown distance 'pmd'\. Did you mean 'pamd'"):
        make("simsr+pmd")
    with pytest.raises(ConfigError, match="action_dim must be a whole number of at least 1, got 0"):
        pamd.Representation("simsr", encoder=plain_encoder(), latent_dim=D, action_dim=0)
    rep = make()
    with pytest.raises(ShapeError, match=r"action must be \[B, 3\], got \[12, 2\]"):
        rep.losses(obs, action[:, :2], reward, next_obs)
    with pytest.raises(DtypeError, match=r"int64 \[B\]"):
        rep.losses(obs, torch.zeros(12, dtype=torch.int32), reward, next_obs)
    with pytest.raises(ShapeError, match=r"next_obs must have the shape of obs, \[12, 5\], got \[11, 5\]"):
        rep.losses(obs, action, reward, next_obs[:-1])
    with pytest.raises(ShapeError, match=r"reward must have one row per observation, 12, got \[1\]"):
        make("deepmdp").losses(obs, action, reward[:1], next_obs)
    with pytest.raises(ShapeError, match=r"reward must be floating-point \[B\]"):
        make("deepmdp").losses(obs, action, reward.long(), next_obs)
    with pytest.raises(ShapeError, match=r"discrete actions must lie in \[0, 3\), got \[3"):
        rep.losses(obs, torch.full((12,), 3), reward, next_obs)
    with torch.no_grad():
        z = rep.encode(obs)
    with pytest.raises(ConfigError, match="z carries no gradient"):
        rep.losses(obs, action, reward, next_obs, z=z)
    with pytest.raises(ConfigError, match=r"must be an nn\.Module, got function"):
        pamd.Representation("simsr", encoder=lambda x: x, latent_dim=D, action_dim=3)  # type: ignore[arg-type]
    built_in = pamd.encoder("mlp", observation_shape=(5,), latent_dim=32)
    with pytest.raises(ConfigError, match="gives 32 numbers, but latent_dim is 8"):
        pamd.Representation("simsr", encoder=built_in, latent_dim=D, action_dim=3)
    wide = pamd.Representation("simsr+pamd", encoder=plain_encoder(), latent_dim=D + 1, action_dim=3)
    with pytest.raises(ShapeError, match=r"the encoder must give \[B, 9\], got \[12, 8\]"):
        wide.losses(obs, action, reward, next_obs)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"obs": np.zeros((12, 5))}, DtypeError, r"obs must be a torch.Tensor, got numpy.ndarray; .*as_tensor\(obs\)"),
        ({"reward": [0.0] * 12}, DtypeError, "reward must be a torch.Tensor, got builtins.list"),
        ({"z": np.zeros((12, D))}, DtypeError, "z must be a torch.Tensor"),
        ({"not_done": np.ones(12)}, DtypeError, "not_done must be a torch.Tensor"),
        ({"inputs": {}}, ConfigError, "inputs must be a pamd.OperatorInputs, got a dict"),
        ({"z": torch.zeros(12, D + 1)}, ShapeError, r"z must be \[12, 8\], the result of encode\(obs\), got \[12, 9\]"),
        ({"reward": torch.full((12,), torch.nan)}, ConfigError, "rewards must be finite, got nan"),
        ({"not_done": torch.full((12,), 255.0)}, ConfigError, r"not_done must lie in \[0, 1\].* got 255 to 255"),
        ({"not_done": -torch.ones(12, 1)}, ConfigError, r"not_done must lie in \[0, 1\]"),
        ({"obs": torch.rand(12, 5).double()}, DtypeError, "observations of type torch.float64, but its weights are"),
        ({"obs": torch.zeros(12, 5).byte()}, DtypeError, "observations of type torch.uint8.* divide the bytes"),
    ],
)
def test_wrong_types_and_values_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    batch = dict(zip(("obs", "action", "reward", "next_obs"), transitions(), strict=True))
    with pytest.raises(error, match=message):
        make().losses(**{**batch, **change})


def test_an_empty_batch_and_an_encoder_of_two_outputs_are_named() -> None:
    with pytest.raises(ShapeError, match=r"obs must be \[B, ...\] with at least one row, got \[0, 5\]"):
        make().losses(*transitions(size=0))

    class Two(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x), x

    rep = pamd.Representation("simsr", encoder=Two(5, D), latent_dim=D, action_dim=3)
    with pytest.raises(DtypeError, match=r"must return one tensor \[B, 8\], got a tuple; wrap it"):
        rep.encode(transitions()[0])
    with pytest.raises(DtypeError, match=r"observations of type numpy.ndarray, but its weights are torch.float32"):
        make().encode(np.zeros((12, 5)))  # type: ignore[arg-type]


@pytest.mark.parametrize("space", ["layernorm", "tanh", "sphere", "ball"])
def test_z_must_lie_in_the_latent_space(space: Any) -> None:
    method = pamd.method("simsr+pamd", latent_dim=D, latent_space=space)
    rep = pamd.Representation(method, encoder=plain_encoder(), action_dim=3)
    batch = transitions()
    with torch.no_grad():
        rep.encoder.network[2].weight.mul_(40)
    with pytest.raises(ConfigError, match=f"must be the result of encode.*latent space '{space}', but .* of its 12"):
        rep.losses(*batch, z=rep.encoder.network(batch[0]))
    rep.losses(*batch, z=rep.encode(batch[0]))
    other = pamd.Representation(method, encoder=plain_encoder(), action_dim=3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        other.losses(*batch, z=other.encode(batch[0]))


@pytest.mark.parametrize("name", ["dbc-det+pamd", "simsr+pamd", "mico", "rap"])
def test_float64_and_booleans_are_converted(name: str) -> None:
    """NumPy's default type, and `~terminated`."""
    obs, action, reward, next_obs = transitions()
    done = torch.arange(12) % 3 == 0

    def total(*batch: Tensor, **options: Tensor) -> Tensor:
        return make(name).losses(*batch, generator=torch.Generator().manual_seed(0), **options).total

    usual = total(obs, action, reward, next_obs, not_done=1 - done.float())
    other = total(obs, action.double(), reward.double(), next_obs, not_done=~done)
    assert other.dtype == torch.float32
    assert torch.equal(usual, other)


def test_forgotten_target_copies_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pamd.representation.representation._FORGOTTEN", 3)
    batch = transitions()

    def run(rep: pamd.Representation, *, update: bool) -> None:
        for _ in range(7):
            rep.losses(*batch)
            if update:
                rep.update_targets()

    with pytest.warns(UserWarning, match=r"3 losses were computed without update_targets\(\).*'simsr\+pamd'") as seen:
        run(make(), update=False)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(make(), update=True)
        run(make("dbc-det+pamd", fidelity="released"), update=False)  # has no target copies
        with torch.no_grad():
            run(make(), update=False)


class Careless(Term[NoOptions]):
    """A term whose loss is whatever the test says."""

    Config = NoOptions
    returned: Any = None

    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        return self.returned(latents)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (lambda x: x.z.sum(), DtypeError, r"term 'careless' must return pamd.Loss\(value, metrics\), got a Tensor"),
        (
            lambda x: Loss(x.z.sum(-1), {}),
            ShapeError,
            r"term 'careless' must be one number.* got \[12\]; take its mean",
        ),
        (lambda x: Loss(0.0, {}), ShapeError, "must be one number.* got float"),  # type: ignore[arg-type]
        (lambda x: x.latent("nxt"), UnknownNameError, "unknown observations 'nxt'.*next_obs"),
        (lambda x: x.latent("nxt_obs"), UnknownNameError, "unknown observations 'nxt_obs'. Did you mean 'next_obs'"),
        (lambda x: x.latent("obs", "ema"), UnknownNameError, "unknown copy of the encoder 'ema'.* declares the copies"),
        (
            lambda x: x.terms["transition"],
            UnknownNameError,
            "unknown term of this method 'transition'.*Valid: careless",
        ),
        (lambda x: x.latent("window_obs"), ConfigError, "latents of window_obs require a batch with windows"),
        (lambda x: x.latent("return_obs"), ConfigError, "latents of return_obs require a batch with n-step returns"),
    ],
)
def test_mistakes_of_a_term_are_named(returned: Any, error: type[Exception], message: str) -> None:
    TERMS.register("careless")(Careless)
    try:
        rep = make(pamd.method("none", careless={}))  # type: ignore[arg-type]
        rep.terms["careless"].returned = returned
        with pytest.raises(error, match=message):
            rep.losses(*transitions())
    finally:
        TERMS.unregister("careless")


def test_an_unknown_term_is_named() -> None:
    rep = make()
    latents = rep.batch_latents(*transitions())
    with pytest.raises(UnknownNameError, match=r"unknown term of method 'simsr\+pamd' 'metrc'. Did you mean 'metric'"):
        rep.losses_of(latents, ["metrc"])
    with pytest.raises(UnknownNameError, match="Did you mean 'metric'"):
        rep.parameter_groups(["metrc"])


def test_the_repr_shows_the_method() -> None:
    shown = repr(make("mico+pamd"))
    for part in ("name='mico+pamd'", "target_encoder=", "pairing=", "next_latents=", "action_dim="):
        assert part in shown


def test_old_names_still_work_and_warn() -> None:
    with pytest.warns(DeprecationWarning, match=r"slow_encoder=.* use target_encoder"):
        rep = make("deepmdp", slow_encoder=True)
    with pytest.warns(DeprecationWarning, match=r"follow is deprecated; use update_targets"):
        rep.follow()
    assert int(rep.updates) == 1
    with pytest.warns(DeprecationWarning, match="use target_encoders"):
        assert rep.slow_encoders is rep.target_encoders
    with pytest.warns(DeprecationWarning, match=r"use terms\['reward'\]"):
        assert rep.reward_decoder is rep.terms["reward"]
    with pytest.warns(DeprecationWarning, match=r"use terms\['state-reward'\]"):
        assert rep.state_reward is None
    with pytest.warns(DeprecationWarning, match="use normalized"):
        assert make("deepmdp", normalised=True).encoder.normalized
    with pytest.warns(DeprecationWarning, match=r"pamd.Extras is deprecated; use pamd.OperatorInputs"):
        extras = pamd.Extras(value=torch.rand(12))  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="use inputs"):
        rep.losses(*transitions(), extras=extras)
    with pytest.raises(AttributeError, match="no attribute 'slow_encodrs'"):
        _ = rep.slow_encodrs
