// The page: shows what the hub sends, and sends what the operator does.
import { AskBanner, TAGS } from "./asking.js";
import { Band } from "./band.js";
import { OperatorInput, keyName } from "./control.js";
import { Episodes } from "./episodes.js";
import { Curves, duration, short } from "./plots.js";
import { ask, logInAgain, openSocket } from "./session.js";

const $ = (id) => document.getElementById(id);
const number = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));
const text = (id, value) => { if ($(id).textContent !== value) $(id).textContent = value; };

/** An element with a class, texts and children. */
function make(tag, className = "", ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

function table(element, heads, rows, here = () => false) {
  const head = make("tr", "", ...heads.map((name) => make("th", "", name)));
  const body = rows.map((row, i) => make("tr", here(i) ? "here" : "", ...row.map((cell) => make("td", "", cell ?? "–"))));
  element.replaceChildren(make("thead", "", head), make("tbody", "", ...body));
}

class Page {
  constructor() {
    this.id = "";
    this.source = "";
    this.state = {};
    this.view = null;
    this.input = new OperatorInput((message) => this.steer(message), (command) => this.ask(command));
    this.input.changed = () => this.showHand();
    this.input.turn = () => (this.asSeen && this.robot ? 90 * Math.round(this.robot.azimuth / 90) : null);
    this.asSeen = localStorage.getItem("tandem-as-seen") !== "no";
    this.band = new Band($("band"));
    this.banner = new AskBanner({
      choose: (source) => { if (source !== this.source) { this.choose(source); $("actor").value = source; } this.tab("run"); },
      help: () => this.ask("take"),
      dismiss: () => this.command({ do: "robot", command: "resume", detail: { ask: true } }), // and not what holds it
    });
    this.buttons();
    this.theme();
    this.connect();
    setInterval(() => this.showWho(), 250);
    setInterval(() => this.send({ do: "ping", number: performance.now() }), 2000);
  }

  // ---- the channel

  connect() {
    const socket = openSocket("/page/socket");
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.receive(JSON.parse(data)) : this.frame(data));
    socket.onopen = () => { this.wire("on", "connected"); this.receivedAt = performance.now(); };
    socket.onclose = () => {
      this.input.holding = false;
      this.view = null;
      this.wire("off", "no connection");
      this.showWho();
      this.checkSession();
      setTimeout(() => this.connect(), 1000);
    };
    this.socket = socket;
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  /** Commands that queue in a slow network would arrive late, as outdated motions. Better send nothing: then the robot stands still. */
  steer(message) {
    if (this.socket?.bufferedAmount < 4096) this.send(message);
  }

  /** Whether the hub has stopped sending; it sends at least twice a second. */
  get silent() {
    return this.socket?.readyState !== WebSocket.OPEN || performance.now() - this.receivedAt > 4000;
  }

  pong({ number }) {
    this.wire("on", `connected · ${Math.max(1, Math.round(performance.now() - number))} ms`);
  }

  wire(state, words) {
    $("wire").className = `wire ${state}`;
    text("wire", words);
    $("halt").disabled = false; // always enabled
  }

  receive(message) {
    this.receivedAt = performance.now();
    ({
      hello: () => this.hello(message),
      state: () => this.show(message),
      series: () => this.curves?.take(message),
      events: () => this.events(message.events),
      findings: () => this.findings(message),
      scene: () => this.scene(message),
      answer: () => this.answer(message),
      pong: () => this.pong(message),
    })[message.kind]?.();
  }

  frame(data) {
    const size = new DataView(data).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, size)));
    const payload = data.slice(4 + size);
    if (header.kind === "view" && header.source === this.source) {
      this.view = header;
      this.viewed = performance.now();
      this.robot?.move(new Float32Array(payload));
      this.showView();
    } else if (header.kind === "camera") this.picture(payload);
  }

  hello(hello) {
    this.id = hello.page;
    this.helloMessage = hello;
    this.live = hello.live;
    this.identify(hello.me);
    text("task", hello.task);
    text("run", hello.run.split("/").at(-1));
    $("run").title = hello.run;
    this.curves ??= new Curves($("plots"), hello.plots);
    this.curves.rows = [];
    this.curves.take(hello.series);
    this.eventRows = [];
    this.events(hello.events);
    this.mapping(hello.mapping);
    this.browser ??= new Episodes(hello);
    document.documentElement.classList.toggle("over", !hello.live);
    $("drive").hidden = $("mapping").hidden = $("axes").hidden = $("observed").hidden = $("run-card").hidden = !hello.live;
    $("tab-episodes").hidden = !hello.episodes;
    if (!hello.live && !this.opened) this.tab(hello.episodes && location.hash !== "#run" ? "episodes" : "run");
    $("bell").hidden = !hello.live || !hello.notice;
    text("learner-name", hello.ppo ? "iterations" : "learner steps");
    text("over-learner", hello.ppo ? "iteration" : "learner step");
    this.opened = true;
    this.look();
  }

  // ---- who is at this page, and what they may do

  identify(me) {
    this.me = me;
    text("me", `${me.name} · ${me.role}`);
    $("me").hidden = $("logout").hidden = false;
    $("role-note").hidden = !this.live || this.may("take_over");
    text("role-note", `You are here as ${me.role}: you may stop the robot. Taking over, verdicts and letting it move again need an operator.`);
    for (const button of document.querySelectorAll("[data-run]")) this.offer(button, button.dataset.run);
    this.offer($("stop-run"), "end_run");
  }

  may(right) {
    return this.me?.may.includes(right) ?? false;
  }

  /** Why this page may not; empty if it may. */
  refusal(right) {
    return this.may(right) ? "" : `You are here as ${this.me?.role}: that needs ${right === "end_run" ? "an admin" : "an operator"}.`;
  }

  /** Enable a button, or disable it and say why. */
  offer(button, right, possible = true) {
    button.dataset.title ??= button.title;
    button.disabled = !possible || !this.may(right);
    button.title = this.refusal(right) || button.dataset.title;
  }

  /** The session may have ended. */
  async checkSession() {
    const answer = await ask("/api/me").catch(() => null);
    if (answer?.status === 401) logInAgain();
  }

  // ---- views

  look() {
    this.send({ do: "look", source: this.source, visible: !document.hidden, camera: this.camera ?? "" });
  }

  async scene({ source, scene }) {
    if (source !== this.source) return;
    this.axes = scene.axes;
    const drawable = scene.geoms.length > 0;
    if (drawable && !this.robot) {
      try {
        const { Robot } = await import("./scene.js");
        this.robot ??= new Robot($("view"));
      } catch (problem) {
        text("stage-empty", "This browser cannot draw in 3D (WebGL is off). The numbers are shown below.");
        console.warn(problem);
      }
    }
    if (drawable && this.robot) {
      this.robot.build(scene);
      this.start = scene.camera;
      $("sides").hidden = false;
    }
    const images = Object.entries(this.helloMessage.spec.observation ?? {}).filter(([, entry]) => entry.dtype === "uint8" && entry.shape.length === 3);
    const cameras = [...images.map(([name]) => name), ...(scene.cameras ?? [])];
    if (!drawable && this.camera === undefined && cameras.length) {
      this.camera = cameras.at(-1);
      this.look();
    }
    this.drawable = drawable;
    this.noPicture = scene.no_picture ?? {};
    this.cameras(cameras);
    this.fillStage();
    if (!drawable) $("observed").open = true;
  }

  fillStage() {
    const why = this.camera && this.noPicture?.[this.camera];
    if (why) { this.image?.remove(); this.image = null; }
    $("stage-empty").hidden = !why && (this.drawable ? !!this.robot : !!this.camera);
    if (why) text("stage-empty", `No picture from '${this.camera}': ${why}`);
    else if (!this.drawable) text("stage-empty", "This environment has no shapes to draw. Its observations are below.");
  }

  cameras(names) {
    $("pick-camera").hidden = !names.length;
    $("camera").replaceChildren(new Option(this.drawable ? "drawn" : "no picture", ""), ...names.map((name) => new Option(name, name)));
    $("camera").value = this.camera ?? "";
  }

  picture(payload) {
    if (!this.camera) return;
    this.image ??= $("view").appendChild(document.createElement("img"));
    this.image.alt = this.camera;
    URL.revokeObjectURL(this.image.src);
    this.image.src = URL.createObjectURL(new Blob([payload], { type: "image/jpeg" }));
  }

  showView() {
    const { episode, step, reward, success, action, state } = this.view;
    $("stage-foot").replaceChildren(
      make("span", "", "episode ", make("b", "", number(episode))),
      make("span", "", "step ", make("b", "", number(step))),
      make("span", "", "return ", make("b", "", short(reward))),
      make("span", "", success ? make("b", "", "success") : state === "running" ? "" : state),
      ...this.judgements(),
    );
    this.band.add(this.view, this.helloMessage.spec.max_episode_steps);
    this.showAxes(action);
    this.showObservation();
    this.showWho();
  }

  /** How sure the classifier or the conditions that give the rewards are of each stage. */
  judgements() {
    const found = Object.entries(this.view.observation).filter(([name]) => name.startsWith("reward: "));
    if (this.view.success) this.rewarded = this.view.step ? this.view.episode : this.view.episode - 1; // before its first step: the one before
    $("wrong").hidden = !found.length;
    return found.map(([name, [value]]) => make("span", "", `${name.slice(8)} `, make("b", "", value.toFixed(2))));
  }

  /** At most 5 times a second, and only while the list is open. */
  showObservation() {
    if (!$("observed").open || performance.now() - (this.observedAt ?? 0) < 200) return;
    this.observedAt = performance.now();
    $("observation").replaceChildren(...Object.entries(this.view.observation).flatMap(([name, values]) => {
      const unit = this.helloMessage.spec.observation?.[name]?.unit;
      return [make("dt", "", unit ? `${name} (${unit})` : name), make("dd", "", values.map((value) => value.toFixed(3)).join("  "))];
    }));
  }

  showAxes(action) {
    const names = this.axes ?? action.map((_, i) => `axis ${i}`);
    if ($("axes").children.length !== action.length) {
      $("axes").replaceChildren(...action.map((_, i) => make("span", "axis", names[i] ?? i, make("i", "", make("b")))));
    }
    action.forEach((value, i) => {
      const bar = $("axes").children[i].querySelector("b"), size = Math.min(1, Math.abs(value)) * 50;
      bar.style.left = `${value < 0 ? 50 - size : 50}%`;
      bar.style.width = `${size}%`;
    });
  }

  // ---- who is in control

  /** Name, colour and a note: who moves the robot. */
  who() {
    const fresh = this.view && performance.now() - this.viewed < 2500;
    const known = fresh ? this.view : this.state.control?.[this.source];
    if (this.silent) return ["NO CONNECTION", "halt", "the hub does not answer; reconnecting"];
    if (!this.live) return ["OVER", "nobody", this.ending()];
    if (!known?.state) return ["NOBODY", "nobody", this.source ? "waiting for a view" : "no actor is connected"];
    const { state, who, holder } = known;
    const notice = (known.notice ?? "").replace(/(the page )?'page-\w+'/g, "the page").replace(/asks for help: .*/, "it asks for help and waits for an answer");
    const recording = this.state.recording?.phase;
    if (recording && recording !== "recording" && ["paused", "running"].includes(state)) {
      const words = recording === "ready" ? "ready: press Start to record" : "keep, discard or redo?";
      return holder === this.id ? ["YOU", "you", notice || words] : holder ? ["ANOTHER PAGE", "other", notice || words] : ["NOBODY", "nobody", notice || "take over to record"];
    }
    if (state === "stopped") return ["STOPPED", "halt", notice || "stopped; Continue lets it move again"];
    if (state === "holding") return ["NOBODY", "halt", notice || "standing still; take over, or press Continue"];
    if (state === "paused" && !holder) return ["NOBODY", "nobody", notice || "paused"];
    if (state === "resetting") return ["NOBODY", "nobody", notice || "resetting for a new episode"];
    if (holder === this.id) return ["YOU", "you", notice || (state === "paused" ? "paused" : "your keys or gamepad move the robot")];
    if (holder) return ["ANOTHER PAGE", "other", notice || "it has control until it releases it"];
    if (who === "script") return ["SCRIPT", "script", notice || "a script acts in place of a person"];
    if (who === "person") return ["SOMEBODY", "other", notice || "an input device on the robot's computer"];
    return who === "policy" ? ["POLICY", "policy", notice || this.policyNote()] : ["NOBODY", "nobody", notice || "standing still"];
  }

  policyNote() {
    const actor = this.state.actors?.find((one) => one.source === this.source);
    return actor && actor.version >= 0 ? `version ${number(actor.version)}` : "";
  }

  ending() {
    const summary = this.state.summary ?? {};
    return summary.stopped ? `${summary.stopped}` : "this run has ended";
  }

  showWho() {
    const [name, tone, note] = this.who();
    const mine = name === "YOU";
    if (this.view?.holder === this.id) this.mineAt = performance.now();
    if (this.input.holding && performance.now() - this.mineAt > 2000) { // the robot did not get it, or somebody else has control
      this.input.holding = false;
      this.notify("You have lost control.");
    }
    if ($("who").className !== `who ${tone}`) $("who").className = `who ${tone}`;
    text("who-name", name);
    text("who-note", note);
    $("who-note").title = note;
    $("axes").style.setProperty("--tone", `var(--${{ halt: "halt", you: "you", other: "other", script: "script", policy: "policy" }[tone] ?? "nobody"})`);
    const known = this.view ?? this.state.control?.[this.source] ?? {};
    $("why").hidden = $("touch").hidden = !mine;
    if (!mine) this.tagged("");
    const stands = ["stopped", "holding", ...(this.state.recording ? [] : ["paused"])].includes(known.state);
    $("go").classList.toggle("on", stands);
    $("go").firstChild.textContent = stands ? "Continue " : "Pause ";
    $("take").classList.toggle("mine", mine);
    $("take").firstChild.textContent = mine ? "Release " : "Take over ";
    // By its holder and not by the name shown: between two episodes nobody moves the robot, but control is still another page's.
    this.offer($("take"), "take_over", this.source && (!known.holder || known.holder === this.id));
    for (const [id, right] of Object.entries({ go: stands ? "resume" : "pause", success: "label", failure: "label", discard: "record", wrong: "record" })) this.offer($(id), right, !!this.source);
  }

  showHand() {
    for (const cap of document.querySelectorAll(".keycap")) cap.classList.toggle("held", this.input.held.has(cap.dataset.code));
    text("pad", this.input.padId ? `· gamepad: ${this.input.padId.slice(0, 40)}` : "");
  }

  // ---- commands

  buttons() {
    $("take").onclick = () => this.ask("take");
    $("halt").onclick = () => this.ask("stop");
    $("go").onclick = () => this.ask("pause");
    $("discard").onclick = () => this.ask("discard");
    $("wrong").onclick = () => this.ask("wrong");
    $("success").onclick = () => this.ask("success");
    $("failure").onclick = () => this.ask("failure");
    for (const button of document.querySelectorAll("[data-tag]")) button.onclick = () => this.ask(button.dataset.tag);
    for (const button of document.querySelectorAll("[data-record]")) button.onclick = () => this.record(button.dataset.record);
    for (const button of document.querySelectorAll("[data-run]")) button.onclick = () => this.command({ do: "run", command: button.dataset.run });
    $("stop-run").onclick = () => this.stopRun();
    $("logout").onclick = () => ask("/logout", { method: "POST", redirect: "manual" }).then(logInAgain);
    for (const button of document.querySelectorAll("[data-over]")) {
      button.onclick = () => this.over(button.dataset.over);
      button.onkeydown = (event) => { // arrows move within a group of radio buttons
        const next = { ArrowRight: button.nextElementSibling, ArrowLeft: button.previousElementSibling }[event.key];
        if (next) { next.focus(); next.click(); event.preventDefault(); event.stopPropagation(); }
      };
    }
    this.over(localStorage.getItem("tandem-over") || "learner_step");
    $("tab-run").onclick = () => this.tab("run");
    $("tab-episodes").onclick = () => this.tab("episodes");
    const sides = { start: {}, front: { azimuth: 180, elevation: -10 }, side: { azimuth: 90, elevation: -10 }, top: { azimuth: 180, elevation: -89 } };
    for (const button of document.querySelectorAll("[data-side]")) button.onclick = () => this.robot?.look({ ...this.start, ...sides[button.dataset.side] });
    $("actor").onchange = () => this.choose($("actor").value);
    $("camera").onchange = () => { this.camera = $("camera").value; if (!this.camera) { this.image?.remove(); this.image = null; } this.fillStage(); this.look(); };
    document.addEventListener("visibilitychange", () => this.look());
    // a clicked button loses the focus, so that Space takes over instead of pressing it again; focus by Tab is kept
    document.addEventListener("click", (event) => { if (event.detail > 0) event.target.closest?.("button, summary")?.blur(); });
  }

  /** A command by key, gamepad button or click; the names are those of the mapping file. */
  ask(command) {
    const mine = this.input.holding;
    if (TAGS.includes(command)) { this.tag(command); return; }
    const right = { take: "take_over", pause: "pause", success: "label", failure: "label", discard: "record", wrong: "record" }[command];
    if (right && this.refusal(right)) { this.notify(this.refusal(right)); return; }
    if (command === "take") this.take(!mine);
    else if (command === "let_go") this.take(false);
    else if (command === "stop") this.halt();
    else if (command === "pause") this.command({ do: "robot", command: $("go").classList.contains("on") ? "resume" : "pause" });
    else if (command === "success") this.succeed();
    else if (command === "failure") this.label(false);
    else if (command === "discard") this.record("discard");
    else if (command === "wrong") this.command({ do: "robot", command: "record", detail: { what: "wrong", ...(this.rewarded === undefined ? {} : { episode: this.rewarded }) } });
  }

  /** Why the person took over: stored with the steps that they make from now on. */
  tag(why) {
    if (!this.input.holding) return;
    this.command({ do: "robot", command: "tag", detail: { why } });
    this.tagged(why);
  }

  tagged(why) {
    for (const button of document.querySelectorAll("[data-tag]")) button.classList.toggle("chosen", button.dataset.tag === why);
  }

  take(wanted) {
    if (!wanted) {
      this.input.holding = false;
      this.command({ do: "let_go" });
    } else if (this.source) this.command({ do: "take" });
  }

  /** Stop the robot at once: over the WebSocket, or if it is down, by an HTTP request. */
  async halt() {
    const detail = { stay: true };
    if (!this.silent) this.command({ do: "robot", command: "stop", detail });
    else {
      const body = JSON.stringify({ command: "stop", to: this.source || "actors", detail });
      const answer = await ask("/api/command", { method: "POST", body }).catch(() => null);
      this.notify(answer?.ok ? "Stop was sent." : "The hub cannot be reached: STOP THE ROBOT AT THE ROBOT.");
    }
  }

  /** While recording, the same key starts, ends and keeps an episode. */
  succeed() {
    const phase = this.state.recording?.phase;
    if (phase === "ready") this.record("start");
    else if (phase === "judging" && this.view?.success) this.record("keep");
    else this.label(true);
  }

  label(success) {
    this.command({ do: "robot", command: "label", detail: { success, episode: this.view?.episode } });
  }

  record(what) {
    this.command({ do: "robot", command: "record", detail: { what } });
  }

  stopRun() {
    const button = $("stop-run");
    if (button.dataset.sure) {
      this.command({ do: "run", command: "stop" });
      delete button.dataset.sure;
      button.textContent = "Stop the run";
      return;
    }
    button.dataset.sure = "yes";
    button.textContent = "Really stop it?";
    setTimeout(() => { delete button.dataset.sure; button.textContent = "Stop the run"; }, 4000);
  }

  command(message) {
    this.asked = (this.asked ?? 0) + 1;
    this.waiting ??= new Map();
    this.waiting.set(this.asked, message);
    this.send({ ...message, number: this.asked });
  }

  answer({ number: which, problem }) {
    const command = this.waiting?.get(which);
    this.waiting?.delete(which);
    if (problem) { this.notify(command?.do === "take" ? `You cannot take over: ${problem}.` : problem); return; }
    if (!command) return;
    if (command.do === "take") { this.input.holding = true; this.mineAt = performance.now(); this.input.beat(); }
    const done = { take: "", let_go: "", robot: { label: command.detail?.success ? "marked as success" : "marked as failure", pause: "paused", resume: "continues", stop: "stopped" }[command.command], run: `${command.command}: sent` }[command.do];
    if (done) text("run-note", done);
  }

  notify(words) {
    $("toast").textContent = words;
    $("toast").hidden = false;
    clearTimeout(this.toastTimer);
    this.toastTimer = setTimeout(() => { $("toast").hidden = true; }, 5000);
  }

  over(axis) {
    localStorage.setItem("tandem-over", axis);
    for (const button of document.querySelectorAll("[data-over]")) {
      const chosen = button.dataset.over === axis;
      button.setAttribute("aria-checked", chosen);
      button.tabIndex = chosen ? 0 : -1;
    }
    if (this.curves) { this.curves.over = axis; this.curves.show(); }
  }

  tab(name) {
    $("main").hidden = name !== "run";
    $("episodes").hidden = name !== "episodes";
    $("tab-run").setAttribute("aria-selected", name === "run");
    $("tab-episodes").setAttribute("aria-selected", name === "episodes");
    if (name === "episodes") this.browser?.open();
  }

  theme() {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const apply = () => {
      const wanted = localStorage.getItem("tandem-theme") || "auto";
      document.documentElement.dataset.theme = wanted === "auto" ? (system.matches ? "dark" : "light") : wanted;
      $("theme").setAttribute("aria-label", `Colours: ${wanted === "auto" ? "system setting" : wanted}`);
      this.curves?.show();
    };
    $("theme").onclick = () => {
      const themes = ["auto", "light", "dark"], now = localStorage.getItem("tandem-theme") || "auto";
      localStorage.setItem("tandem-theme", themes[(themes.indexOf(now) + 1) % 3]);
      apply();
    };
    system.addEventListener("change", apply);
    apply();
  }

  // ---- numbers, twice a second

  show(state) {
    this.state = state;
    const { clocks = {}, actors = [], status = {} } = state;
    text("clock-learner", number(clocks.learner_step));
    text("clock-actor", number(clocks.actor_step));
    text("clock-policy", number(clocks.policy_version));
    // a trainer that compiles before its first step, or evaluates after its last, sends no heartbeat for a while
    const silent = !clocks.learner_step || clocks.phase === "stopped";
    const dead = !state.over && status.trainer && !status.trainer.alive && !state.recording && !silent;
    const phase = state.recording ? "recording" : state.over ? "over" : dead ? "no trainer" : clocks.phase ?? "";
    text("phase", phase);
    $("phase").className = `chip ${dead ? "dead" : phase}`;
    this.actors(actors);
    this.words(state);
    this.advice(state);
    this.recording(state.recording);
    this.worth(state.help);
    this.banner.show(actors, this.source, this.input.holding);
    this.offer($("pause"), "pause", clocks.phase !== "paused");
    this.showWho();
  }

  actors(actors) {
    const there = actors.filter((actor) => actor.connected);
    const now = there.map((actor) => actor.source).join();
    if (now !== this.there) {
      this.there = now;
      $("actor").replaceChildren(...there.map((actor) => new Option(actor.name, actor.source)));
      $("pick-actor").hidden = there.length < 2;
      if (!there.some((actor) => actor.source === this.source)) this.choose(there[0]?.source ?? "");
      $("actor").value = this.source;
    }
    if (!there.length) { $("stage-empty").hidden = false; text("stage-empty", this.live ? "waiting for an actor" : "This run is over. See its episodes."); }
    table($("actors"), ["actor", "steps/s", "version", "lag", "round trip", "unsent"], actors.map((actor) => [
      actor.connected ? (actor.standing ? `${actor.name} (stands still: ${actor.standing})` : actor.name) : `${actor.name} (left)`,
      short(actor.steps_per_s),
      actor.version < 0 ? "–" : number(actor.version),
      actor.lag_versions ? `${actor.lag_versions} · ${actor.lag_s.toFixed(1)} s` : "0",
      `${actor.round_trip_ms.toFixed(1)} ms`,
      number(actor.unacknowledged),
    ]));
    $("actors").hidden = !actors.length;
  }

  choose(source) {
    if (this.input.holding) this.take(false); // nobody steers a robot without seeing it
    this.source = source;
    this.view = null;
    this.look();
  }

  words({ words = [], buffers = {}, clocks = {}, status = {}, pages }) {
    $("words").replaceChildren(...words.map((word) => make("li", "", word)));
    const journal = buffers.journal ?? {};
    const facts = [
      ["100 learner steps", clocks.in_words?.split(" = ").slice(1).join(" = ")],
      ["learner", clocks.learner_steps_per_s ? `${short(clocks.learner_steps_per_s)} steps/s` : null],
      ["actors", clocks.actor_steps_per_s ? `${short(clocks.actor_steps_per_s)} steps/s` : null],
      ["replay buffer", buffers.online != null ? `${number(buffers.online)} of ${number(buffers.capacity)}` : null],
      ["demonstrations", buffers.demos != null ? `${number(buffers.demos)} transitions` : null],
      ["journal", journal.accepted != null ? `${number(journal.accepted)} steps${journal.rejected ? `, ${number(journal.rejected)} rejected` : ""}${journal.state && journal.state !== "ok" ? `, ${journal.state}` : ""}` : null],
      ["hub", status.up_s != null && this.live ? `up ${duration(status.up_s)}, ${pages} page${pages === 1 ? "" : "s"} open` : null],
    ].filter(([, value]) => value);
    $("facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
    $("clocks-card").hidden = !words.length && !facts.length;
    if (journal.trouble) this.notify(journal.trouble);
  }

  advice({ advice, reference, over, summary }) {
    $("advice-card").hidden = !advice && !summary?.stopped;
    if (over && summary?.stopped) {
      const judged = summary.deterministic ?? {};
      text("advice-phase", summary.stopped);
      text("advice-do", judged.successes !== undefined && judged.success_known !== false ? `${judged.successes} of ${judged.episodes} evaluation episodes succeeded.` : judged.return !== undefined ? `Mean return ${short(judged.return)}.` : "");
      text("advice-because", summary.minutes ? `${summary.minutes.toFixed(1)} minutes of training` : "");
      $("reference").parentElement.hidden = true;
      return;
    }
    if (!advice) return;
    text("advice-phase", advice.phase);
    text("advice-do", advice.do);
    text("advice-because", advice.because.join(" · "));
    const rows = reference.rows;
    const heads = ["learner steps", "usually", "alone, here"];
    table($("reference"), heads, rows.map((row) => [row.learner_steps, row.do, row.measured]), (i) => rows[i].here);
    text("reference-note", reference.note ?? "");
  }

  /** What help is worth in this run, as measured. */
  worth(help) {
    $("worth").hidden = !help?.facts?.length;
    $("worth-facts").replaceChildren(...(help?.facts ?? []).map((fact) => make("li", "", fact)));
  }

  recording(status) {
    $("recording").hidden = $("howto").hidden = !status;
    if (status && !document.documentElement.classList.contains("recording-mode")) {
      $("mapping").open = true;
      $("howto").after($("mapping")); // next to the robot, where the operator needs it now
    }
    document.documentElement.classList.toggle("recording-mode", !!status);
    if (!status) return;
    const now = status.phase === "ready" && this.who()[0] !== "YOU" ? "hold" : status.phase;
    for (const step of document.querySelectorAll("#howto li")) step.classList.toggle("now", step.dataset.phase === now);
    $("recording").classList.toggle("on", status.phase === "recording");
    text("record-phase", status.phase);
    text("record-count", `${status.kept} of ${status.wanted} kept`);
    $("record-progress").max = status.wanted;
    $("record-progress").value = status.kept;
    for (const button of document.querySelectorAll("[data-record]")) {
      const what = button.dataset.record, possible = this.helloMessage.record_phases[what].includes(status.phase);
      this.offer(button, "record", possible && !(what === "keep" && !this.view?.success));
    }
  }

  events(events) {
    this.eventRows = [...(this.eventRows ?? []), ...events].slice(-60);
    $("events").replaceChildren(...this.eventRows.toReversed().map((event) => {
      const time = make("time", "", new Date(event.time * 1000).toLocaleTimeString([], { hour12: false }));
      return make("li", "", time, make("span", "", eventText(event)));
    }));
  }

  findings({ findings, state, seconds, stages }) {
    findings ??= [];
    $("stages-card").hidden = !stages;
    if (stages) {
      text("stages-note", `${stages.succeeded} of the newest ${stages.episodes} episodes succeeded`);
      table($("stages"), ["stage", "lost", "out of time"], stages.rows.map((row) => [row.stage, row.lost, row.time]));
    }
    text("findings-note", seconds ? (findings.length ? "" : state ?? "") : "checking");
    $("findings").replaceChildren(...(findings.length || !seconds ? findings : [null]).map((finding) => {
      if (!finding) return make("p", "dim", "No problems found.");
      const evidence = finding.evidence?.length ? make("p", "why", finding.evidence.join(" ")) : "";
      return make("div", `finding ${finding.severity}`, make("b", "", finding.what), evidence, finding.next ? make("code", "", finding.next) : "");
    }));
  }

  // ---- keys and gamepad

  mapping(mapping) {
    if (!mapping) return;
    this.input.setMapping(mapping);
    const rows = (device) => mapping.table.filter((row) => row.device === device);
    const moving = rows("keyboard").filter((row) => mapping.keys.includes(row.input)), asking = rows("keyboard").filter((row) => !mapping.keys.includes(row.input));
    const pad = [...rows("gamepad stick"), ...rows("gamepad button")].map(({ device, input, does }) =>
      make("div", "", make("span", "", named(does)), make("span", "dim", `${device.replace("gamepad ", "")} ${input}`)));
    const turned = make("label", "", Object.assign(document.createElement("input"), { type: "checkbox", id: "as-seen", checked: this.asSeen }), "directions as seen from my viewpoint");
    turned.firstChild.onchange = (event) => { this.asSeen = event.target.checked; localStorage.setItem("tandem-as-seen", this.asSeen ? "yes" : "no"); };
    $("touch").replaceChildren(...moving.filter((row) => row.does !== "fine").map((row) => this.fingerKey(row)));
    $("mapping-body").replaceChildren(
      make("div", "keys", ...this.pairs(moving)), turned,
      make("h3", "", "Commands"), make("div", "keys", ...asking.map((row) => make("div", "", make("span", "", named(row.does)), this.cap(row, mapping)))),
      make("h3", "", "Gamepad (press a button once, so that the browser detects it)"), make("div", "keys", ...pad),
    );
  }

  /** The two keys of each axis in one row. */
  pairs(rows) {
    const found = new Map();
    for (const row of rows) found.set(row.does.replace(/^[+-]/, ""), [...(found.get(row.does.replace(/^[+-]/, "")) ?? []), row]);
    return [...found.values()].map((pair) => pair.sort((a, b) => b.does.startsWith("+") - a.does.startsWith("+"))).map((pair) => make("div", "", make("span", "", pair.map((row) => named(row.does)).join(" / ")),
      make("div", "caps", ...pair.map((row) => this.cap(row)))));
  }

  cap({ input, does }, mapping = null) {
    const cap = make("button", "keycap", keyName(input));
    cap.dataset.code = input;
    cap.tabIndex = -1;
    cap.setAttribute("aria-label", `${named(does)}, key ${keyName(input)}`);
    if (mapping) cap.onclick = () => this.ask(mapping.key_commands[input]);
    else this.pressable(cap, input);
    return cap;
  }

  fingerKey({ input, does }) {
    const words = FINGERS[does] ?? named(does), key = make("button", "keycap finger", words);
    key.dataset.code = input;
    key.setAttribute("aria-label", words);
    this.pressable(key, input);
    return key;
  }

  /** A key on the page that can be held with a finger or the mouse. */
  pressable(cap, code) {
    cap.onpointerdown = (event) => { if (this.input.holding) { cap.setPointerCapture(event.pointerId); this.input.press(code); event.preventDefault(); } };
    cap.onpointerup = cap.onpointercancel = cap.onlostpointercapture = () => this.input.up(code);
  }
}

