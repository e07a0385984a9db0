"""Bad input gets the package's own error, before any work, and the error says what came and what was expected."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pamd
from pamd.distances.base import Distance, NoOptions
from pamd.errors import ConfigError, DtypeError, PamdError, ShapeError, UnknownNameError


@pytest.mark.parametrize(
    ("name", "options", "error", "says"),
    [
        ("pmad", {}, UnknownNameError, "'pamd'"),
        ("pamd", {"riddge": 1.0}, UnknownNameError, "'ridge'"),
        ("pamd", {"preset": "papper"}, UnknownNameError, "'paper'"),
        ("l2", {"hidden": 3}, UnknownNameError, "hidden"),
        ("pamd", {"ridge": 0.0}, ConfigError, "above 0"),
        ("pamd", {"ridge": -1e-3}, ConfigError, "-0.001"),
        ("pamd", {"ridge": float("nan")}, ConfigError, "ridge"),
        ("pamd", {"hidden": "128"}, ConfigError, "hidden"),
        ("pamd", {"hidden": 0}, ConfigError, "at least 1"),
        ("pamd", {"hidden": 1.5}, ConfigError, "hidden"),
        ("pamd", {"root": "cube"}, ConfigError, "root"),
        ("pamd", {"root_epsilon": 0.0}, ConfigError, "root_epsilon"),
        ("pamd", {"aux_weight": -1.0}, ConfigError, "aux_weight"),
        ("pamd", {"aux_pairs": 0}, ConfigError, "aux_pairs"),
        ("pamd", {"trace_normalized": False, "trace_detached": True}, ConfigError, "trace_detached"),
        ("pamd", {"ridge": torch.ones(())}, ConfigError, "plain data"),
        ("pamd", {"latent_dim": 0}, ConfigError, "latent_dim"),
        ("pamd", {"latent_dim": 2.0}, ConfigError, "latent_dim"),
        ("mico", {"beta": 0.0}, ConfigError, "beta"),
        ("pamd-lowrank", {"rank": 9}, ConfigError, "between 1 and latent_dim 8"),
        ("pamd-lowrank", {"rank": 0}, ConfigError, "rank"),
        ("pamd-block", {"block": 3}, ConfigError, "nearest that does: 2"),
        ("pamd-block", {"block": 0}, ConfigError, "block must be a whole number of at least 1 or None, got 0"),
    ],
)
def test_options(name: str, options: dict[str, Any], error: type[PamdError], says: str) -> None:
    with pytest.raises(error, match=says):
        pamd.distance(name, **{"latent_dim": 8, **options})


@pytest.mark.parametrize(
    ("z", "z_prime", "error", "says"),
    [
        (torch.zeros(4, 7), torch.zeros(4, 8), ShapeError, r"\[P, 8\], got \[4, 7\]"),
        (torch.zeros(4, 8), torch.zeros(4, 9), ShapeError, r"z_prime must be \[P, 8\], got \[4, 9\]"),
        (torch.zeros(4, 8), torch.zeros(5, 8), ShapeError, "got 4 and 5"),
        (torch.zeros(8), torch.zeros(8), ShapeError, r"got \[8\]"),
        (torch.zeros(4, 8).long(), torch.zeros(4, 8), DtypeError, "int64"),
        (torch.zeros(4, 8), torch.zeros(4, 8).double(), DtypeError, "float64"),
        ([[0.0] * 8], torch.zeros(1, 8), DtypeError, "list"),
    ],
)
@pytest.mark.parametrize("name", pamd.DISTANCES.names())
def test_tensors(name: str, z: Any, z_prime: Any, error: type[PamdError], says: str) -> None:
    d = pamd.distance(name, latent_dim=8)
    for call in (d, d.measure):
        with pytest.raises(error, match=says):
            call(z, z_prime)


@pytest.mark.parametrize("name", ["pamd", "mlp", "diagonal"])
def test_latents_and_weights_of_different_types(name: str) -> None:
    d = pamd.distance(name, latent_dim=8)
    with pytest.raises(DtypeError, match=r"float64 but the distance is torch\.float32"):
        d(torch.zeros(4, 8).double(), torch.zeros(4, 8).double())


RETURNED: dict[str, tuple[bool, Any, str]] = {
    "column": (False, lambda z: z.sum(-1, keepdim=True), r"must return \[P\] for z of \[3, 2\], got \[3, 1\]$"),
    "scalar": (False, lambda z: z.sum(), r"must return \[P\] for z of \[3, 2\], got \[\]$"),
    "coordinates": (False, lambda z: z, r"must return \[P\] .*got \[3, 2\]; set coordinate_wise = True"),
    "number": (False, lambda z: 1.0, r"must return \[P\] .*got float$"),
    "one per pair": (True, lambda z: z.sum(-1), r"must return \[P, d\] .*got \[3\]$"),
}


@pytest.mark.parametrize("case", RETURNED)
def test_a_value_of_the_wrong_shape(case: str) -> None:
    """[P, 1] minus a target [P] would broadcast to [P, P] without a word."""
    wise, value, says = RETURNED[case]

    class Odd(Distance[NoOptions]):
        Config = NoOptions
        coordinate_wise = wise

        def _value(self, z: torch.Tensor, z_prime: torch.Tensor) -> Any:
            return value(z)

    z = torch.ones(3, 2)
    for call in (Odd(2, NoOptions()), Odd(2, NoOptions()).measure):
        with pytest.raises(ShapeError, match=rf"^Odd\._value {says}"):
            call(z, z)
    with pytest.raises(ShapeError, match=r"^Odd\._value"):
        Odd(2, NoOptions()).all_pairs(z)
