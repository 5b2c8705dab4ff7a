// A robot that asks for help: a banner, a sound, a notification, a mark in the title; and why a person took over.

const REPEAT_MS = 15000; // until somebody answers
const REPEATS = 3;
export const TAGS = ["stuck", "danger", "wrong way", "just because"];

const $ = (id) => document.getElementById(id);

/** Two short tones; silent until the person has clicked somewhere on the page, as browsers demand. */
function chime() {
  const Audio = window.AudioContext ?? window.webkitAudioContext;
  if (!Audio) return;
  chime.context ??= new Audio();
  const context = chime.context;
  context.resume?.();
  [660, 880].forEach((pitch, i) => {
    const tone = context.createOscillator(), volume = context.createGain(), at = context.currentTime + 0.18 * i;
    tone.frequency.value = pitch;
    volume.gain.setValueAtTime(0.12, at);
    volume.gain.exponentialRampToValueAtTime(0.001, at + 0.16);
    tone.connect(volume).connect(context.destination);
    tone.start(at);
    tone.stop(at + 0.17);
  });
}

export class AskBanner {
  /** `choose(source)`: look at that robot; `help()`: take over; `dismiss(source)`: it goes on without help. */
  constructor({ choose, help, dismiss }) {
    Object.assign(this, { choose, help, dismiss, asks: [], heard: new Map(), alerts: localStorage.getItem("tandem-alerts") !== "no" });
    this.title = document.title;
    $("ask-help").onclick = () => this.answer(this.help);
    $("ask-dismiss").onclick = () => this.answer(() => this.dismiss(this.asks[0].source));
    $("bell").onclick = () => this.toggle();
    this.showBell();
  }

  answer(how) {
    if (!this.asks.length) return;
    this.choose(this.asks[0].source);
    how();
  }

  /** Alerts on or off. Turning them on asks the browser for notifications too. */
  async toggle() {
    this.alerts = !this.alerts || (window.Notification?.permission === "default");
    localStorage.setItem("tandem-alerts", this.alerts ? "yes" : "no");
    if (this.alerts) {
      chime();
      if (window.Notification?.permission === "default") await Notification.requestPermission();
    }
    this.showBell();
  }

  showBell() {
    const shows = this.alerts && window.Notification?.permission === "granted";
    $("bell").textContent = !this.alerts ? "alerts off" : shows ? "alerts on" : "sound on";
    $("bell").title = shows || !this.alerts ? "Sound and notification when a robot asks for help" : "Click to get notifications too when a robot asks for help";
  }

  /** What the robots ask now, and who looks at which. */
  show(actors, source, mine) {
    this.asks = actors.filter((actor) => actor.connected && actor.asks).sort((a, b) => (b.source === source) - (a.source === source));
    const now = new Set(this.asks.map((actor) => actor.source + actor.asks));
    for (const name of this.heard.keys()) if (!now.has(name)) this.heard.delete(name);
    for (const actor of this.asks) this.alert(actor, mine);
    document.title = this.asks.length ? `(${this.asks.length}) asks for help · ${this.title}` : this.title;
    navigator.setAppBadge?.(this.asks.length).catch(() => {});
    $("ask").hidden = !this.asks.length || mine;
    if (!this.asks.length) return;
    const [first, ...others] = this.asks;
    const whose = actors.length > 1 ? `${first.name} ` : "The robot ";
    const words = `${whose}${first.asks}.` + (others.length ? ` ${others.length} more ask.` : "");
    if ($("ask-reason").textContent !== words) $("ask-reason").textContent = words;
  }

  alert({ source, name, asks }, mine) {
    const key = source + asks, told = this.heard.get(key) ?? { times: 0, at: -Infinity };
    if (mine || !this.alerts || told.times >= REPEATS || performance.now() - told.at < REPEAT_MS) return;
    this.heard.set(key, { times: told.times + 1, at: performance.now() });
    chime();
    if (told.times === 0 && window.Notification?.permission === "granted") {
      const shown = new Notification(`${name} asks for help`, { body: asks.replace(/^asks for help: /, ""), tag: key });
      shown.onclick = () => { window.focus(); this.choose(source); shown.close(); };
    }
  }
}
