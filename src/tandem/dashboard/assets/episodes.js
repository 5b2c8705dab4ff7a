// The episode browser: a list, and one episode as a timeline, plots, and the path of the tool.
import { COLOURS, Plot, short } from "./plots.js";
import { ask } from "./session.js";

const $ = (id) => document.getElementById(id);
const cell = (words, className = "") => { const td = document.createElement("td"); td.textContent = words; td.className = className; return td; };

async function fetchJson(path, parameters = {}) {
  const answer = await ask(`/page/${path}?${new URLSearchParams(parameters)}`);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.detail ?? answer.statusText);
  return data;
}

export class Episodes {
  constructor(hello) {
    this.hz = hello.spec.control_hz ?? 10;
    $("file").onchange = () => this.list();
    $("more").onclick = () => this.list(this.next);
    $("at").oninput = () => this.go(Number($("at").value));
    $("play").onclick = () => this.play(!this.playing);
    addEventListener("resize", () => this.timeline());
  }

  async open() {
    if (this.opened) return;
    this.opened = true;
    try {
      const files = await fetchJson("files");
      $("file").replaceChildren(...files.map((file) => new Option(file.title, file.name)));
      if (files.length) await this.list(0, true);
      else $("episode-title").textContent = "This run has no stored episodes";
      this.noticing(await fetchJson("noticing"));
    } catch (problem) {
      $("episode-title").textContent = String(problem.message);
    }
  }

  /** How well noticing would have done on the newest episodes without help. */
  noticing({ episodes, alarms, right, missed, false_per_success, late_s }) {
    $("noticing").hidden = !episodes;
    if (!episodes) return;
    const share = (value) => (value === null ? "–" : `${Math.round(100 * value)} %`);
    $("noticing").textContent = `Noticing, on the newest ${episodes} episodes without help and with today's critics: ${alarms} alarms, ${share(right)} of them in episodes that failed; ${share(missed)} of the failures missed; an alarm in ${share(false_per_success)} of the successes` + (late_s === null ? "." : `; ${late_s.toFixed(1)} s after the best moment.`);
  }

  async list(before = 0, show = false) {
    const { episodes, next } = await fetchJson("episodes", { file: $("file").value, before });
    this.next = next;
    $("more").hidden = !next;
    const rows = episodes.map((episode) => this.row(episode));
    const table = $("episode-list");
    if (before) table.tBodies[0].append(...rows);
    else {
      table.innerHTML = "<thead><tr><th>episode</th><th>steps</th><th>return</th><th>person</th><th>policy</th><th>end</th></tr></thead><tbody></tbody>";
      table.tBodies[0].append(...rows);
      rows[Math.max(0, episodes.findIndex((episode) => episode.ended !== "open"))]?.click();
    }
  }

  row(episode) {
    const row = document.createElement("tr");
    row.tabIndex = 0;
    const person = episode.intervened ? short(episode.intervened / episode.steps, true) : "";
    row.append(
      cell(`${episode.episode}`), cell(`${episode.steps}`), cell(short(episode.return)), cell(person),
      cell(episode.version >= 0 ? `${episode.version}` : ""), cell(episode.discarded ? "discarded" : episode.success ? "success" : episode.ended, episode.discarded ? "bad" : episode.success === null ? "" : episode.success ? "good" : "bad"),
    );
    row.title = episode.source;
    row.onclick = () => { document.querySelector("#episode-list [aria-selected]")?.removeAttribute("aria-selected"); row.setAttribute("aria-selected", "true"); this.show(episode); };
    row.onkeydown = (event) => {
      if (event.key === "Enter") row.click();
      const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
      if (next) { next.focus(); next.click(); event.preventDefault(); }
    };
    return row;
  }

  async show({ source, episode }) {
    this.play(false);
    const data = (this.episode = await fetchJson("episode", { file: $("file").value, source, number: episode }));
    $("episode-title").textContent = `Episode ${data.episode}`;
    $("episode-facts").textContent = `${data.steps} steps (${(data.steps / data.control_hz).toFixed(1)} s) · return ${short(data.return)} · ${data.success ? "success" : data.ended} · ${data.source}`;
    $("player").hidden = $("legend").hidden = false;
    $("at").max = data.steps - 1;
    this.plots = [this.plot("action", data.actions, "of the largest action"), this.plot("reward", data.rewards.map((value) => [value]))];
    if (data.values.length) this.plots.push(this.plot("value", data.values.map((value) => [value]), "", "What the critics of the newest checkpoint expect from here: it rises where the episode goes forward."));
    for (const [name, entry] of Object.entries(data.observations)) this.plots.push(this.plot(name, entry.values, entry.unit, entry.meaning));
    $("episode-grid").replaceChildren(...(await this.path(data)), ...this.plots.map((plot) => plot.element));
    this.timeline();
    this.go(0);
  }

  plot(title, values, unit = "", meaning = "") {
    const plot = new Plot(unit ? `${title} (${unit})` : title, { help: meaning, legend: false });
    plot.bands = this.episode.by_person;
    plot.set(values.map((_, i) => i), values[0].map((_, component) => ({ label: `[${component}]`, colour: COLOURS[component % COLOURS.length], values: values.map((row) => row[component]) })));
    return plot;
  }

  async path(data) {
    if (data.path.length < 2) return [];
    if (!this.view) {
      this.figure = document.createElement("figure");
      this.figure.className = "plot path";
      this.figure.style.margin = 0;
      this.figure.innerHTML = `<header><b>path of the tool</b></header><div class="path-view" role="img" aria-label="Path of the tool in space"></div>`;
    }
    $("episode-grid").append(this.figure);
    try {
      const { Path } = await import("./scene.js");
      this.view ??= new Path(this.figure.querySelector(".path-view"));
      this.view.show(data.path, data.by_person);
    } catch (problem) {
      console.warn(problem);
      return [];
    }
    return [this.figure];
  }

  timeline() {
    if (!this.episode) return;
    const canvas = $("timeline"), style = getComputedStyle(document.documentElement), width = (canvas.width = canvas.clientWidth * devicePixelRatio);
    const g = canvas.getContext("2d"), count = this.episode.steps;
    canvas.height = 18 * devicePixelRatio;
    this.episode.by_person.forEach((person, i) => {
      g.fillStyle = style.getPropertyValue(person ? "--you" : "--policy").trim();
      g.fillRect((i / count) * width, 0, width / count + 1, canvas.height);
    });
    this.episode.rewards.forEach((reward, i) => { if (reward > 0) { g.fillStyle = style.getPropertyValue("--card").trim(); g.fillRect(((i + 0.35) / count) * width, canvas.height * 0.25, Math.max(2, (0.3 * width) / count), canvas.height * 0.5); } });
  }

  go(step) {
    const data = this.episode;
    $("at").value = step;
    $("at-text").textContent = `step ${step} of ${data.steps} · ${(step / data.control_hz).toFixed(1)} s · ${data.by_person[step] ? "person" : "policy"}`;
    for (const plot of this.plots) { plot.marker = step; plot.draw(); }
    this.view?.at(step);
  }

  play(wanted) {
    clearInterval(this.timer);
    this.playing = wanted;
    $("play").textContent = wanted ? "⏸" : "▶";
    $("play").setAttribute("aria-label", wanted ? "Pause" : "Play");
    if (!wanted) return;
    if (Number($("at").value) >= this.episode.steps - 1) this.go(0);
    this.timer = setInterval(() => {
      const at = Number($("at").value);
      at + 1 < this.episode.steps ? this.go(at + 1) : this.play(false);
    }, 1000 / this.episode.control_hz);
  }
}
