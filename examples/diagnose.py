"""Test whether the distance shapes the encoder: `python examples/diagnose.py [DIRECTORY]`.

The script trains an agent on the toy task (one minute) and runs four diagnostics. For your own run, use only the calls
below, or the shell commands `pamd diagnose residual RUN`, `pamd diagnose geometry RUN` and so on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pamd
from pamd import diagnostics
from pamd.report.diagnostics import draw


def main(root: Path, decisions: int, steps: int) -> None:
    run = pamd.train(pamd.configure("toy", scale="smoke", decisions=decisions), root)

    # Can the head reach its fixed point with a frozen encoder? Any registered distance can be tested.
    fitted = diagnostics.residual(run, distances=["pamd", "mlp"], seeds=2, steps=steps, out=root / "residual")
    for row in fitted.absorption:
        print(
            f"{row.distance}: residual {row.frozen:.2g} frozen, {row.trainable:.2g} trainable, absorbs {row.ratio:.2f}"
        )

    # Examine the learned matrix, and the states that are close in latent space.
    shape = diagnostics.geometry(run, pairs=128)
    print(f"effective rank {shape.effective_rank.mean():.1f} of {shape.latent_dim}")
    seen = diagnostics.latents(run, states=80, episodes=4)
    print({name: round(row["state"], 2) for name, row in seen.correlations.items()})

    # Compare with the ground truth, which is known for exact metrics of finite MDPs.
    truth = diagnostics.exact(metrics=["mico"], distances=["l2", "pamd", "mlp"], dimensions=[4], seeds=1, steps=steps)
    for cell in truth.cells[:6]:
        print(f"{cell.distance}, {cell.encoder} table: {cell.residual:.3f} fitted, {cell.held_out:.3f} held out")

    results: dict[str, Any] = {"residual": fitted, "geometry": shape, "latents": seen, "exact": truth}
    for name, result in results.items():
        diagnostics.save(result, root / name)
        print(root / name / f"{draw(root / name).figures[0].file}.png")


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("diagnostics")
    main(place, *([int(word) for word in sys.argv[2:4]] or [1000, 300]))
