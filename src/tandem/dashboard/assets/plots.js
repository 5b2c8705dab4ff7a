// Small plots on canvases, redrawn when there is new data and they are visible.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const COLOURS = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];

export function short(value, percent = false) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (percent) return `${(100 * value).toFixed(value > 0 && value < 0.1 ? 1 : 0)}%`;
  const size = Math.abs(value);
  if (size >= 1e5) return `${(value / 1000).toFixed(0)}k`;
  if (size >= 1e4) return `${(value / 1000).toFixed(1)}k`;
  if (size >= 20 || Number.isInteger(value)) return value.toFixed(0);
  if (size >= 1) return value.toFixed(2);
  if (size >= 0.001 || size === 0) return String(Number(value.toPrecision(3)));
  return value.toExponential(1);
}

export function duration(seconds) {
  if (seconds < 90) return `${seconds.toFixed(0)} s`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(seconds < 600 ? 1 : 0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** Enough digits that neighbouring ticks differ. */
function marked(value, marks, percent) {
  const step = marks.length > 1 ? Math.abs(marks[1] - marks[0]) : 0;
  if (percent || !step || Math.abs(value) >= 1e4) return short(value, percent);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return digits > 5 ? value.toExponential(1) : value.toFixed(digits);
}

/** Round numbers in a range, about `count` of them. */
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) found.push(Number(tick.toPrecision(12)));
  return found;
}

export class Plot {
  /** `lines`: {label, colour, values}, all over the same x; null where there is no value. */
  constructor(title, { percent = false, log = false, help = "", legend = true } = {}) {
    Object.assign(this, { title, percent, log, help, legend, x: [], lines: [], marker: null, bands: null });
    this.element = document.createElement("figure");
    this.element.className = "plot";
    this.element.style.margin = 0;
    this.element.innerHTML = `<header><b></b><span class="now"></span></header><canvas role="img"></canvas>`;
    this.element.querySelector("b").textContent = title;
    this.element.title = help;
    this.now = this.element.querySelector(".now");
    this.canvas = this.element.querySelector("canvas");
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => { this.hover = null; this.draw(); this.tip?.remove(); });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    new IntersectionObserver((seen) => { this.seen = seen.at(-1).isIntersecting; if (this.seen) this.draw(); }).observe(this.element);
    this.format = (x) => short(x);
  }

  set(x, lines, format) {
    this.x = x;
    this.lines = lines;
    if (format) this.format = format;
    const last = lines.map(({ label, values }) => [label, values.findLast((value) => value !== null)]).filter(([, value]) => value !== undefined);
    if (this.legend) {
      this.now.replaceChildren(...last.map(([label, value]) => {
        const span = document.createElement("span"), name = document.createElement("i");
        span.style.color = `var(${lines.find((line) => line.label === label).colour})`;
        name.textContent = last.length > 1 ? `${label} ` : "";
        span.append(name, short(value, this.percent));
        return span;
      }));
    }
    this.canvas.setAttribute("aria-label", `${this.title}: ${last.map(([label, value]) => `${label} ${short(value, this.percent)}`).join(", ")}`);
    this.draw();
  }

  draw() {
    if (this.due || this.seen === false) return;
    this.due = requestAnimationFrame(() => { this.due = 0; this.paint(); });
  }

  /** Whether a value can be drawn. */
  fits(value) {
    return value !== null && value !== undefined && (!this.log || value > 0);
  }

  paint() {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight, ratio = Math.min(2, devicePixelRatio);
    if (!width || !height) return;
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    const g = this.canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    const values = this.lines.flatMap((line) => line.values.filter((value) => this.fits(value)));
    if (!values.length) return;
    let low = Math.min(...values), high = Math.max(...values);
    if (this.percent) [low, high] = [0, 1];
    const up = this.log ? Math.log10 : (value) => value;
    let [bottom, top] = [up(low), up(high)];
    if (top - bottom < 1e-9 * Math.max(1, Math.abs(top))) [bottom, top] = [bottom - 0.5 * (Math.abs(bottom) || 1), top + 0.5 * (Math.abs(top) || 1)];
    const room = 0.06 * (top - bottom);
    [bottom, top] = [bottom - room, top + room];
    g.font = "10px system-ui, sans-serif";
    const marks = this.percent ? [0, 0.5, 1] : this.log ? logTicks(bottom, top) : ticks(bottom + room, top - room, height > 110 ? 4 : 2);
    const left = Math.max(26, ...marks.map((mark) => g.measureText(marked(mark, marks, this.percent)).width + 7));
    const right = width - 4, floor = height - 14, ceiling = 5;
    const x0 = this.x.reduce((a, b) => Math.min(a, b), Infinity), x1 = this.x.reduce((a, b) => Math.max(a, b), -Infinity);
    const px = (x) => left + ((x - x0) / (x1 - x0 || 1)) * (right - left);
    const py = (y) => floor - ((up(y) - bottom) / (top - bottom)) * (floor - ceiling);
    this.px = px;
    if (this.bands) this.paintBands(g, px, ceiling, floor);
    g.lineWidth = 1;
    g.fillStyle = css("--dim");
    g.strokeStyle = css("--soft");
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const mark of marks) {
      const y = Math.round(py(mark)) + 0.5;
      g.beginPath(); g.moveTo(left, y); g.lineTo(right, y); g.stroke();
      g.fillText(marked(mark, marks, this.percent), left - 5, y);
    }
    g.textBaseline = "alphabetic";
    const along = ticks(x0, x1, Math.max(1, Math.floor((right - left) / 55)));
    for (const mark of along) {
      g.textAlign = px(mark) > right - 20 ? "right" : px(mark) < left + 8 ? "left" : "center";
      g.fillText(this.format(mark), px(mark), height - 2);
    }
    g.lineWidth = 1.6;
    g.lineJoin = "round";
    for (const { values: ys, colour } of this.lines) {
      g.strokeStyle = g.fillStyle = css(colour);
      g.beginPath();
      let open = false, before = -Infinity, count = 0;
      ys.forEach((y, i) => {
        if (!this.fits(y)) return; // a metric that is logged rarely is connected over the gap
        if (this.x[i] < before) open = false; // the run was resumed from an earlier step
        before = this.x[i];
        count += 1;
        open ? g.lineTo(px(this.x[i]), py(y)) : g.moveTo(px(this.x[i]), py(y));
        open = true;
      });
      g.stroke();
      if (count <= 30) ys.forEach((y, i) => { if (this.fits(y)) { g.beginPath(); g.arc(px(this.x[i]), py(y), count > 12 ? 1.5 : 2.2, 0, 7); g.fill(); } });
    }
    const at = this.marker ?? this.hover;
    if (at !== null && at !== undefined && at < this.x.length) {
      g.strokeStyle = css("--dim");
      g.lineWidth = 1;
      g.beginPath(); g.moveTo(px(this.x[at]), ceiling); g.lineTo(px(this.x[at]), floor); g.stroke();
      for (const { values: ys, colour } of this.lines) {
        if (!this.fits(ys[at])) continue;
        g.fillStyle = css(colour);
        g.beginPath(); g.arc(px(this.x[at]), py(ys[at]), 3, 0, 7); g.fill();
      }
    }
  }

  /** Ranges of x in which a person acted. */
  paintBands(g, px, ceiling, floor) {
    g.fillStyle = css("--you");
    g.globalAlpha = 0.13;
    const step = px(this.x[1] ?? 1) - px(this.x[0] ?? 0);
    this.bands.forEach((on, i) => { if (on) g.fillRect(px(this.x[i]) - step / 2, ceiling, step + 0.5, floor - ceiling); });
    g.globalAlpha = 1;
  }

  point(event) {
    if (!this.px || !this.x.length) return;
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left;
    let best = 0;
    this.x.forEach((value, i) => { if (Math.abs(this.px(value) - x) < Math.abs(this.px(this.x[best]) - x)) best = i; });
    this.hover = best;
    this.tip ??= Object.assign(document.createElement("div"), { className: "tip" });
    const shown = this.lines.filter((line) => this.fits(line.values[best])).map((line) => `${this.lines.length > 1 ? `${line.label} ` : ""}${short(line.values[best], this.percent)}`);
    this.tip.textContent = `${this.format(this.x[best])}: ${shown.join(" · ") || "–"}`;
    this.element.append(this.tip);
    this.tip.style.left = `${Math.min(Math.max(0, x - 40), Math.max(0, box.width - this.tip.offsetWidth))}px`;
    this.tip.style.top = "14px";
    this.draw();
  }
}

