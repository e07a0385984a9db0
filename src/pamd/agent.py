"""The agent: one encoder that a representation and a learner share, and a training schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pamd.encoders import ENCODERS
from pamd.errors import CheckpointError, ConfigError, DtypeError, ShapeError
from pamd.latents import BatchLatents
from pamd.learners import Learner, LearnerPart, Step
from pamd.learners.dormancy import perturb
from pamd.methods import Method
from pamd.optimization import adam, load_optimizer, optimizer_step
from pamd.precision import Precision
from pamd.registry import Registry
from pamd.representation import LatentEncoder, Representation
from pamd.rng import fitting_state, seeded
from pamd.schema import Part, record
from pamd.types import Batch, Loss, OperatorInputs, Window

Schedule = Literal["sequential", "joint"]
"""Sequential: the critic's step, then the representation's. Joint: one backward pass, one Adam state of the encoder."""
_FROM_LEARNER = ("value", "action_value", "policy_action")
"""The inputs of operators that the learner computes."""


@record
class EncoderPart(Part):
    """A registered encoder with its options."""

    registry: ClassVar[Registry[Any]] = ENCODERS


@record(what="agent")
class AgentConfig:
    """The configuration of an agent."""

    encoder: EncoderPart
    method: Method
    learner: LearnerPart
    schedule: Schedule = "sequential"
    isolate_metric: bool = False
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        if self.isolate_metric and self.method.metric is None:
            raise ConfigError(f"isolate_metric requires a metric loss, and method {self.method.name!r} has none")
        if self.isolate_metric:
            _ = self.method.without("reward")  # runs its checks
        if "action_value" in self.method.operator_needs and self.learner.cls.action_value is Learner.action_value:
            raise ConfigError(
                f"learner {self.learner.name!r} has no action values, which operator 'advantage' requires;"
                " use operator 'value', or give the learner a method action_value"
            )
        operator, gamma = self.method.operator, self.learner.options.gamma
        if operator is not None and operator.name == "psm" and operator.options.actions == "discrete":
            raise ConfigError("the actions of an agent are continuous; set method.metric.operator.actions=continuous")
        if operator is not None and operator.options.gamma != gamma:
            raise ConfigError(
                f"learner.gamma is {gamma} but method.metric.operator.gamma is {operator.options.gamma}; they must be"
                " equal (method.metric.operator.c_T sets the weight of the next states separately)"
            )


class Parts(NamedTuple):
    """The networks of an agent."""

    learner: Learner[Any]
    representation: Representation
    isolated: Representation | None
    """The representation that has the metric loss, if the run isolates it."""

    def modules(self) -> nn.ModuleDict:
        """Return the parts by name."""
        return nn.ModuleDict({name: part for name, part in self._asdict().items() if part is not None})


def build_parts(config: AgentConfig, observation_shape: tuple[int, ...], action_dim: int) -> Parts:
    """Build the networks. Their weights are drawn from torch's global generator."""

    def build_encoder() -> LatentEncoder:
        network = config.encoder.cls(config.encoder.options, observation_shape, method.latent_dim)
        return LatentEncoder.from_method(network, method)

    method, cls = config.method, config.learner.cls
    encoder = build_encoder()
    learner = cls(config.learner.options, encoder, action_dim)
    trained = method.without("metric") if config.isolate_metric else method
    representation = Representation(trained, encoder=encoder, action_dim=action_dim, target_encoder=cls.target_encoder)
    if not config.isolate_metric:
        return Parts(learner, representation, None)
    # Only the metric trains the second encoder, so a reward decoder would have no use there.
    second = Representation(method.without("reward"), encoder=build_encoder(), action_dim=action_dim)
    return Parts(learner, representation, second)


