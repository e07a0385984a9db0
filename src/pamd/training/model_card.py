"""The model card of an export: a README.md for readers and model hubs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pamd.envs import observes_states, trust_flag
from pamd.runs import Budget
from pamd.training.config import TrainConfig

PREVIEW = "replay.mp4"
"""The name of the video that a hub shows for a reinforcement learning model."""

_ROWS = 12
"""The maximum number of evaluations in the table."""

_CITATION = """\
```bibtex
@inproceedings{roh2026pamd,
  title     = {{PAMD}: Structured Adaptive Distances for Bisimulation Representations in Visual Reinforcement Learning},
  author    = {Roh, Daegyeong and Bae, Juho and Choi, Han-Lim},
  booktitle = {International Conference on Machine Learning},
  year      = {2026}
}
```"""


class CardFacts(NamedTuple):
    """The contents of a model card."""

    config: TrainConfig
    budget: Budget
    """How long the agent was trained."""
    evaluations: Sequence[Mapping[str, Any]]
    """Rows of eval.jsonl."""
    videos: Sequence[str]
    """Paths inside the export."""
    versions: Mapping[str, Any]
    """Versions of the software that trained the agent."""
    repo: str | None = None
    """OWNER/NAME on the hub, if the export is uploaded."""


def model_card(facts: CardFacts) -> str:
    """Return the text of README.md: YAML front matter, results, videos and loading instructions."""
    parts = [
        _front_matter(facts),
        f"# {facts.config.label} on {_task(facts.config)}",
        _summary(facts),
        "## Returns",
        _returns(facts),
        "## Videos",
        _videos(facts),
        "## How to load",
        _loading(facts),
        "## Training",
        _training(facts),
        "## Limits",
        "The returns are from one run with one seed and cannot be used to rank methods. The agent was trained on this"
        " task alone. This directory has no replay and no optimizer states, so training cannot be resumed from it.",
        "## Citation",
        _CITATION,
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(facts: CardFacts) -> str:
    """Return the YAML front matter. Strings are written as JSON, which is valid YAML for all characters."""
    task, label = _task(facts.config), facts.config.label
    tags = ["reinforcement-learning", "deep-reinforcement-learning", "pamd", task, label]
    lines = ["---", "library_name: pamd", "pipeline_tag: reinforcement-learning", "tags:"]
    lines += [f"- {_quote(tag)}" for tag in tags]
    if facts.evaluations:
        name = _quote(task)
        lines += ["model-index:", f"- name: {_quote(label)}", "  results:", "  - task:"]
        lines += ["      type: reinforcement-learning", "      name: reinforcement-learning"]
        lines += ["    dataset:", f"      name: {name}", f"      type: {name}", "    metrics:"]
        for metric, prefix in (("mean_reward", ""), ("mean_reward, unseen backgrounds or noise", "unseen_")):
            value = _mean_and_std(facts.evaluations[-1], prefix, "+/-")
            if value:
                lines += ["    - type: mean_reward", f"      value: {_quote(value)}"]
                lines += [f"      name: {_quote(metric)}", "      verified: false"]
    return "\n".join([*lines, "---"])


def _summary(facts: CardFacts) -> str:
    config = facts.config
    observes = "states" if observes_states(config.env.task) else "pixels"
    return (
        f"An agent trained from {observes} with `pamd`: method `{config.method.name}`, learner `{config.learner.name}`,"
        f" fidelity `{config.method.fidelity}`, scale `{config.scale}`, seed {config.seed}."
    )


def _returns(facts: CardFacts) -> str:
    rows = facts.evaluations
    if not rows:
        return "The run was not evaluated before this checkpoint."
    unseen = any("unseen_return_mean" in row for row in rows)
    head = ["decisions", "frames", "updates", "episodes", "return", *(["return, unseen"] if unseen else [])]
    success = any("success_mean" in row for row in rows)
    head += ["success"] if success else []
    lines = ["| " + " | ".join(head) + " |", "|" + "---:|" * len(head)]
    for row in _select_rows(rows):
        cells = [f"{row[unit]:,}" for unit in Budget._fields] + [str(len(row.get("returns", [])))]
        cells += [_mean_and_std(row, prefix, "±") for prefix in ("", "unseen_")[: 1 + unseen]]
        cells += [f"{row['success_mean']:.2f}" if "success_mean" in row else ""] if success else []
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(
        [
            "Mean and standard deviation over the episodes of one evaluation, with the policy's mode."
            " `eval.jsonl` has every evaluation and every episode.",
            "",
            *lines,
        ]
    )


def _videos(facts: CardFacts) -> str:
    if not facts.videos:
        return "The run has no video."
    return "\n".join(f"- [{_caption(name, facts.budget)}]({name})" for name in facts.videos)


def _caption(name: str, budget: Budget) -> str:
    if name == PREVIEW:
        return f"an episode of this agent, after {budget.decisions:,} decisions"
    stem = name.rsplit("/", 1)[-1].removesuffix(".mp4").removeprefix("evaluated-")
    return f"an episode after {int(stem):,} decisions"


def _loading(facts: CardFacts) -> str:
    lines = ["```python", "import pamd"]
    source = '"path/to/this/directory"'
    if facts.repo is not None:
        lines.insert(1, "from huggingface_hub import snapshot_download\n")
        source = f"snapshot_download({_quote(facts.repo)})"
    trust = ", trust=True" if trust_flag(facts.config.env) else ""
    lines += ["", f"trained = pamd.load({source}{trust})", "env = trained.make_env(seed=0)", "obs, _ = env.reset()"]
    lines += ["action = trained.act(obs)  # the policy's mode", "```"]
    extras = "lab,hub" if facts.repo is not None else "lab"
    return "\n".join(
        [
            *lines,
            "",
            f"This requires `pip install 'pamd[{extras}]'`. `trained.representation` encodes observations, and"
            " `trained.distance` measures latents. `pamd eval DIRECTORY` evaluates the agent.",
        ]
    )


def _training(facts: CardFacts) -> str:
    config, budget = facts.config, facts.budget
    named = [name for name in ("pamd", "python", "torch") if facts.versions.get(name)]
    software = ", ".join(f"{name} {facts.versions[name]}" for name in named)
    lines = [
        f"{budget.decisions:,} of {config.decisions:,} decisions"
        f" ({budget.frames:,} frames, {budget.updates:,} updates)."
        " `config.json` holds every setting. Train the same agent again with",
        "",
        "```sh",
        f"pamd train --config config.json{trust_flag(config.env)}",
        "```",
    ]
    if config.env.distractor is not None and config.env.distractor.train:
        lines += ["", "The background videos are not included. `config.json` names them by their content."]
    return "\n".join([*lines, *(["", f"Software: {software}."] if software else [])])


def _task(config: TrainConfig) -> str:
    added = config.env.distractor or config.env.noise
    return config.env.task + (f"+{added.name}" if added else "")


def _mean_and_std(row: Mapping[str, Any], prefix: str, sign: str) -> str:
    if f"{prefix}return_mean" not in row:
        return ""
    return f"{row[f'{prefix}return_mean']:.1f} {sign} {row[f'{prefix}return_std']:.1f}"


def _select_rows(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Select at most `_ROWS` evenly spaced rows, including the last."""
    if len(rows) <= _ROWS:
        return list(rows)
    last = len(rows) - 1
    return [rows[round(i * last / (_ROWS - 1))] for i in range(_ROWS)]


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