const DOES = { fine: "slowly (hold)", hold: "hold control", take: "take over / release", success: "success", failure: "failure", discard: "discard the episode", pause: "pause / continue", stop: "stop the robot", ...Object.fromEntries(TAGS.map((why) => [why, `I took over: ${why}`])) };
const AXES = { "+x": "forward", "-x": "back", "+y": "left", "-y": "right", "+z": "up", "-z": "down", "+yaw": "turn left", "-yaw": "right", "+pitch": "pitch +", "-pitch": "−", "+roll": "roll +", "-roll": "−", "+gripper": "open", "-gripper": "close" };
const FINGERS = { "-yaw": "turn right", "-pitch": "pitch −", "-roll": "roll −" }; // alone, not in a pair
const named = (does) => DOES[does] ?? AXES[does] ?? does;

/** An event in one line. */
function eventText(event) {
  const { kind, time, wall_s, by, ...rest } = event;
  const name = kind.replaceAll("_", " ");
  const chosen = Object.entries(rest).filter(([key, value]) => ["name", "reason", "warning", "problem", "learner_step", "part", "signal", "who", "episode", "success"].includes(key) && value !== null && value !== "");
  return [name, ...chosen.map(([key, value]) => (["name", "reason", "warning", "problem", "part"].includes(key) ? String(value).slice(0, 160) : `${key.replaceAll("_", " ")} ${typeof value === "number" ? number(value) : value}`))].join(" · ");
}

/**
 * NiceGUI inserts the skeleton. Its own connection is then closed: nothing uses it, it costs the hub time for every page, and when it
 * breaks it reloads the page, even while a person steers the robot.
 */
function begin() {
  if (!$("plots")) { setTimeout(begin, 20); return; }
  window.socket?.once("connect", () => window.socket.disconnect());
  setTimeout(() => window.socket?.disconnect(), 5000); // and if it never connects, it stops trying
  window.tandem = new Page();
}
begin();
