"""Does the distance shape the encoder? Four instruments, one small run: `python examples/diagnose.py [DIRECTORY]`.

Trains an agent on the toy task (a minute), then looks at it. On a run of your own, only the calls below matter; the
same from a shell is `pamd diagnose residual RUN`, `pamd diagnose geometry RUN` and so on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pamd
from pamd import diagnostics
from pamd.report.diagnostics import draw


def main(root: Path, decisions: int, steps: int) -> None:
    run = pamd.train(pamd.configure("toy", "simsr+pamd", scale="smoke", decisions=decisions), root)

    # Can the head satisfy its fixed point while the encoder stands still? Any registered distance can be asked.
    fitted = diagnostics.residual(run, distances=["pamd", "mlp"], seeds=2, steps=steps, out=root / "residual")
    for row in fitted.absorption:
        print(
            f"{row.distance}: residual {row.frozen:.2g} frozen, {row.trainable:.2g} trainable, absorbs {row.ratio:.2f}"
        )

    # What has the matrix learned, and what do the latents hold for alike?
    shape = diagnostics.geometry(run, pairs=128)
    print(f"effective rank {shape.effective_rank.mean():.1f} of {shape.latent_dim}")
    seen = diagnostics.latents(run, states=80, episodes=4)
    print({name: round(row["state"], 2) for name, row in seen.correlations.items()})

    # Against the truth, where it is known: exact metrics of finite MDPs.
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
