"""Stable-Baselines3: `with_metric(SAC, "dbc-unit+pamd")("LatentPolicy", env).learn(100_000)`."""

from __future__ import annotations

from pamd.integrations.requirements import require_library

require_library(__name__, "stable-baselines3", (2, 9), "sb3")

from pamd.integrations.sb3.algorithm import with_metric  # noqa: E402  The version is checked first.
from pamd.integrations.sb3.metric import Metric, MetricOptions  # noqa: E402
from pamd.integrations.sb3.policies import LatentCNN, LatentMLP  # noqa: E402

__all__ = ["LatentCNN", "LatentMLP", "Metric", "MetricOptions", "with_metric"]
