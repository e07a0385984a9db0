"""The base class of terms. A term is one loss on latents, with the networks that only this loss trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, TypeVar

from torch import nn

from pamd.errors import ConfigError
from pamd.latents import BatchLatents, Copy
from pamd.registry import Registry
from pamd.schema import Part, record
from pamd.types import Batch, Loss, Window

TermStep = Literal["critic", "representation"]
"""The step of the sequential schedule that minimizes a term: together with the critic's loss, or after it."""

ConfigT = TypeVar("ConfigT")


class Term(nn.Module, ABC, Generic[ConfigT]):
    """One loss on the latents of a batch. A subclass is final and defines `Config` and `loss`.

    Optional hooks: `check`, `resolve`, `step`, `copies`, `window`, `sequence`, `weight_decay` and `targets`. A term may
    use the networks of another term through `latents.terms`. Its `check` then requires that the method has that term.

    Everything that a term needs is in the package's namespace: `pamd.TERMS`, `pamd.record` for its `Config`,
    `pamd.BatchLatents` and `pamd.Batch`, which `loss` gets, and `pamd.Loss`, which it returns.
    docs/howto/term.md has an example.
    """

    Config: ClassVar[type[Any]]
    targets: tuple[tuple[nn.Module, nn.Module], ...] = ()
    """Pairs of a target network of this term and the trained network that it is a copy of."""

    def __init__(self, config: ConfigT, latent_dim: int, action_dim: int) -> None:
        super().__init__()
        self.config, self.latent_dim, self.action_dim = config, latent_dim, action_dim

    @abstractmethod
    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        """Return the weighted loss. It trains the encoder through `latents.z` or `latents.augmented`."""

    @classmethod
    def check(cls, config: ConfigT, method: Any) -> None:
        """Raise ConfigError if a `Method` cannot have this term with these options."""

    @classmethod
    def resolve(cls, config: ConfigT, method: Any) -> ConfigT:
        """Return the options with every value filled in that depends on other fields of the `Method`."""
        return config

    @classmethod
    def step(cls, config: ConfigT) -> TermStep:
        """Return the step of the sequential schedule that minimizes this term."""
        return "representation"

    @classmethod
    def copies(cls, config: ConfigT) -> frozenset[Copy]:
        """Return the copies of the encoder that this term reads. "online" may be included."""
        return frozenset({"online"})

    @classmethod
    def window(cls, config: ConfigT) -> int:
        """Return the number of steps of the windows that this term reads; 0 if it reads none."""
        return 0

    @classmethod
    def sequence(cls, config: ConfigT) -> bool:
        """Return whether this term reads the observations after each step of its windows, not only after the last."""
        return False

    def windows(self, batch: Batch) -> Window:
        """Return the windows of a batch. Raise ConfigError unless they hold what this term declares."""
        steps, window = self.window(self.config), batch.window
        needed = ("action", "sequence") if self.sequence(self.config) else ("action",)
        if window is None:
            found = "none"
        elif absent := [name for name in needed if getattr(window, name) is None]:
            found = f"windows without {absent[0]}"
        elif window.reward.shape[1] != steps:
            found = f"windows of {window.reward.shape[1]} steps"
        else:
            return window
        raise ConfigError(
            f"{self.Config.__what__} reads windows of {steps} steps with {' and '.join(needed)}, got {found}; pass"
            " inputs=OperatorInputs(window=Window(...)) with the batch (an Agent does so by itself)"
        )

    @property
    def weight_decay(self) -> float:
        """The weight decay of this term's own networks: the option `weight_decay`, if there is one."""
        return float(getattr(self.config, "weight_decay", 0.0))


TERMS: Registry[type[Term[Any]]] = Registry("term", "pamd.terms", with_config=True)


@record
class TermPart(Part):
    """A registered term with its options."""

    registry: ClassVar[Registry[Any]] = TERMS
