"use strict";
(() => {
  const LEVELS = 65535;
  const ANCHORS = ["1d1547", "153169", "015178", "077083", "01908d", "2eaf8b", "81c686", "c1da8e", "f9eda7"];
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const toBytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

  function show(value) {
    const size = Math.abs(value);
    return size >= 1000 && size < 1e7 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  }

  // part of the tensor: modes with a slider first, then those shown at once
  class View {
    constructor(about) {
      Object.assign(this, about);
      this.numbers = new Uint16Array(toBytes(about.values).buffer);
      this.bits = toBytes(about.observed);
      this.shown = this.modes.slice(this.sliders);
      this.shape = this.sizes.slice(this.sliders);
      this.length = this.shape.reduce((product, n) => product * n, 1);
    }
    isObserved(at) { return (this.bits[at >> 3] >> (at & 7)) & 1; }
    value(number) { return this.low * (1 - number / LEVELS) + this.high * (number / LEVELS); }
    stop(mode, indices) { return clamp(Math.round(indices[mode.mode] / mode.step), 0, mode.labels.length - 1); }
    offset(indices) {
      let flat = 0;
      for (let k = 0; k < this.sliders; k++) flat = flat * this.sizes[k] + this.stop(this.modes[k], indices);
      return flat * this.length;
    }
  }

  const content = JSON.parse(byId("data").textContent);
  const image = new View(content.image);
  const curve = new View(content.curve);
  const indices = []; // of every mode: the current index of both views
  for (const mode of [...curve.modes, ...image.modes]) {
    indices[mode.mode] = Math.floor(mode.labels.length / 2) * mode.step;
  }

  // images

  const isUp = byId("slices").dataset.up === "up";
  const [rows, columns] = image.shape;
  const channels = image.shape[2] || 1;
  const colours = makeColours();

  function makeColours() {
    const table = new Uint8Array(256 * 3);
    for (let level = 0; level < 256; level++) {
      const at = (level / 255) * (ANCHORS.length - 1);
      const first = Math.min(Math.floor(at), ANCHORS.length - 2);
      for (let k = 0; k < 3; k++) {
        const [a, b] = [first, first + 1].map((j) => parseInt(ANCHORS[j].slice(2 * k, 2 * k + 2), 16));
        table[3 * level + k] = Math.round(a + (at - first) * (b - a));
      }
    }
    return table;
  }

  const size = rows * columns * channels;
  let range = image.range; // of the numbers that the colours stand for

  function chooseRange() {
    range = image.range;
    if (!byId("shared").checked) {
      const start = image.offset(indices);
      const sorted = image.numbers.slice(start, start + size).sort();
      const ends = [0.01, 0.99].map((fraction) => sorted[Math.round(fraction * (size - 1))]);
      if (ends[1] > ends[0]) range = ends;
    }
    byId("low").textContent = show(image.value(range[0]));
    byId("high").textContent = show(image.value(range[1]));
  }

  function level(number) {
    const [low, high] = range;
    return clamp(Math.round((255 * (number - low)) / (high - low)), 0, 255);
  }

  function paint(id, hasMissing) {
    const canvas = byId(id);
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(columns, rows);
    const start = image.offset(indices);
    let nObserved = 0;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const at = start + (row * columns + column) * channels;
        const to = 4 * ((isUp ? rows - 1 - row : row) * columns + column);
        let visible = 0;
        for (let k = 0; k < channels; k++) {
          const isShown = !hasMissing || image.isObserved(at + k);
          visible |= isShown;
          nObserved += isShown ? 1 : 0;
          if (channels === 3) pixels.data[to + k] = isShown ? level(image.numbers[at + k]) : 0;
        }
        if (channels === 1) {
          const colour = 3 * level(image.numbers[at]);
          pixels.data.set(colours.subarray(colour, colour + 3), to);
        }
        pixels.data[to + 3] = visible ? 255 : 0;
      }
    }
    context.putImageData(pixels, 0, 0);
    if (hasMissing) byId("fraction").textContent = `, ${show((100 * nObserved) / size)}% observed`;
  }

  function prepareImages() {
    const isSpatial = document.querySelector(".pair").classList.contains("spatial");
    const aspect = clamp(columns / rows, isSpatial ? 0.4 : 0.8, isSpatial ? 3 : 2);
    for (const id of ["before", "after"]) {
      const canvas = byId(id);
      canvas.width = columns;
      canvas.height = rows;
      canvas.style.aspectRatio = String(aspect);
      canvas.addEventListener("pointermove", (event) => read(cellAt(event, canvas)));
      canvas.addEventListener("pointerleave", () => read(currentCell()));
      canvas.addEventListener("click", (event) => {
        const cell = cellAt(event, canvas);
        image.shown.slice(0, 2).forEach((mode, k) => { indices[mode.mode] = cell[k] * mode.step; });
        update();
      });
    }
    const strip = byId("colours").getContext("2d");
    const pixels = strip.createImageData(256, 1);
    for (let k = 0; k < 256; k++) {
      pixels.data.set(channels === 3 ? [k, k, k] : colours.subarray(3 * k, 3 * k + 3), 4 * k);
      pixels.data[4 * k + 3] = 255;
    }
    strip.putImageData(pixels, 0, 0);
    byId("shared").addEventListener("change", update);
  }

  function cellAt(event, canvas) {
    const box = canvas.getBoundingClientRect();
    const down = clamp(Math.floor(((event.clientY - box.top) / box.height) * rows), 0, rows - 1);
    const across = clamp(Math.floor(((event.clientX - box.left) / box.width) * columns), 0, columns - 1);
    return [isUp ? rows - 1 - down : down, across];
  }

  function currentCell() { return image.shown.slice(0, 2).map((mode) => image.stop(mode, indices)); }

  function read([row, column]) {
    const at = image.offset(indices) + (row * columns + column) * channels;
    const where = [row, column].map((stop, k) => `${image.shown[k].name} ${image.shown[k].labels[stop]}`);
    const what = Array.from({ length: channels }, (_, k) =>
      `${show(image.value(image.numbers[at + k]))}${image.isObserved(at + k) ? "" : " (imputed)"}`);
    byId("readout").textContent = `${where.join(", ")}: ${what.join(", ")}`;
  }

  // a frame around what the curve goes through: a pixel, or a whole row or column
  function frameCurve() {
    const along = curve.shown[0].mode;
    const sides = image.shown.slice(0, 2).map((mode, k) => {
      const n = [rows, columns][k];
      if (mode.mode === along) return [0, 100];
      const stop = image.stop(mode, indices);
      return [(100 * (k === 0 && isUp ? n - 1 - stop : stop)) / n, 100 / n];
    });
    for (const mark of document.querySelectorAll(".mark")) {
      const [top, height] = sides[0];
      const [left, width] = sides[1];
      Object.assign(mark.style, {
        top: `calc(${top + height / 2}% - max(${height / 2}%, 4px))`, height: `max(${height}%, 8px)`,
        left: `calc(${left + width / 2}% - max(${width / 2}%, 4px))`, width: `max(${width}%, 8px)`,
      });
    }
  }

  // the curve

  function niceTicks(low, high, count) {
    const span = high - low;
    if (!(span > 0 && Number.isFinite(span))) return [low];
    const unit = 10 ** Math.floor(Math.log10(span / count));
    const step = unit * ([1, 2, 5].find((factor) => span / (factor * unit) <= count) || 10);
    const ticks = [];
    for (let k = Math.ceil(low / step); k <= Math.floor(high / step); k++) ticks.push(k * step);
    return ticks;
  }

  function add(parent, name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  function drawCurve() {
    const box = byId("curve");
    const width = Math.max(280, box.clientWidth), height = clamp(width * 0.4, 210, 300);
    const [left, right, top, bottom] = [56, width - 12, 12, height - 42];
    const mode = curve.shown[0];
    const start = curve.offset(indices);
    const values = Array.from({ length: curve.length }, (_, k) => curve.value(curve.numbers[start + k]));
    let low = Math.min(...values), high = Math.max(...values);
    const margin = 0.06 * (high - low) || Math.abs(high) / 2 || 1;
    [low, high] = [low - margin, high + margin];
    const x = (index) => left + ((index + 0.5) / mode.size) * (right - left);
    const y = (value) => bottom + ((value - low) / (high - low)) * (top - bottom);
    const nObserved = values.filter((_, k) => curve.isObserved(start + k)).length;
    const where = curve.modes.slice(0, curve.sliders).map((other) => `${other.name} ${other.labels[curve.stop(other, indices)]}`);
    const title = `Values along ${mode.name} at ${where.join(", ")}: ${nObserved} of ${values.length} observed`;
    const svg = document.createElementNS(SVG, "svg");
    for (const [key, value] of Object.entries({ class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title })) svg.setAttribute(key, value);
    for (const tick of niceTicks(low, high, 5)) {
      add(svg, "line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) });
      add(svg, "text", { class: "end", x: left - 7, y: y(tick) + 4 }, show(tick));
    }
    let last = -Infinity;
    for (const [index, text] of mode.ticks) {
      const half = 3.1 * text.length;
      const middle = clamp(x(index), half, width - half);
      add(svg, "line", { class: "tick", x1: x(index), x2: x(index), y1: bottom, y2: bottom + 4 });
      if (middle - half < last + 6) continue;
      add(svg, "text", { class: "middle", x: middle, y: bottom + 17 }, text);
      last = middle + half;
    }
    add(svg, "line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom });
    add(svg, "text", { class: "middle name", x: (left + right) / 2, y: height - 7 }, mode.name);
    const isSlider = image.modes.slice(0, image.sliders).some((other) => other.mode === mode.mode);
    if (isSlider) add(svg, "line", { class: "now", x1: x(indices[mode.mode]), x2: x(indices[mode.mode]), y1: top, y2: bottom });
    const path = values.map((value, k) => `${k ? "L" : "M"}${x(k * mode.step).toFixed(1)} ${y(value).toFixed(1)}`);
    add(add(svg, "g", { class: "s0" }), "path", { class: "line", d: path.join("") });
    const dots = add(svg, "g", { class: "s1" });
    const radius = clamp((0.4 * (right - left)) / values.length, 1.8, 3).toFixed(1);
    values.forEach((value, k) => {
      if (curve.isObserved(start + k)) add(dots, "circle", { class: "dot", cx: x(k * mode.step).toFixed(1), cy: y(value).toFixed(1), r: radius });
    });
    box.replaceChildren(svg);
  }

  // sliders: one for each mode and view, two of the same mode move together

  function update() {
    for (const [name, view] of [["image", image], ["curve", curve]]) {
      for (const mode of view.modes.slice(0, view.sliders)) {
        const slider = byId(`${name}-${mode.mode}`);
        const stop = view.stop(mode, indices);
        if (Number(slider.value) !== stop) slider.value = stop;
        slider.setAttribute("aria-valuetext", mode.labels[stop]);
        slider.nextElementSibling.textContent = mode.labels[stop];
      }
    }
    chooseRange();
    paint("before", true);
    paint("after", false);
    read(currentCell());
    frameCurve();
    drawCurve();
  }

  function listen() {
    for (const [name, view] of [["image", image], ["curve", curve]]) {
      for (const mode of view.modes.slice(0, view.sliders)) {
        byId(`${name}-${mode.mode}`).addEventListener("input", (event) => {
          indices[mode.mode] = Number(event.target.value) * mode.step;
          update();
        });
      }
    }
    new ResizeObserver(drawCurve).observe(byId("curve"));
  }

  // light and dark; the choice is kept where the browser lets a file keep something

  function prepareTheme() {
    const button = byId("theme"), root = document.documentElement;
    const query = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : query.matches);
    const name = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colour scheme`); };
    try {
      const kept = localStorage.getItem("tensormend-theme");
      if (kept === "dark" || kept === "light") root.dataset.theme = kept;
    } catch { /* no storage: the choice lasts as long as the page */ }
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("tensormend-theme", root.dataset.theme); } catch { /* as above */ }
      name();
    });
    query.addEventListener("change", name);
    button.hidden = false;
    name();
  }

  function prepareCopy() {
    const button = byId("copy");
    if (!button) return;
    button.addEventListener("click", async () => {
      const code = document.querySelector("#code code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  prepareTheme();
  prepareCopy();
  prepareImages();
  listen();
  update();
})();
