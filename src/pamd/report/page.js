"use strict";
// Learning curves: one panel for each setting. Buttons hide methods, the x axis can change, and the pointer or arrow keys show values.
// Below them: videos that play together, and links that open what they lead to.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const UNITS = {
    decisions: "decisions",
    frames: "simulator frames",
    updates: "gradient updates",
    minutes: "wall time (minutes)",
  };
  const state = { unit: "decisions", seeds: false, hidden: new Set() };
  const darkPage = matchMedia("(prefers-color-scheme: dark)");
  const hue = (method) => (darkPage.matches ? method.dark : method.color);
  const NS = "http://www.w3.org/2000/svg";

  function element(name, attributes = {}, parent = null, text = null) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== null) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  const round = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3));
  const whole = (value) => Math.round(value).toLocaleString("en-US");
  function short(value) {
    for (const [size, letter] of [[1e6, "M"], [1e3, "k"]])
      if (Math.abs(value) >= size) return `${+(value / size).toPrecision(3)}${letter}`;
    return `${+value.toPrecision(3)}`;
  }

  // Round steps, about `count` of them.
  function ticks(low, high, count) {
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(at);
    return found;
  }

  const place = (point) => point[state.unit];
  const drawable = (points) => points.filter((point) => place(point) !== null);
  const visible = (panel) => panel.series.filter((series) => !state.hidden.has(series.label));

  function extent(panel) {
    let right = 0, low = 0, high = 0;
    // Hiding a method leaves the axes unchanged.
    for (const series of panel.series)
      for (const points of [series.points, ...(state.seeds ? series.seeds : [])])
        for (const point of drawable(points)) {
          right = Math.max(right, place(point));
          low = Math.min(low, point.mean - (point.error || 0));
          high = Math.max(high, point.mean + (point.error || 0));
        }
    return { right: right || 1, low, high: high === low ? low + 1 : high };
  }

  function draw(panel) {
    const width = Math.max(panel.box.clientWidth, 260), height = Math.min(340, Math.max(240, width * 0.62));
    const left = 52, bottom = height - 44, right = width - 22, top = 10;
    const range = extent(panel);
    const x = (value) => left + (value / range.right) * (right - left);
    const y = (value) => bottom - ((value - range.low) / (range.high - range.low)) * (bottom - top);
    panel.scale = { x, left, right, top, bottom };
    const svg = panel.svg;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    for (const value of ticks(range.low, range.high, 5)) {
      element("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" }, svg);
      element("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, svg, short(value));
    }
    for (const value of ticks(0, range.right, width < 420 ? 4 : 6)) {
      element("line", { x1: x(value), x2: x(value), y1: bottom, y2: bottom + 4, class: "axis" }, svg);
      element("text", { x: x(value), y: bottom + 18, "text-anchor": "middle" }, svg, short(value));
    }
    element("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }, svg);
    element("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle", class: "unit" }, svg, UNITS[state.unit]);
    const middle = (top + bottom) / 2;
    element("text", { x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` }, svg, "evaluation return");
    for (const series of visible(panel)) drawSeries(svg, series, x, y);
    const absent = visible(panel).filter((series) => !drawable(series.points).length);
    const why = state.unit === "minutes" ? "without a wall time in every run" : "not evaluated yet";
    panel.note.textContent = absent.length ? `Not drawn, ${why}: ${absent.map((series) => series.label).join(", ")}` : "";
    panel.cursor = element("line", { y1: top, y2: bottom, class: "cursor", visibility: "hidden" }, svg);
  }

  function drawSeries(svg, series, x, y) {
    const group = element("g", { class: "series", "data-label": series.label }, svg);
    const points = drawable(series.points);
    if (!points.length) return;
    const band = points.filter((point) => point.error !== null);
    if (band.length > 1) {
      const upper = band.map((p) => `${x(place(p))},${y(p.mean + p.error)}`);
      const lower = band.map((p) => `${x(place(p))},${y(p.mean - p.error)}`).reverse();
      element("polygon", { points: [...upper, ...lower].join(" "), fill: hue(series), opacity: 0.16 }, group);
    }
    const line = (list, attributes) =>
      element("polyline", {
        points: list.map((p) => `${x(place(p))},${y(p.mean)}`).join(" "),
        fill: "none", stroke: hue(series), "stroke-linejoin": "round", ...attributes,
      }, group);
    if (state.seeds) for (const seed of series.seeds) line(drawable(seed), { "stroke-width": 0.8, opacity: 0.6, class: "seed" });
    // The line is thin where seeds have ended: the mean is over fewer runs than before.
    const cut = points.findIndex((point) => point.seeds < series.runs);
    const all = cut < 0 ? points : points.slice(0, cut);
    line(all, { "stroke-width": 2.2, "stroke-dasharray": series.dashes || "none" });
    if (cut >= 0) line(points.slice(Math.max(cut - 1, 0)), { "stroke-width": 0.9, "stroke-dasharray": series.dashes || "none" });
    if (points.length === 1) element("circle", { cx: x(place(points[0])), cy: y(points[0].mean), r: 3, fill: hue(series) }, group);
  }

  // Show the values of all visible methods at the evaluation nearest to `at` (in pixels of the panel).
  function show(panel, at) {
    const steps = [...new Set(visible(panel).flatMap((series) => drawable(series.points).map(place)))].sort((a, b) => a - b);
    if (!steps.length) return hide(panel);
    const nearest = steps.reduce((best, step) => (Math.abs(panel.scale.x(step) - at) < Math.abs(panel.scale.x(best) - at) ? step : best));
    panel.at = nearest;
    const head = document.createElement("div");
    const rows = [head];
    for (const series of visible(panel)) {
      const before = drawable(series.points).filter((point) => place(point) <= nearest).at(-1);
      if (!before || (series.points.at(-1)[state.unit] ?? Infinity) < nearest) continue;
      if (rows.length === 1)
        head.textContent = `${whole(before.decisions)} decisions, ${whole(before.frames)} frames, ${whole(before.updates)} updates` +
          (before.minutes === null ? "" : `, ${round(before.minutes)} min`);
      const row = document.createElement("div");
      const patch = document.createElement("i");
      patch.style.background = hue(series);
      const error = before.error === null ? "" : ` ± ${round(before.error)}`;
      row.append(patch, `${series.label}: ${round(before.mean)}${error} (${before.seeds} of ${series.runs} seeds)`);
      rows.push(row);
    }
    panel.tip.replaceChildren(...rows);
    panel.tip.hidden = rows.length === 1;
    const pixel = panel.scale.x(nearest);
    panel.cursor.setAttribute("x1", pixel);
    panel.cursor.setAttribute("x2", pixel);
    panel.cursor.setAttribute("visibility", "visible");
    const room = panel.box.clientWidth - panel.tip.offsetWidth;
    panel.tip.style.top = `${panel.box.clientHeight - panel.note.offsetHeight}px`;
    panel.tip.style.left = `${Math.max(0, Math.min(room, pixel > panel.box.clientWidth / 2 ? pixel - panel.tip.offsetWidth - 12 : pixel + 12))}px`;
  }

  function hide(panel) {
    panel.tip.hidden = true;
    panel.at = undefined;
    panel.cursor.setAttribute("visibility", "hidden");
  }

  function listen(panel) {
    const point = (event) => show(panel, event.clientX - panel.svg.getBoundingClientRect().left);
    panel.svg.addEventListener("pointermove", point);
    panel.svg.addEventListener("pointerdown", point);
    panel.svg.addEventListener("pointerleave", () => hide(panel));
    panel.svg.addEventListener("blur", () => hide(panel));
    panel.svg.addEventListener("keydown", (event) => {
      const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!direction) return;
      event.preventDefault();
      const steps = [...new Set(panel.series.flatMap((series) => drawable(series.points).map(place)))].sort((a, b) => a - b);
      const next = steps.indexOf(panel.at) + direction;
      if (steps.length) show(panel, panel.scale.x(steps[Math.max(0, Math.min(steps.length - 1, next))]));
    });
  }

  function button(method, redraw) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "method";
    made.setAttribute("aria-pressed", "true");
    const swatch = element("svg", { width: 26, height: 10, "aria-hidden": "true" }, made);
    const line = element("line", { x1: 0, x2: 26, y1: 5, y2: 5, "stroke-width": 3, "stroke-dasharray": method.dashes || "none" }, swatch);
    const paint = () => line.setAttribute("stroke", hue(method));
    darkPage.addEventListener("change", paint);
    paint();
    made.append(method.label);
    made.addEventListener("click", () => {
      const shown = state.hidden.delete(method.label);
      if (!shown) state.hidden.add(method.label);
      made.setAttribute("aria-pressed", String(shown));
      redraw();
    });
    return made;
  }

  const point = ([decisions, frames, updates, minutes, mean, error, seeds]) =>
    ({ decisions, frames, updates, minutes, mean, error, seeds });
  const panels = data.panels.map((panel) => {
    const series = panel.series.map((one) => ({ ...one, points: one.points.map(point), seeds: one.seeds.map((seed) => seed.map(point)) }));
    const box = document.createElement("section");
    box.className = "panel";
    const title = document.createElement("h3");
    title.textContent = panel.title;
    const svg = element("svg", { tabindex: 0, role: "img", "aria-label": `Learning curves, ${panel.title}; arrow keys read values` });
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    tip.setAttribute("role", "status");
    const note = document.createElement("p");
    note.className = "note";
    box.append(title, svg, tip, note);
    document.getElementById("panels").append(box);
    return { ...panel, series, box, svg, tip, note };
  });
  const redraw = () => panels.forEach((panel) => { draw(panel); panel.tip.hidden = true; });
  panels.forEach(listen);
  document.getElementById("methods").append(...data.methods.map((method) => button(method, redraw)));
  for (const radio of document.querySelectorAll("input[name=unit]"))
    radio.addEventListener("change", () => { state.unit = radio.value; redraw(); });
  document.getElementById("seeds").addEventListener("change", (event) => { state.seeds = event.target.checked; redraw(); });
  let width = 0;
  new ResizeObserver(() => {
    if (document.body.clientWidth !== width) { width = document.body.clientWidth; redraw(); }
  }).observe(document.body);
  darkPage.addEventListener("change", redraw);
  redraw();

  for (const play of document.querySelectorAll("button.play")) {
    const recordings = [...play.parentElement.querySelectorAll("video")];
    play.hidden = false;
    play.addEventListener("click", () => {
      const playing = play.getAttribute("aria-pressed") === "true";
      play.setAttribute("aria-pressed", String(!playing));
      play.textContent = playing ? "Play together" : "Pause";
      for (const video of recordings) {
        if (playing) video.pause();
        else {
          video.currentTime = 0;
          video.play();
        }
      }
    });
  }

  // A link to a folded run opens it.
  function unfold() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", unfold);
  unfold();
})();
