"""The page in a real browser: no console messages, no network requests, and working controls."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.runs import write_run

from pamd import published
from pamd.report import page as report
from pamd.training.evaluate import write_video

pytestmark = pytest.mark.slow

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
METHODS = ["dbc-det", "dbc-det+pamd", "simsr+pamd"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright")
    program = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("the browser test needs chromium on the path (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods, two tasks, three seeds; one seed stopped early, one has no wall time, one task has videos."""
    root = tmp_path_factory.mktemp("browser")
    recorded = root / "video"
    recorded.mkdir()
    frames = [np.full((64, 64, 3), 4 * step, np.uint8) for step in range(60)]
    write_video(recorded / "000008000.mp4", frames, 10)
    for row, task in enumerate(("cheetah_run", "walker_walk")):
        for rise, method in enumerate(METHODS, start=1):
            for seed in range(3):
                values = [float(20 * rise * step + 30 * seed + 100 * row) for step in range(9)]
                stopped = (method, task, seed) == ("dbc-det", "walker_walk", 2)
                timing = (method, seed) != ("simsr+pamd", 0)
                changes = {"env__task": task, "decisions": 8000}
                values = values[:5] if stopped else values
                run = write_run(root / "runs", method, seed, values, timing=timing, **changes)
                if task == "cheetah_run":
                    shutil.copytree(recorded, run / "video")
    return report.build([root / "runs"], root / "out", title="Browser", published=published.load("table1"))


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["1280-light", "390-dark"])
def opened(browser: Any, written: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    width, scheme = request.param
    view = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    said: list[str] = []
    view.on("console", lambda message: said.append(message.text))
    view.on("pageerror", lambda error: said.append(str(error)))
    view.on("requestfailed", lambda request: said.append(f"failed: {request.url[:80]}"))
    view.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
    view.goto(written.as_uri())
    view.wait_for_selector(".panel polyline")
    yield view
    view.close()
    assert said == []


def test_nothing_is_wider_than_the_screen_and_text_is_large_enough(opened: Any) -> None:
    wide = opened.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0
    outside = """[...document.querySelectorAll('.panel svg')].flatMap((svg) => {
      const box = svg.getBoundingClientRect();
      return [...svg.querySelectorAll('text')].filter((text) => {
        const own = text.getBoundingClientRect();
        return own.left < box.left - 1 || own.right > box.right + 1 || own.bottom > box.bottom + 1 || own.height < 10;
      }).map((text) => text.textContent);
    })"""
    assert opened.evaluate(outside) == []


def test_every_table_shows_all_of_its_columns_on_a_desktop(opened: Any) -> None:
    if opened.viewport_size["width"] < 1280:
        pytest.skip("a phone scrolls wide tables")
    opened.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    tables = "[...document.querySelectorAll('.wide')].map((one) => [one.ariaLabel, one.scrollWidth - one.clientWidth])"
    found = dict(opened.evaluate(tables))
    assert {"All results", "Compared with the paper", "Returns at cpu scale"} <= set(found)
    assert {name: hidden for name, hidden in found.items() if hidden > 0} == {}


CONTRAST = """() => {
  const channels = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255);
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (color) => channels(color).map(linear).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const page = light(getComputedStyle(document.body).backgroundColor);
  const ratio = (color) => (Math.max(light(color), page) + 0.05) / (Math.min(light(color), page) + 0.05);
  const lowest = (query, part) =>
    Math.min(...[...document.querySelectorAll(query)].map((one) => ratio(getComputedStyle(one)[part])));
  return {
    text: lowest("p, td, th, h1, h2, h3, dt, dd, a, summary, figcaption", "color"),
    labels: lowest(".panel text", "fill"),
    curves: lowest(".panel polyline", "stroke"),
    page,
  };
}"""


def test_text_and_curves_can_be_read_in_both_color_schemes(opened: Any) -> None:
    found = opened.evaluate(CONTRAST)
    assert (found["page"] > 0.5) == (opened.viewport_size["width"] == 1280)  # the other page is dark
    assert found["text"] >= 4.5
    assert found["labels"] >= 4.5
    assert found["curves"] >= 2  # light blue on white is the faintest


def test_a_figure_follows_the_color_scheme(opened: Any) -> None:
    """The profile is an SVG without a background; the text in it is dark on a light page and light on a dark one."""
    picture = opened.locator("figure img:not(.card)").first
    picture.scroll_into_view_if_needed()
    lightness = """async (image) => {
      await image.decode();
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
      const context = canvas.getContext('2d');
      context.drawImage(image, 0, 0);
      const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
      const gray = [];
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 250 && data[i] === data[i + 1] && data[i] === data[i + 2]) gray.push(data[i]);
      return gray.sort((a, b) => a - b)[gray.length >> 1];
    }"""
    light = opened.viewport_size["width"] == 1280
    assert picture.evaluate(lightness) == (0x1B if light else 0xE6)


def wait_until(page: Any, condition: str) -> None:
    """Wait until a condition in JavaScript holds. Playwright's own function evaluates text, which the page forbids."""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"still not true: {condition}")


