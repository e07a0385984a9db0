"""Parsing of command line arguments."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from pamd.cli.main import COMMANDS, main
from pamd.cli.parser import Metavar, Without, bind, options, parser
from pamd.errors import ConfigError


@dataclass(frozen=True)
class Inner:
    depth: int = 1
    """How deep."""


@dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()
    rate: float = 0.5
    hidden: str | None = None


def command(
    name: str,
    /,
    sizes: tuple[int, ...] = (),
    kind: Literal["fast", "slow"] = "fast",
    outer: Annotated[Outer, Without(("hidden",))] = Outer(),  # noqa: B008
    set_: Annotated[tuple[str, ...], Metavar("KEY=VALUE")] = (),
    count: int | None = None,
    video: bool = True,
    plan: bool = False,
) -> dict[str, Any]:
    """Do it.

    Args:
        name: its name
        count: how many
            there are (default: all)
        video: record a video
    """
    return locals()


def call(*words: str) -> dict[str, Any]:
    made: dict[str, Any] = bind("pamd do", command, words)()
    return made


def test_values_reach_their_parameters() -> None:
    made = call("x", "--sizes", "1", "2", "--depth", "3", "--rate=0.25", "--set", "a=1", "b=2", "--no-video", "--plan")
    assert made["name"] == "x"
    assert made["sizes"] == (1, 2)
    assert made["outer"] == Outer(Inner(3), 0.25)
    assert made["set_"] == ("a=1", "b=2")
    assert (made["video"], made["plan"], made["count"], made["kind"]) == (False, True, None, "fast")
    assert call("x", "--video")["video"] is True


def test_a_repeated_list_option_adds_its_values() -> None:
    assert call("x", "--set", "a=1", "--set", "b=2", "c=3")["set_"] == ("a=1", "b=2", "c=3")


@pytest.mark.parametrize(("text", "value"), [("100000", 100_000), ("1e5", 100_000), ("2.5e3", 2500), ("1_000", 1000)])
def test_counts_may_be_written_short(text: str, value: int) -> None:
    assert call("x", "--count", text)["count"] == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "do: NAME is required; see `pamd do --help`"),
        (["x", "y"], "do: unexpected argument 'y'; see `pamd do --help`"),
        (["x", "--cuont", "3"], "do: unknown option --cuont. Did you mean --count?"),
        (["x", "--quiet"], "do: unknown option --quiet. See `pamd do --help`."),
        (["x", "--steps", "3"], "do: unknown option --steps. See `pamd do --help`."),
        (["x", "--hidden", "3"], "do: unknown option --hidden. See `pamd do --help`."),
        (["x", "--count"], "do: --count: expected one argument; see `pamd do --help`"),
        (["x", "--count", "many"], "--count must be a whole number, e.g. 50000 or 5e4, got 'many'"),
        (["x", "--count", "1.5"], "--count must be a whole number, e.g. 50000 or 5e4, got '1.5'"),
        (["x", "--count", "inf"], "--count must be a whole number, e.g. 50000 or 5e4, got 'inf'"),
        (["x", "--rate", "half"], "--rate must be a number, got 'half'"),
        (["x", "--kind", "slwo"], "unknown --kind 'slwo'. Did you mean 'slow'? Valid: fast, slow."),
    ],
)
def test_an_error_is_one_line(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call(*words)
    assert str(caught.value) == message


def test_help_shows_groups_meanings_and_defaults() -> None:
    text = parser("pamd do", command, {"size": ("sizes", "depth")}).format_help()
    assert text.startswith("usage: pamd do NAME [options]\n\nDo it.\n")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines.index("size:") < lines.index("--sizes [N ...]") < lines.index("options:") < lines.index("outer:")
    assert "--depth N How deep (default: 1)" in lines
    assert "--kind fast|slow (default: fast)" in lines
    assert "--count N how many there are (default: all)" in lines
    assert "--no-video do not record a video" in lines
    assert "None" not in text


def functions() -> list[tuple[str, Any, Any]]:
    found = []
    for name, (location, attribute, _) in COMMANDS.items():
        module = importlib.import_module(location)
        function = getattr(module, attribute)
        parts = function.items() if isinstance(function, dict) else [("", function)]
        groups = getattr(module, "GROUPS", {}).get(attribute)
        found += [(f"{name} {part}".strip(), one, groups) for part, one in parts]
    return found


@pytest.mark.parametrize(("name", "function", "groups"), functions(), ids=lambda value: value if value else "")
def test_every_option_has_a_meaning_and_one_name(name: str, function: Any, groups: Any) -> None:
    known = options(function, groups)
    assert len({option.name for option in known}) == len(known)
    assert [option.name for option in known if not option.meaning and name != "report"] == []
    named = {option.path[-1] for option in known}
    assert [
        word for words in (groups or {}).values() for word in words if word not in named | {"tensorboard", "wandb"}
    ] == []


def test_without_a_command_the_first_three_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[3:6]] == [
        ["pamd", "train"], ["pamd", "eval"], ["pamd", "report"],
    ]  # fmt: skip


def test_a_command_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose"]) == 2
    assert "  residual " in capsys.readouterr().out
    assert main(["diagnose", "residaul"]) == 2
    assert capsys.readouterr().err.startswith("pamd: unknown diagnose command 'residaul'. Did you mean 'residual'?")
    assert main(["diagnose", "geometry", "--help"]) == 0
    assert "usage: pamd diagnose geometry RUN [options]" in capsys.readouterr().out


def test_settings_take_short_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "--tasks", "toy", "--methods", "sac", "--plan", "--runs", str(tmp_path)]
    assert main([*words, "--scale", "smoke", "--set", "decisions=1e3", "evaluate_every=5e2"]) == 0
    assert "1,000" in capsys.readouterr().err