def parameter_groups(config: AgentConfig, parts: Parts) -> dict[str, list[dict[str, Any]]]:
    """Return the parameter groups of the agent's optimizers by name. The learner's own optimizers are not included.

    Sequential: the encoder is in the critic's Adam and in the representation's, with a state in each. Joint: one Adam,
    "critic", has everything.
    """
    learner, representation, isolated = parts
    first: tuple[str, ...] | None = None  # all terms
    second: tuple[str, ...] = ()
    if config.schedule == "sequential":
        first = representation.method.terms_in("critic")
        second = representation.method.terms_in("representation")
    critic, *others = representation.parameter_groups(first)  # the first group has the encoder, without weight decay
    groups = {"critic": [{**critic, "params": [*critic["params"], *learner.critic_parameters()]}, *others]}
    if second:
        groups["representation"] = representation.parameter_groups(second)
    if isolated is not None:
        groups["isolated"] = isolated.parameter_groups(["metric"])
        if models := [name for name in isolated.terms if name != "metric"]:
            groups["isolated_model"] = isolated.parameter_groups(models, encoder=False)
    return groups


class Agent:
    """An agent that acts and learns. All its randomness comes from one generator, which is part of its state."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        observation_shape: tuple[int, ...],
        action_dim: int,
        seed: int,
        device: str | torch.device = "cpu",
    ) -> None:
        self.config, self.observation_shape, self.action_dim = config, tuple(observation_shape), action_dim
        self.device, self.updates = torch.device(device), 0
        self._dtype = torch.bfloat16 if config.precision == "bfloat16" else None
        parts = self._new_parts(seed)
        self.learner, self.representation, self.isolated = parts
        self._steps = tuple(self.representation.method.terms_in(step) for step in ("critic", "representation"))
        self.nets = parts.modules().to(self.device)
        self.generator = seeded(seed, self.device)
        augmentation = config.learner.options.augmentation
        self.augment = augmentation.cls(augmentation.options)
        rate = config.learner.options.learning_rate
        own = {name: adam(groups, rate) for name, groups in parameter_groups(config, parts).items()}
        self.learner.optimizers = self.learner.make_optimizers()
        if taken := sorted(own.keys() & self.learner.optimizers):
            raise ConfigError(
                f"learner {type(self.learner).__name__} has an optimizer called {taken[0]!r}, as the agent does"
            )
        self.optimizers: dict[str, torch.optim.Optimizer] = {**own, **self.learner.optimizers}

    def _new_parts(self, seed: int) -> Parts:
        """Return new networks. Their weights depend only on the seed, not on earlier random draws of the process."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return build_parts(self.config, self.observation_shape, self.action_dim)

    @property
    def measured(self) -> Representation:
        """The representation that has the metric loss: the second one if the metric is isolated."""
        return self.isolated or self.representation

    @torch.no_grad()
    def act(self, obs: NDArray[Any], *, explore: bool = False, decisions: int = 0) -> NDArray[np.float32]:
        """Return actions for one observation [...] or a batch [B, ...]: sampled to explore, else the policy's mode."""
        single, batch = self._checked(obs)
        features = self.representation.encoder.trunk(batch.to(self.device))
        step = Step(decisions, self.updates)
        action = self.learner.act(features, explore=explore, step=step, generator=self.generator)
        chosen: NDArray[np.float32] = action.float().cpu().numpy()
        return chosen[0] if single else chosen

    def update(self, batch: Batch, decisions: int = 0) -> dict[str, Tensor]:
        """Run one update: the critic and the representation's terms, then the policy, then the target networks."""
        self.updates += 1
        step = Step(decisions, self.updates)
        latents = self._latents(self._augmented(batch), dtype=self._dtype)
        schedule = self._joint_step if self.config.schedule == "joint" else self._sequential_steps
        losses = schedule(latents, step)
        if self.isolated is not None:
            losses += self._isolated_steps(self.isolated, latents)
        losses += self.learner.update_policy(latents, step, self.generator)
        self.learner.update_targets(step)
        burst = self.config.learner.options.in_burst(self.updates)
        for representation in filter(None, (self.representation, self.isolated)):
            representation.update_targets(at_once=burst)
        if self.learner.drm is not None and self.learner.drm.perturbs(self.updates):
            self._perturb(self.learner.drm.kept)
        return {name: value for loss in losses for name, value in loss.metrics.items()}

    def _joint_step(self, latents: BatchLatents, step: Step) -> list[Loss]:
        """Make one step on the sum of all losses: one backward pass, and one Adam state of the encoder.

        The policy is updated afterwards on the features of this pass, which are from before the step.
        """
        losses = [self._critic_loss(latents, step), *self.representation.losses_of(latents).values()]
        self._step(losses, "critic")
        return losses

    def _sequential_steps(self, latents: BatchLatents, step: Step) -> list[Loss]:
        """Make the critic's step, then the representation's, as the released code does.

        Each step changes the encoder, so each needs new latents. The encoder has one Adam state per step.
        """
        with_critic, after_critic = self._steps
        first = [self._critic_loss(latents, step)]
        first += self.representation.losses_of(latents, with_critic).values()
        self._step(first, "critic")
        latents.forget()
        second = list(self.representation.losses_of(latents, after_critic).values())
        if second:
            self._step(second, "representation")
            latents.forget()
        return first + second

    def _isolated_steps(self, isolated: Representation, shared: BatchLatents) -> list[Loss]:
        """Train the second encoder on the metric alone. Its latent model then learns without changing that encoder."""
        inputs = self._inputs(lambda: shared)
        latents = isolated.latents_of(shared.batch, generator=self.generator, inputs=inputs, dtype=self._dtype)
        metric = list(isolated.losses_of(latents, ["metric"]).values())
        self._step(metric, "isolated")
        latents.forget()
        models = list(isolated.losses_of(latents, [name for name in isolated.terms if name != "metric"]).values())
        if models:
            self._step(models, "isolated_model")
        return metric

    def _critic_loss(self, latents: BatchLatents, step: Step) -> Loss:
        critic, metrics = self.learner.critic_loss(latents.batch, latents, step, self.generator)
        return Loss(self.config.method.critic_weight * critic, metrics)

    def _step(self, losses: list[Loss], name: str) -> None:
        optimizer_step(losses, [self.optimizers[name]])

    def _perturb(self, kept: float) -> None:
        """Move encoder, actor and critic toward new initial weights, and let their optimizers start again (DrM).

        The target networks are not changed; they follow. The generator draws the seed of the new weights.
        """
        seed = int(torch.randint(2**62, (), generator=self.generator, device=self.generator.device))
        fresh = self._new_parts(seed)
        new = {"encoder": fresh.representation.encoder, **fresh.learner.networks()}
        for name, network in {"encoder": self.representation.encoder, **self.learner.networks()}.items():
            perturb(network, new[name], kept)
            for optimizer in self.optimizers.values():
                for parameter in network.parameters():
                    optimizer.state.pop(parameter, None)

    def dormant_ratios(self, batch: Batch) -> dict[str, float]:
        """Return the share of dormant hidden units of the actor and the critic on a batch."""
        latents = self._latents(batch, observe=False)
        with torch.no_grad():
            z = latents.latent()  # comes first, so that the features are those of its pass
            ratios = self.learner.dormant_ratios(latents.features(), z)
        return {name: float(ratio) for name, ratio in ratios.items()}

    def _latents(self, batch: Batch, **options: Any) -> BatchLatents:
        """Return the latents of a batch under the encoder that the learner shares."""
        latents: BatchLatents = self.representation.latents_of(
            batch, generator=self.generator, inputs=self._inputs(lambda: latents), **options
        )
        return latents

    def _inputs(self, shared: Callable[[], BatchLatents]) -> Callable[[str], Tensor | None]:
        """Return what gives an operator the learner's values and actions, and the terminations of the batch.

        They are computed only if an operator reads them. `shared` are latents of the learner's encoder, even if the
        metric has an encoder of its own.
        """

        def given(name: str) -> Tensor | None:
            if name not in (*_FROM_LEARNER, "not_done"):
                return None
            latents = shared()
            if name == "not_done":
                return latents.batch.not_done
            z = latents.latent("obs")  # comes first: the metric loss reuses this pass with its gradient
            with torch.no_grad():
                if name == "action_value":
                    return self.learner.action_value(z, latents.batch.action)
                if name == "policy_action":
                    step = Step(0, self.updates)  # no schedule matters, because the mode has no noise
                    return self.learner.act(latents.features(), explore=False, step=step, generator=self.generator)
                return self.learner.value(latents.features(), z)

        return given

    def operator_inputs(self, batch: Batch) -> OperatorInputs:
        """Return the operator's inputs for a batch, other than latents: values, actions, terminations and windows."""
        needs, given = self.config.method.operator_needs, self._inputs(lambda: self._latents(batch, observe=False))
        values = {name: given(name) for name in _FROM_LEARNER if name in needs}
        return OperatorInputs(**values, window=batch.window, not_done=batch.not_done)

    def _augmented(self, batch: Batch) -> Batch:
        if self.config.learner.options.augmentation.name == "none":
            return batch
        changes: dict[str, Any] = {
            name: self.augment(getattr(batch, name), self.generator) for name in ("obs", "next_obs")
        }
        changes["original_obs"] = batch.obs
        if batch.n_step is not None:
            shifted = self.augment(batch.n_step.next_obs, self.generator)
            changes["n_step"] = dataclasses.replace(batch.n_step, next_obs=shifted)
        if batch.window is not None:
            changes["window"] = self._augmented_window(batch.window)
        return dataclasses.replace(batch, **changes)

    def _augmented_window(self, window: Window) -> Window:
        """Augment every observation of the windows by itself."""
        if window.sequence is None:
            return dataclasses.replace(window, obs=self.augment(window.last_obs, self.generator))
        every = self.augment(window.sequence.flatten(0, 1), self.generator)
        return dataclasses.replace(window, sequence=every.unflatten(0, window.sequence.shape[:2]))

    def _checked(self, obs: NDArray[Any]) -> tuple[bool, Tensor]:
        """Return whether `obs` is one observation, and `obs` as a batch [B, ...]."""
        array = np.asarray(obs)
        expected = np.uint8 if len(self.observation_shape) == 3 else np.float32
        if array.dtype != expected:
            raise DtypeError(f"observations must be {np.dtype(expected)}, got {array.dtype}")
        single = array.shape == self.observation_shape
        if not single and array.shape[1:] != self.observation_shape:
            shape = list(self.observation_shape)
            raise ShapeError(f"observations must be {shape} or [B, {str(shape)[1:]}, got {list(array.shape)}")
        return single, torch.as_tensor(array[None] if single else array)

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state as a flat dict: weights, optimizer states, generator and update count."""
        state = {f"nets.{name}": value for name, value in self.nets.state_dict().items()}
        for key, optimizer in self.optimizers.items():
            for index, entry in optimizer.state_dict()["state"].items():
                state |= {f"optimizers.{key}.{index}.{name}": value for name, value in entry.items()}
        return {**state, "generator": self.generator.get_state(), "updates": torch.tensor(self.updates)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a state that `tensors` returned. Raise CheckpointError if it is not the state of such an agent."""
        if "generator" in tensors:
            tensors = {**tensors, "generator": fitting_state(tensors["generator"], self.generator)}
        expected = {f"nets.{name}": tensor for name, tensor in self.nets.state_dict().items()}
        expected |= {"generator": self.generator.get_state(), "updates": torch.tensor(self.updates)}
        _check_fit(expected, {name: value for name, value in tensors.items() if not name.startswith("optimizers.")})
        self.nets.load_state_dict({k[5:]: tensors[k] for k in expected if k.startswith("nets.")})
        for key, optimizer in self.optimizers.items():
            load_optimizer(optimizer, {k: v for k, v in tensors.items() if k.startswith(f"optimizers.{key}.")})
        self.generator.set_state(tensors["generator"].cpu())
        self.updates = int(tensors["updates"])

    def weights(self) -> dict[str, Tensor]:
        """Return the weights of all networks. They suffice to act and measure distances, not to continue training."""
        return dict(self.nets.state_dict())

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load weights that `weights` returned. Raise CheckpointError if they do not fit."""
        _check_fit(self.weights(), weights)
        self.nets.load_state_dict(weights)


def _check_fit(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError unless the given tensors have the names, shapes and types of the expected ones."""
    for name in sorted(expected.keys() ^ given.keys()):
        raise CheckpointError(f"the tensor {name!r} is " + ("missing" if name in expected else "unknown to this agent"))
    for name, tensor in expected.items():
        wanted, got = ((list(one.shape), one.dtype) for one in (tensor, given[name]))
        if wanted != got:
            raise CheckpointError(f"the tensor {name!r} must be {wanted[0]} {wanted[1]}, got {got[0]} {got[1]}")