def test_videos_of_one_seed_play_together(opened: Any) -> None:
    row = opened.locator(".together").first
    assert row.locator("video").count() == 3
    first, second = (row.locator("figure").nth(index).bounding_box() for index in (0, 1))
    assert first["y"] == second["y"]
    assert first["x"] + first["width"] <= second["x"]
    times = "[...document.querySelector('.together').querySelectorAll('video')].map((one) => one.currentTime)"
    button = row.get_by_role("button")
    button.click()
    wait_until(opened, f"{times}.every((time) => time > 0)")
    assert button.inner_text() == "Pause"
    button.click()
    assert opened.evaluate("[...document.querySelectorAll('.together video')].every((one) => one.paused)")


def test_a_caption_leads_to_the_config_and_command_of_its_run(opened: Any) -> None:
    opened.locator(".together figcaption a").first.click()
    assert opened.evaluate("location.hash").startswith("#run-cheetah_run_dbc-det_s0")
    command = opened.locator("details[id^='run-'][open] pre").first
    assert command.is_visible()
    assert command.inner_text().startswith("pamd train --config configs/cheetah_run_dbc-det_s0")


def test_tick_labels_do_not_overlap(opened: Any) -> None:
    overlaps = """[...document.querySelectorAll('.panel svg')].flatMap((svg) => {
      const boxes = [...svg.querySelectorAll('text')].map((text) => text.getBoundingClientRect());
      return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
        a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
    }).length"""
    for unit in ("decisions", "frames", "updates", "minutes"):
        opened.check(f"input[name=unit][value={unit}]")
        assert opened.evaluate(overlaps) == 0


def test_methods_can_be_switched_off_and_on(opened: Any) -> None:
    shown = "[...document.querySelectorAll('.panel:first-child g.series')].map((g) => g.dataset.label)"
    assert opened.evaluate(shown) == METHODS
    button = opened.get_by_role("button", name="dbc-det+pamd")
    button.click()
    assert opened.evaluate(shown) == ["dbc-det", "simsr+pamd"]
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert opened.evaluate(shown) == METHODS


def test_the_axis_changes_its_unit_and_its_numbers(opened: Any) -> None:
    panel = opened.locator(".panel svg").first
    labels = {}
    for unit in ("decisions", "frames", "updates", "minutes"):
        opened.check(f"input[name=unit][value={unit}]")
        labels[unit] = panel.locator("text.unit").text_content()
        assert panel.locator("g.series polyline").count() == (2 if unit == "minutes" else 3)
    assert list(labels.values()) == ["decisions", "simulator frames", "gradient updates", "wall time (minutes)"]
    note = opened.locator(".panel .note").first
    assert note.inner_text() == "Not drawn, without a wall time in every run: simsr+pamd"
    opened.check("input[name=unit][value=frames]")
    assert note.inner_text() == ""
    ticks = panel.locator("text").all_text_contents()
    assert "60k" in ticks  # 8000 decisions of 8 frames each


def test_each_seed_can_be_shown(opened: Any) -> None:
    opened.check("#seeds")
    assert opened.locator(".panel").first.locator("polyline.seed").count() == 9
    opened.uncheck("#seeds")
    assert opened.locator("polyline.seed").count() == 0


def test_values_can_be_read_with_the_pointer_and_with_keys(opened: Any) -> None:
    panel = opened.locator(".panel").nth(1)
    svg, tip = panel.locator("svg"), panel.locator(".tip")
    svg.scroll_into_view_if_needed()
    assert not tip.is_visible()
    box = svg.bounding_box()
    opened.mouse.move(box["x"] + box["width"] - 24, box["y"] + box["height"] / 2)
    text = tip.inner_text()
    assert "8,000 decisions, 64,000 frames, 8,000 updates" in text
    assert "dbc-det: 275 ± 15.0 (2 of 3 seeds)" in text  # the third seed stopped at 4000, and is not carried on
    assert "simsr+pamd: 610 ± 17.3 (3 of 3 seeds)" in text
    opened.mouse.move(0, 0)
    assert not tip.is_visible()
    svg.focus()
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowRight")
    assert "1,000 decisions" in tip.inner_text()
    assert "dbc-det: 150 ± 17.3 (3 of 3 seeds)" in tip.inner_text()


def test_the_tip_covers_no_curve_of_its_panel(opened: Any) -> None:
    panel = opened.locator(".panel").first
    svg = panel.locator("svg")
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    for share in (0.2, 0.5, 0.9):
        opened.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
        tip, now = panel.locator(".tip").bounding_box(), svg.bounding_box()
        assert tip["y"] >= now["y"] + now["height"] - 1
        assert tip["x"] >= 0
        assert tip["x"] + tip["width"] <= opened.viewport_size["width"]


def test_a_changed_window_is_drawn_anew(opened: Any) -> None:
    opened.set_viewport_size({"width": 700, "height": 800})
    wait_until(opened, "document.querySelector('.panel svg').viewBox.baseVal.width <= 700")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 700
