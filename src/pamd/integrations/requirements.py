"""Checks shared by all integrations."""

from __future__ import annotations

import importlib.metadata
import re

from pamd.errors import ConfigError, install_command
from pamd.methods import DEFAULT_METHOD, Method
from pamd.representation import Representation


def require_library(integration: str, distribution: str, oldest: tuple[int, int], extra: str) -> None:
    """Raise ConfigError unless `distribution` is installed in version `oldest` or newer."""
    wanted = f"{integration} requires {distribution} >= {'.'.join(map(str, oldest))}"
    try:
        found = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(f"{wanted}: {install_command(extra)}") from None
    if tuple(int(number) for number in re.findall(r"\d+", found)[:2]) < oldest:
        raise ConfigError(f"{wanted}, got {found}: {install_command(extra)}")


def check_single_transitions(who: str, method: Method) -> None:
    """Raise ConfigError unless the losses of `method` work on single transitions."""
    absent = sorted(method.operator_needs & {"value", "action_value", "policy_action", "z_window"})
    if absent and method.operator is not None:
        raise ConfigError(
            f"{who}: operator {method.operator.name!r} reads {', '.join(absent)}, which a batch of single transitions"
            " does not hold; use a method with operator 'independent', or train with pamd.Agent"
        )
    for part in method.terms:
        if steps := part.cls.window(part.options):
            raise ConfigError(
                f"{who}: term {part.name!r} of method {method.name!r} reads windows of {steps} steps, which a batch of"
                f" single transitions does not hold; use a method such as 'curl' or {DEFAULT_METHOD!r}, or train with"
                " pamd.Agent"
            )


def check_representation(who: str, representation: Representation) -> None:
    """Raise ConfigError unless `representation` has losses that work on single transitions."""
    if not isinstance(representation, Representation):
        raise ConfigError(f"{who} requires a pamd.Representation, got {type(representation).__name__}")
    method = representation.method
    if not method.terms:
        raise ConfigError(f"{who}: method {method.name!r} has no loss to add; use a method such as {DEFAULT_METHOD!r}")
    check_single_transitions(who, method)
    if not any(p.requires_grad for p in representation.encoder.parameters()):
        raise ConfigError(f"{who}: the representation's encoder has no trainable parameters")
