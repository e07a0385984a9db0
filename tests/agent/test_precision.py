"""What bfloat16 computes in an update: the encoder's products, and nothing from the latents on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.agent.batches import OBSERVATION, make_agent, make_batch, two_members, with_windows
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pamd import methods, precision
from pamd.agent import Agent
from pamd.configuration import configure
from pamd.errors import ConfigError
from pamd.learners import LEARNERS
from pamd.methods import PIPELINES
from pamd.representation.encoder import project
from pamd.training import Runtime, run_name

PRODUCTS = {"aten.convolution", "aten.convolution_backward", "aten.addmm", "aten.mm"}
BETWEEN = {"aten.relu_", "aten.threshold_backward", "aten._to_copy", "aten.sum", "aten.sub"}
"""What happens to the results of products in bfloat16: sums are gradients of biases, differences those of features."""
VIEWS = {
    "aten.permute",
    "aten.view",
    "aten.t",
    "aten.detach",
    "aten._unsafe_view",
    "aten.clone",
    "aten.alias",
    "aten.slice",
}
HALF = torch.bfloat16


class Watch(TorchDispatchMode):
    """Records every operation that reads or writes bfloat16, with the shapes of its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[tuple[int, ...]]]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
        if any(x.dtype == HALF for x in tensors):
            self.seen.append((str(function).rpartition(".")[0], [tuple(x.shape) for x in tensors]))
        return result


def check_update(agent: Agent) -> None:
    """Make two updates, so that the actor learns, too."""
    with Watch() as watch:
        metrics = [agent.update(with_windows(make_batch(i), agent)) for i in range(2)]
    names = {name for name, _ in watch.seen}
    assert names <= PRODUCTS | BETWEEN | VIEWS, names - PRODUCTS - BETWEEN - VIEWS
    assert {"aten.convolution", "aten.mm"} <= names
    features = agent.representation.encoder.feature_dim
    for name, shapes in watch.seen:
        if name in ("aten.addmm", "aten.mm"):
            assert any(features in shape for shape in shapes), f"{name} of {shapes} does not read the features"
    assert {value.dtype for one in metrics for value in one.values()} == {torch.float32}
    kept = {name: tensor.dtype for name, tensor in agent.tensors().items() if tensor.is_floating_point()}
    assert set(kept.values()) <= {torch.float32, torch.float64}, kept  # weights, target copies, Adam


@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("name", PIPELINES)
def test_only_the_products_of_the_encoder_are_bfloat16(name: str, schedule: str) -> None:
    check_update(make_agent(name, schedule=schedule, precision="bfloat16", **two_members(name)))


@pytest.mark.parametrize("name", [name for name in methods.names() if name.startswith("dbc-det+")])
def test_so_it_is_with_every_distance(name: str) -> None:
    check_update(make_agent(name, schedule="joint", precision="bfloat16"))


@pytest.mark.parametrize("learner", LEARNERS.names())
def test_so_it_is_with_every_learner(learner: str) -> None:
    check_update(make_agent("deepmdp", schedule="joint", precision="bfloat16", learner=learner))


def test_so_it_is_with_an_isolated_metric() -> None:
    check_update(make_agent("dbc-det+pamd", isolate_metric=True, precision="bfloat16"))


def test_acting_is_float32() -> None:
    agent = make_agent(precision="bfloat16")
    with Watch() as watch:
        agent.act(np.zeros(OBSERVATION, np.uint8), explore=True)
    assert not watch.seen


def test_float32_computes_nothing_in_bfloat16() -> None:
    agent = make_agent()
    with Watch() as watch:
        agent.update(make_batch())
    assert not watch.seen


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_projection_has_the_type_of_its_weights_and_wider_features_are_refused(dtype: torch.dtype) -> None:
    head, features = torch.nn.Linear(4, 2).to(dtype), torch.ones(3, 4)
    assert project(head, features.bfloat16()).dtype == dtype
    assert project(head, features.to(dtype)).dtype == dtype
    with pytest.raises(RuntimeError, match="dtype"):
        project(head, features.double())


def test_distances_of_close_latents_survive() -> None:
    draw = torch.Generator().manual_seed(0)
    head = torch.nn.Linear(1000, 50)
    features = (torch.rand(1000, generator=draw) + 1e-2 * torch.randn(16, 1000, generator=draw)).bfloat16()

    def distances(z: torch.Tensor) -> torch.Tensor:
        return torch.pdist(z.detach().double())

    exact = distances(torch.nn.functional.linear(features.float(), head.weight, head.bias))
    with torch.autocast("cpu", torch.bfloat16):
        plain = head(features)
    errors = [float(((distances(z) - exact).abs() / exact).mean()) for z in (project(head, features), plain)]
    assert errors[0] < 0.005
    assert errors[1] > 5 * errors[0]


@pytest.mark.parametrize("rows", [1, 5])
def test_gradients_of_a_projection_are_those_of_the_product(rows: int) -> None:
    head, features = torch.nn.Linear(30, 4), torch.randn(rows, 30).bfloat16()
    slopes = []
    for own in (project, lambda head, x: head(x.float())):
        x = features.clone().requires_grad_()
        loss = own(head, x).square().sum()
        slopes.append(torch.autograd.grad(loss, [x, head.weight, head.bias]))
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=0.05, atol=0.05)


def test_a_head_of_another_kind_reads_float32() -> None:
    head = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
    x = torch.randn(2, 4).bfloat16()
    assert torch.equal(project(head, x), head(x.float()))
    with torch.autocast("cpu", torch.bfloat16):
        assert project(head, x).dtype == torch.float32


CPU = {
    "flags\t\t: fpu avx2 avx512f avx512_bf16 amx_tile\n": True,
    "flags\t\t: fpu avx2 amx_bf16\n": True,
    "Features\t: fp asimd bf16\n": True,
    "flags\t\t: fpu avx2 avx512f avx512_fp16\n": False,
    "": False,
}


@pytest.mark.parametrize(("text", "fast"), CPU.items())
def test_auto_is_resolved_before_the_run_and_recorded(
    text: str, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{text}")
    monkeypatch.setattr(precision, "_CPU_INFO", tmp_path / "cpuinfo")
    on_cpu = Runtime(device="cpu")
    assert precision.has_bfloat16(torch.device("cpu")) is fast
    config = configure("cheetah_run", precision="auto", runtime=on_cpu)
    named = configure("cheetah_run", precision="bfloat16" if fast else "float32", runtime=on_cpu)
    assert config == named
    assert run_name(config) == run_name(named)
    assert configure("state:cheetah_run", precision="auto", runtime=on_cpu).precision == "float32"


def test_a_system_that_lists_no_instructions_has_no_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "_CPU_INFO", tmp_path / "missing")
    assert not precision.has_bfloat16(torch.device("cpu"))
    assert not precision.has_bfloat16(torch.device("mps"))


@pytest.mark.parametrize(("capability", "fast"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_gpus_have_it_since_ampere(capability: tuple[int, int], fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert precision.has_bfloat16(torch.device("cuda")) is fast


def test_a_config_never_says_auto() -> None:
    assert configure("cheetah_run").precision == "float32"
    with pytest.raises(ConfigError, match="precision"):
        configure("cheetah_run", settings=("precision=auto",))