function logTicks(bottom, top) {
  const whole = [];
  for (let power = Math.ceil(bottom); power <= top; power++) whole.push(10 ** power);
  if (whole.length > 1 && top - bottom > 1) return whole.length > 4 ? whole.filter((_, i) => i % 2 === 0) : whole;
  return ticks(10 ** bottom, 10 ** top, 3); // less than two decades: round numbers as on a linear axis
}

/** All plots of a run, over one of its clocks. */
export class Curves {
  constructor(element, described) {
    this.element = element;
    this.columns = [];
    this.rows = [];
    this.over = localStorage.getItem("tandem-over") || "learner_step";
    this.all = described.map((plot) => ({ plot: new Plot(plot.title, plot), lines: plot.lines, shown: false }));
  }

  take({ from, columns, rows }) {
    this.columns = columns;
    this.rows.splice(from, Infinity, ...rows);
    this.show();
  }

  show() {
    const at = this.columns.indexOf(this.over), x = this.rows.map((row) => row[at]);
    const format = this.over === "wall_s" ? duration : (value) => short(value);
    for (const entry of this.all) {
      const known = entry.lines.filter(([metric]) => this.columns.includes(metric));
      if (!known.length) continue;
      if (!entry.shown) {
        entry.shown = true;
        this.element.replaceChildren(...this.all.filter((other) => other.shown).map((other) => other.plot.element));
      }
      const lines = known.map(([metric, label]) => {
        const column = this.columns.indexOf(metric);
        return { label, colour: COLOURS[entry.lines.findIndex(([name]) => name === metric)], values: this.rows.map((row) => row[column] ?? null) };
      });
      entry.plot.set(x, lines, format);
    }
    if (!this.element.children.length) this.element.textContent = "No metrics yet: they appear when the learner has begun.";
  }
}
