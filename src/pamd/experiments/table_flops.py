"""tab:pamd_flops: the floating-point operations of one update, counted on the real networks."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from pamd.experiments.base import Experiment, add
from pamd.published import load
from pamd.table import Table

BATCH, DIMENSION = 128, 50
_PASSES = 4
"""The paper counts the encoder and PAMD's branch four times per update."""


class _Branch(NamedTuple):
    """Floating-point operations of PAMD's branch."""

    forward: float
    """The forward pass on one side of the regression, as implemented here."""
    textbook: float
    """The same with every G built explicitly."""
    formed: float
    """One of the paper's passes: only the network and L L^T in both orders of the pair."""
    whole: float
    """All operations of an update."""


def count(scale: str) -> Table:
    """Count the operations of encoder, PAMD and whole updates. The scale has no effect."""
    from pamd.measure import count_operations, make_agent, make_batch

    paper, encoder, branch = _paper(), _encoder_forward(), _branch()
    rows: list[dict[str, Any]] = [
        _row("encoder, one forward", encoder, None),
        _row("encoder, four forwards", _PASSES * encoder, paper["encoder"]),
        _row("PAMD branch, four passes of network and G", _PASSES * branch.formed, paper["pamd"]),
        _row("PAMD branch, one side, forward", branch.forward, None),
        _row("PAMD branch, both sides, forward", 2 * branch.forward, None),
        _row("the same with every G formed", 2 * branch.textbook, None),
        _row("PAMD branch, a whole update", branch.whole, None),
    ]
    for row in rows[2:]:
        row["% of the encoder"] = round(100 * row["FLOP"] / (_PASSES * encoder), 2)
    rows[2]["% in the paper"] = round(100 * paper["pamd"] / paper["encoder"], 2)
    batch = make_batch()
    for name in ("simsr+pamd", "dbc-det+pamd"):
        for schedule in ("sequential", "joint"):
            update = partial(make_agent(name, schedule=schedule).update, batch)
            # The mean of two updates, because the actor learns in every second one.
            operations = (count_operations(update) + count_operations(update)) / 2
            rows.append(_row(f"{name}, {schedule}, whole update", operations, None))
    notes = (
        f"B = {BATCH}, d = {DIMENSION}, h = 128; two operations per multiplication, counted by torch: only matrix "
        "products and convolutions.",
        "The paper counts four passes: of the encoder, and of PAMD's network with L L^T in both orders of a pair.",
        "This implementation does not build G. A whole update is target, value, penalty and backward pass.",
    )
    return Table.from_records("flops", "floating-point operations of one update at the paper's scale", rows, notes)


def _paper() -> dict[str, float]:
    """Return the numbers of tab:pamd_flops: the shared pixel encoder and PAMD's branch, per representation update."""
    return {row.method: row.mean for row in load("table-flops") if row.quantity == "FLOPs per update"}


def _row(what: str, operations: float, paper: float | None) -> dict[str, Any]:
    return {
        "what": what,
        "FLOP": operations,
        "in the paper": "" if paper is None else f"{paper:.2e}",
        "% of the encoder": "",
        "% in the paper": "",
    }


def _encoder_forward() -> float:
    import torch

    from pamd.measure import count_operations, make_agent, make_batch

    encoder, obs = make_agent("sac").representation.encoder, make_batch().obs
    with torch.no_grad():
        return count_operations(lambda: encoder(obs))


def _branch() -> _Branch:
    import torch

    from pamd.distances import distance
    from pamd.measure import count_operations

    head: Any = distance("pamd", latent_dim=DIMENSION)
    z, z_prime = torch.randn(BATCH, DIMENSION), torch.randn(BATCH, DIMENSION)
    with torch.no_grad():
        forward = count_operations(lambda: head(z, z_prime))
        textbook = count_operations(lambda: head.textbook(z, z_prime))
        formed = count_operations(lambda: head.matrix(z, z_prime))

    def update() -> None:
        left, right = z.clone().requires_grad_(), z_prime.clone().requires_grad_()
        value, penalty, _ = head.measure(left, right)
        (value.mean() + penalty).backward()

    return _Branch(forward, textbook, formed, forward + count_operations(update))


EXPERIMENT = add(
    Experiment(
        name="table-flops",
        title="Floating-point operations of one update",
        shows="the cost of PAMD compared with the encoder, counted in operations",
        compute=count,
        published="table-flops",
    )
)
