// The band under the robot: how far the episode has come, how near to stuck it is, and who moved the robot.

const STRIP = 6; // pixels of the strip that says who and how near
const NEARLY = 0.7;

export class Band {
  constructor(element) {
    this.element = element;
    this.canvas = element.querySelector("canvas");
    this.words = element.querySelector("span");
    this.points = [];
  }

  /** A view of the robot; those of a run that does not notice say nothing of it. */
  add({ episode, step, who, observation, notice }, longest) {
    const found = observation.progress;
    this.element.hidden = !found && this.episode === undefined;
    if (!found) return;
    if (episode !== this.episode) Object.assign(this, { episode, points: [] });
    const [far, level, back] = found;
    const last = this.points.at(-1);
    const point = { step, far: far < 0 ? null : far, level, who: back ? "script" : who, asks: notice.includes("asks for help") };
    if (last?.step === step) this.points[this.points.length - 1] = point;
    else this.points.push(point);
    this.element.classList.toggle("blind", this.points.every((one) => one.far === null));
    this.draw(longest);
    const words = this.say(point);
    if (this.words.textContent !== words) this.words.textContent = words;
  }

  say({ far, level, who, asks }) {
    const progress = far === null ? "progress: known after 5 successes alone" : `progress ${Math.round(100 * Math.min(1, far))} %`;
    const state = asks ? "asks for help" : who === "script" ? "goes back the way it came, to try again" : who === "person" ? "in a person's hand" : level > 1 ? "stuck" : level > NEARLY ? "slower than usual" : "as usual";
    return `${progress} · ${state}`;
  }

  draw(longest) {
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const ratio = devicePixelRatio, width = (this.canvas.width = this.canvas.clientWidth * ratio), height = (this.canvas.height = this.canvas.clientHeight * ratio);
    const g = this.canvas.getContext("2d"), strip = STRIP * ratio, top = height - strip - 2 * ratio;
    const x = (step) => (step / Math.max(longest, 1)) * width, y = (far) => top - Math.max(0, Math.min(1, far)) * (top - 2 * ratio);
    g.clearRect(0, 0, width, height);
    g.fillStyle = colour("soft");
    g.fillRect(0, height - strip, width, strip);
    this.points.forEach(({ step, level, who, asks }, i) => {
      const from = x(this.points[i - 1]?.step ?? step - 1);
      g.fillStyle = colour(who === "person" ? "you" : who === "script" ? "script" : asks || level > 1 ? "halt" : level > NEARLY ? "warn" : "policy");
      g.fillRect(from, height - strip, Math.max(ratio, x(step) - from), strip);
    });
    const known = this.points.filter(({ far }) => far !== null);
    g.strokeStyle = colour("ink");
    g.lineWidth = 1.5 * ratio;
    g.beginPath();
    known.forEach(({ step, far }, i) => (i ? g.lineTo(x(step), y(far)) : g.moveTo(x(step), y(far))));
    g.stroke();
  }
}
