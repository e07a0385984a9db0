"""The paper's claims and our own as comparisons of arms. They are stated before the runs start."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CLAIMS", "Claim", "Pair"]


@dataclass(frozen=True)
class Pair:
    """Two arms whose difference decides a claim. The difference is positive if the claim holds."""

    better: str
    worse: str


@dataclass(frozen=True)
class Claim:
    """A claim and the comparisons that decide it on every rung that has runs of both arms."""

    name: str
    says: str
    pairs: tuple[Pair, ...]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "C1",
        "PAMD improves DBC-Det and the independently coupled methods",
        (Pair("dbc-det+pamd", "dbc-det"), Pair("simsr+pamd", "simsr")),
    ),
    Claim(
        "C2",
        "a full matrix is better than an adaptive diagonal, that than a global diagonal, that than none",
        (
            Pair("dbc-det+pamd", "dbc-det+adaptive-diagonal"),
            Pair("dbc-det+adaptive-diagonal", "dbc-det+diagonal"),
            Pair("dbc-det+diagonal", "dbc-det"),
        ),
    ),
    Claim("C3", "trace normalization matters", (Pair("dbc-det+pamd", "dbc-det+pamd (no trace)"),)),
    Claim(
        "C4",
        "the gains persist with natural videos or other distracting pixels in the background",
        (
            Pair("dbc-det+pamd (paper-video)", "dbc-det (paper-video)"),
            Pair("dbc-det+pamd (noise pixels)", "dbc-det (noise pixels)"),
            Pair("simsr+pamd (noise pixels)", "simsr (noise pixels)"),
        ),
    ),
    Claim("C5", "PAMD resists absorption, and an MLP distance does not", (Pair("dbc-det+pamd", "dbc-det+mlp"),)),
    Claim("C7a", "self-prediction alone improves the learner", (Pair("zp", "sac"),)),
    Claim("C7b", "a metric improves on self-prediction", (Pair("dbc-det", "zp"), Pair("dbc-det+pamd", "zp"))),
    Claim("C7c", "PAMD improves on DeepMDP", (Pair("dbc-det+pamd", "deepmdp"),)),
    Claim(
        "C7d",
        "a reward weight of 1 - gamma, which keeps targets within reach, improves PAMD",
        (Pair("dbc-det+pamd (reward 1-gamma)", "dbc-det+pamd"),),
    ),
    Claim(
        "C7e",
        "a latent space or a scale that fits the targets improves PAMD",
        (
            Pair("dbc-det+pamd (ball)", "dbc-det+pamd"),
            Pair("dbc-det+pamd-scaled", "dbc-det+pamd"),
            Pair("simsr+pamd-scaled", "simsr+pamd"),
            Pair("simsr+pamd-scaled", "simsr"),
        ),
    ),
    Claim("C7f", "all pairs of a batch are better than one permutation", (Pair("dbc-det (all pairs)", "dbc-det"),)),
    Claim("C7g", "a vector comparison is better than a scalar one", (Pair("dbc-det+coordinate", "dbc-det"),)),
    Claim("C7h", "LayerNorm matters", (Pair("dbc-det+pamd", "dbc-det+pamd (free)"),)),
    Claim(
        "C7i",
        "at a reward weight of 1 - gamma, PAMD improves DBC-Det, and both improve on methods without a metric",
        (
            Pair("dbc-det+pamd (reward 1-gamma)", "dbc-det (reward 1-gamma)"),
            Pair("dbc-det+pamd (reward 1-gamma)", "dbc-det+diagonal (reward 1-gamma)"),
            Pair("dbc-det (reward 1-gamma)", "dbc-det"),
            Pair("dbc-det+pamd (reward 1-gamma)", "deepmdp"),
            Pair("dbc-det+pamd (reward 1-gamma)", "zp"),
            Pair("dbc-det+pamd (reward 1-gamma)", "sac"),
        ),
    ),
    Claim(
        "C8",
        "PAMD improves on a fixed comparator of its own scale, and on the released per-coordinate one",
        (
            Pair("dbc-det+pamd", "dbc-det+l2 (scale of PAMD)"),
            Pair("dbc-det+pamd", "dbc-det (mean)"),
            Pair("dbc-det+pamd", "dbc-det+coordinate"),
        ),
    ),
)
