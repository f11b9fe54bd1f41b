// Interactive figures of many points: pan, zoom, hover and search, by mouse, touch or keyboard.
"use strict";

const MAX_CIRCLES = 6000; // more points in view are shown as a density
const BIN = 2; // side of a cell of the density, in pixels
const REACH = 16; // a point is selected within this distance, in pixels
const MAX_LABELS = 220;
const MATCHES = 12; // matches listed at first, and more for each request

function decoded(text, type) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new type(bytes.buffer);
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function shown(number) {
  return String(number).replace("-", "−");
}

// Keeps Arabic or Hebrew from reordering what is around it: "source → target" would show the target first.
function isolated(text) {
  return /[\u0590-\u08ff\ufb1d-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text;
}

class Scatter {
  constructor(figure, data) {
    this.figure = figure;
    this.data = data;
    this.x = decoded(data.x, Float32Array);
    this.y = decoded(data.y, Float32Array);
    this.columns = data.columns.map((column) => ({
      strings: column.strings.split("\n"),
      index: column.index ? decoded(column.index, Int32Array) : null,
    }));
    this.neighbours = data.neighbours ? decoded(data.neighbours, Int32Array) : null;
    this.similarities = data.neighbours ? decoded(data.similarities, Float32Array) : null;
    this.groups = data.groups ? decoded(data.groups, Uint8Array) : null;
    this.matches = [];
    this.chosen = -1;
    this.pointers = new Map();
    this.build(figure.getAttribute("aria-label"));
    this.show(data.view || this.all());
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  build(name) {
    const tool = (text, label, act) => element("button", {type: "button", textContent: text, ariaLabel: label,
      onclick: act});
    this.input = element("input", {type: "search", autocomplete: "off", spellcheck: false});
    this.input.addEventListener("input", () => this.search(this.input.value));
    this.canvas = element("canvas", {tabIndex: 0});
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `${name}. Arrow keys move, plus and minus zoom, 0 shows all, Enter reads ` +
      "the point nearest to the middle.");
    this.tip = element("div", {className: "tip", hidden: true});
    this.reading = element("output", {className: "reading"});
    this.found = element("ul", {className: "found"});
    this.near = element("div");
    const tools = element("div", {className: "tools"}, element("label", {}, `Search in ${this.x.length.toLocaleString("en")} ` +
      this.data.unit, this.input), tool("+", "Zoom in", () => this.zoom(1.6)), tool("−", "Zoom out",
      () => this.zoom(1 / 1.6)), tool("All", "Show all points", () => this.reset()));
    if (this.data.view) {
      tools.append(tool("Most", "Show most points (the initial view)", () => this.show(this.data.view)));
    }
    for (const region of this.data.regions) {
      tools.append(tool(region.name, `Zoom to region ${region.name}`, () => this.show(region.box)));
    }
    const hint = "Drag to move. Click, then scroll to zoom. Click a point to select it.";
    this.figure.prepend(tools, element("div", {className: "plane"}, this.canvas, this.tip),
      element("p", {className: "hint", textContent: hint}), this.reading, this.found, this.near);
    this.context = this.canvas.getContext("2d");
    this.layer = document.createElement("canvas");
    this.listen();
  }

  listen() {
    const {canvas} = this;
    const place = (event) => {
      const frame = canvas.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, place(event));
      this.moved = false;
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = place(event);
      const before = this.pointers.get(event.pointerId);
      if (!before) {
        this.point(this.nearest(...now), now);
        return;
      }
      if (this.pointers.size === 2) {
        const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
        const ratio = Math.hypot(now[0] - other[0], now[1] - other[1]) /
          Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1]));
        this.zoom(ratio, (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      } else if (this.moved || Math.hypot(now[0] - before[0], now[1] - before[1]) > 3) {
        this.moved = true;
        this.pan(now[0] - before[0], now[1] - before[1]);
      } else {
        return;
      }
      this.pointers.set(event.pointerId, now);
    });
    const release = (event) => {
      if (this.pointers.delete(event.pointerId) && event.type === "pointerup" && !this.moved) {
        canvas.focus({preventScroll: true});
        this.choose(this.nearest(...place(event)));
      }
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => this.point(-1));
    canvas.addEventListener("wheel", (event) => {
      if (document.activeElement === canvas || event.ctrlKey) {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 400), ...place(event));
      }
    }, {passive: false});
    canvas.addEventListener("keydown", (event) => {
      const step = 60;
      const act = {
        ArrowLeft: () => this.pan(step, 0), ArrowRight: () => this.pan(-step, 0),
        ArrowUp: () => this.pan(0, step), ArrowDown: () => this.pan(0, -step),
        "+": () => this.zoom(1.6), "=": () => this.zoom(1.6), "-": () => this.zoom(1 / 1.6), "0": () => this.reset(),
        Enter: () => this.choose(this.nearest(this.width / 2, this.height / 2, Infinity)),
      }[event.key];
      if (act && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        act();
      }
    });
  }

  // The view: the data coordinates of the middle of the plane, and the pixels per unit.
  all() {
    let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < this.x.length; i++) {
      left = Math.min(left, this.x[i]);
      right = Math.max(right, this.x[i]);
      bottom = Math.min(bottom, this.y[i]);
      top = Math.max(top, this.y[i]);
    }
    return [left, bottom, right, top];
  }

  reset() {
    this.show(this.all());
  }

  show(box) {
    this.box = box;
    if (!this.width) {
      return;
    }
    const [left, bottom, right, top] = box;
    this.middle = [(left + right) / 2, (bottom + top) / 2];
    this.scale = this.filling(box);
    this.home ??= this.filling(this.all());
    this.draw();
  }

  // The scale at which a box fills the plane.
  filling([left, bottom, right, top]) {
    const {width, height} = this.plane;
    const scale = [0.94 * width / Math.max(right - left, 1e-6), 0.94 * height / Math.max(top - bottom, 1e-6)];
    return this.data.axes ? scale : scale.fill(Math.min(...scale));
  }

  pan(right, down) {
    this.middle[0] -= right / this.scale[0];
    this.middle[1] += down / this.scale[1];
    this.draw();
  }

  zoom(ratio, right = this.plane.left + this.plane.width / 2, down = this.plane.top + this.plane.height / 2) {
    const most = Math.max(...this.scale.map((scale, i) => scale * ratio / this.home[i]));
    if (most > 4000 || most < 0.3) {
      return;
    }
    const [x, y] = this.data_at(right, down);
    this.scale = this.scale.map((scale) => scale * ratio);
    this.middle = [x - (right - this.centre[0]) / this.scale[0], y + (down - this.centre[1]) / this.scale[1]];
    this.draw();
  }

  data_at(right, down) {
    return [this.middle[0] + (right - this.centre[0]) / this.scale[0],
      this.middle[1] - (down - this.centre[1]) / this.scale[1]];
  }

  place(i) {
    return [this.centre[0] + (this.x[i] - this.middle[0]) * this.scale[0],
      this.centre[1] - (this.y[i] - this.middle[1]) * this.scale[1]];
  }

  nearest(right, down, reach = REACH) {
    let best = -1;
    let least = reach * reach;
    const [x, y] = this.data_at(right, down);
    for (let i = 0; i < this.x.length; i++) {
      const across = (this.x[i] - x) * this.scale[0];
      const along = (this.y[i] - y) * this.scale[1];
      const distance = across * across + along * along;
      if (distance < least) {
        [best, least] = [i, distance];
      }
    }
    return best;
  }

  part(column, i) {
    return column.strings[column.index ? column.index[i] : i];
  }

  label(i) {
    return this.columns.map((column) => isolated(this.part(column, i))).join(" → ");
  }

  described(i) {
    const {axes} = this.data;
    return this.label(i) + (axes ? `\n${axes.x.short} ${shown(this.x[i].toFixed(2))}, ${axes.y.short} ${shown(this.y[i].toFixed(2))}` : "");
  }

  point(i, at) {
    this.tip.hidden = i < 0;
    if (i >= 0) {
      this.tip.textContent = this.described(i);
      const [right, down] = at || this.place(i);
      const left = Math.min(right + 12, this.width - this.tip.offsetWidth - 4);
      const below = down + 14 + this.tip.offsetHeight < this.height;
      this.tip.style.left = `${Math.max(4, left)}px`;
      this.tip.style.top = `${Math.max(4, below ? down + 14 : down - 10 - this.tip.offsetHeight)}px`;
    }
  }

  choose(i) {
    this.chosen = i;
    this.reading.textContent = i < 0 ? "" : this.described(i).replace("\n", "; ");
    this.near.replaceChildren();
    if (i >= 0 && this.neighbours) {
      const count = this.neighbours.length / this.x.length;
      const list = element("ul", {className: "found"});
      for (let k = i * count; k < (i + 1) * count; k++) {
        list.append(this.button(this.neighbours[k], this.similarities[k].toFixed(2)));
      }
      this.near.append(element("p", {textContent: "Nearest neighbours by cosine similarity:", className: "hint"}), list);
    }
    this.draw();
  }

  button(i, note) {
    const made = element("button", {type: "button", textContent: this.label(i), onclick: () => this.visit(i)});
    if (note) {
      made.append(element("small", {textContent: note}));
    }
    return element("li", {}, made);
  }

  visit(i) {
    this.scale = this.scale.map((scale, axis) => Math.max(scale, 4 * this.home[axis]));
    this.middle = [this.x[i], this.y[i]];
    this.choose(i);
    this.point(i);
  }

  search(text) {
    const sought = text.trim().toLowerCase();
    this.matches = [];
    this.found.replaceChildren();
    if (sought) {
      // 0: equal, 1: has it as words, 2: begins with it, 3: contains it, 4: does not.
      const rank = (text) => text === sought ? 0 : ` ${text} `.includes(` ${sought} `) ? 1 : text.startsWith(sought) ? 2 :
        text.includes(sought) ? 3 : 4;
      const ranks = this.columns.map((column) => column.strings.map((text) => rank(text.toLowerCase())));
      const best = [[], [], [], []];
      for (let i = 0; i < this.x.length; i++) {
        const least = Math.min(...this.columns.map((column, c) => ranks[c][column.index ? column.index[i] : i]));
        if (least < best.length) {
          best[least].push(i);
        }
      }
      this.matches = best.flat();
      this.list(0);
    }
    const number = this.matches.length.toLocaleString("en");
    this.reading.textContent = sought ? `${number} of ${this.x.length.toLocaleString("en")} match` : "";
    this.draw();
  }

  list(start) {
    const end = start + MATCHES * (start ? 4 : 1);
    this.matches.slice(start, end).forEach((i) => this.found.append(this.button(i)));
    if (end < this.matches.length) {
      const left = (this.matches.length - end).toLocaleString("en");
      const more = element("li", {}, element("button", {type: "button", textContent: `Show more (${left} left)`,
        onclick: () => {
          more.remove();
          this.list(end);
          this.found.children[end].firstChild.focus();
        }}));
      this.found.append(more);
    }
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!width || width === this.width && height === this.height) {
      return;
    }
    const first = !this.width;
    [this.width, this.height, this.ratio] = [width, height, ratio];
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const margins = this.data.axes ? {left: 54, right: 10, top: 10, bottom: 46} : {left: 0, right: 0, top: 0, bottom: 0};
    this.plane = {left: margins.left, top: margins.top, width: width - margins.left - margins.right,
      height: height - margins.top - margins.bottom};
    this.centre = [this.plane.left + this.plane.width / 2, this.plane.top + this.plane.height / 2];
    if (first) {
      this.show(this.box);
    } else {
      this.draw();
    }
  }

  draw() {
    if (this.width && !this.waiting) {
      this.waiting = requestAnimationFrame(() => {
        this.waiting = 0;
        this.paint();
      });
    }
  }

  paint() {
    const {context, plane} = this;
    const style = getComputedStyle(this.figure);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.save();
    context.beginPath();
    context.rect(plane.left, plane.top, plane.width, plane.height);
    context.clip();
    if (this.data.axes) {
      this.grid(colour);
    }
    const inside = [];
    for (let i = 0; i < this.x.length; i++) {
      const [right, down] = this.place(i);
      if (right > plane.left - 4 && right < this.width + 4 && down > -4 && down < plane.top + plane.height + 4) {
        inside.push(i);
      }
    }
    if (inside.length > MAX_CIRCLES) {
      this.density(inside, colour("shade"));
    } else {
      context.globalAlpha = inside.length > 1500 ? 0.5 : 0.75;
      const radius = inside.length > 1500 ? 2.2 : 3.2;
      if (this.groups) {
        for (let group = Math.max(...this.groups); group >= 0; group--) {
          this.circles(inside.filter((i) => this.groups[i] === group), colour(`group-${group}`), radius);
        }
      } else {
        this.circles(inside, colour("point"), radius);
      }
      context.globalAlpha = 1;
    }
    this.circles(this.matches.slice(0, 5000), colour("match"), 4);
    if (this.chosen >= 0) {
      const near = this.neighbours ? this.neighbours.length / this.x.length : 0;
      this.circles(this.neighbours ? this.neighbours.subarray(this.chosen * near, (this.chosen + 1) * near) : [],
        colour("chosen"), 5);
      this.circles([this.chosen], colour("match"), 6);
    }
    if (!this.data.axes) {
      this.labels(inside, colour);
    }
    context.restore();
    if (this.data.axes) {
      this.axes(colour);
    }
    this.figure.dataset.painted = inside.length;
  }

  circles(indices, fill, radius) {
    const {context} = this;
    context.fillStyle = fill;
    for (const i of indices) {
      const [right, down] = this.place(i);
      context.beginPath();
      context.arc(right, down, radius, 0, 7);
      context.fill();
    }
  }

  density(inside, shade) {
    const {plane, layer} = this;
    const [columns, rows] = [Math.ceil(plane.width / BIN), Math.ceil(plane.height / BIN)];
    const counts = new Uint32Array(columns * rows);
    let most = 1;
    for (const i of inside) {
      const [right, down] = this.place(i);
      const column = Math.floor((right - plane.left) / BIN);
      const row = Math.floor((down - plane.top) / BIN);
      if (column >= 0 && column < columns && row >= 0 && row < rows) {
        most = Math.max(most, ++counts[row * columns + column]);
      }
    }
    [layer.width, layer.height] = [columns, rows];
    const context = layer.getContext("2d");
    const image = context.createImageData(columns, rows);
    const [red, green, blue] = shade.split(",").map(Number);
    for (let cell = 0; cell < counts.length; cell++) {
      if (counts[cell]) {
        const share = 0.45 + 0.55 * Math.log(counts[cell]) / Math.max(Math.log(most), 1);
        image.data.set([red, green, blue, 255 * Math.min(1, share)], 4 * cell);
      }
    }
    context.putImageData(image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(layer, plane.left, plane.top, columns * BIN, rows * BIN);
  }

  labels(inside, colour) {
    const {context} = this;
    const taken = new Set();
    const [cell, line] = [14, 16];
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.strokeStyle = colour("paper");
    context.fillStyle = colour("ink");
    let shown = 0;
    const wanted = this.chosen >= 0 ? [this.chosen, ...this.matches.slice(0, 40), ...inside] : [...this.matches.slice(0, 40), ...inside];
    for (const i of wanted) {
      const [right, down] = this.place(i);
      const characters = this.label(i).match(/\P{M}\p{M}*|\p{M}+/gu) ?? [];  // letters with their combining marks
      const text = characters.length > 34 ? `${characters.slice(0, 33).join("")}…` : characters.join("");
      const width = context.measureText(text).width + 8;
      const left = right + 6 + width < this.width ? right + 6 : right - 6 - width;
      const cells = [];
      for (let across = Math.floor(left / cell); across <= Math.floor((left + width) / cell); across++) {
        for (let along = Math.floor((down - line / 2) / cell); along <= Math.floor((down + line / 2) / cell); along++) {
          cells.push(across * 4096 + along);
        }
      }
      if (left >= 0 && cells.every((cell) => !taken.has(cell))) {
        cells.forEach((cell) => taken.add(cell));
        context.strokeText(text, left, down);
        context.fillText(text, left, down);
        if (++shown === MAX_LABELS) {
          return;
        }
      }
    }
  }

  ticks(low, high, most) {
    const rough = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough);
    const found = [];
    for (let number = Math.ceil(low / step); number * step <= high; number++) {
      found.push(Number((number * step).toPrecision(10)));
    }
    return found;
  }

  frame() {
    const {plane} = this;
    const [left, top] = this.data_at(plane.left, plane.top);
    const [right, bottom] = this.data_at(plane.left + plane.width, plane.top + plane.height);
    return {left, right, bottom, top, across: this.ticks(left, right, plane.width / 80),
      along: this.ticks(bottom, top, plane.height / 60)};
  }

  grid(colour) {
    const {context, plane} = this;
    const {left, right, across, along} = this.frame();
    const x = (value) => this.centre[0] + (value - this.middle[0]) * this.scale[0];
    const y = (value) => this.centre[1] - (value - this.middle[1]) * this.scale[1];
    context.strokeStyle = colour("line");
    context.lineWidth = 1;
    context.beginPath();
    across.forEach((value) => { context.moveTo(x(value), plane.top); context.lineTo(x(value), plane.top + plane.height); });
    along.forEach((value) => { context.moveTo(plane.left, y(value)); context.lineTo(plane.left + plane.width, y(value)); });
    context.stroke();
    context.strokeStyle = colour("soft");
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(x(left), y(left));
    context.lineTo(x(right), y(right));
    context.stroke();
    context.setLineDash([]);
  }

  axes(colour) {
    const {context, plane, data} = this;
    const {across, along} = this.frame();
    context.fillStyle = colour("ink");
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "top";
    const bottom = plane.top + plane.height;
    across.forEach((value) => context.fillText(shown(value), this.centre[0] + (value - this.middle[0]) * this.scale[0], bottom + 5));
    context.fillText(data.axes.x.label, this.centre[0], bottom + 25);
    context.textAlign = "right";
    context.textBaseline = "middle";
    along.forEach((value) => context.fillText(shown(value), plane.left - 6, this.centre[1] - (value - this.middle[1]) * this.scale[1]));
    context.save();
    context.translate(12, this.centre[1]);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(data.axes.y.label, 0, 0);
    context.restore();
    context.textAlign = "left";
    context.strokeStyle = colour("soft");
    context.strokeRect(plane.left + 0.5, plane.top + 0.5, plane.width - 1, plane.height - 1);
  }
}

// The figures are made one by one after the page is shown, so that nothing waits for all of them.
async function make([figure, ...others]) {
  if (figure) {
    const packed = decoded(document.getElementById(figure.dataset.source).textContent, Uint8Array);
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    new Scatter(figure, await new Response(unpacked).json());
    setTimeout(() => make(others));
  }
}

requestAnimationFrame(() => setTimeout(() => make([...document.querySelectorAll("figure.scatter")])));
