// The operator's input: held keys, a gamepad, and the heartbeat that shows that this page is still there.

const BEAT_MS = 25; // between two readings of the gamepad
const ALIVE_MS = 45; // an unchanged command is sent again after so long

const NAMES = { Space: "Space", Escape: "Esc", Enter: "Enter", Backspace: "⌫", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", ShiftLeft: "Shift" };
export const keyName = (code) => NAMES[code] ?? code.replace(/^Key|^Digit/, "");
const typing = (target) => target.closest?.("input:not([type=range]), select, textarea, [contenteditable]");

export class OperatorInput {
  /** `send(message)` sends to the hub; `ask(command)` runs a command of a key or button. */
  constructor(send, ask) {
    Object.assign(this, { send, ask, held: new Set(), holding: false, byPad: false, number: 0, motion: new Set(), commands: {}, pad: {}, before: new Set() });
    addEventListener("keydown", (event) => this.down(event));
    addEventListener("keyup", (event) => this.up(event.code));
    addEventListener("blur", () => this.clear());
    document.addEventListener("visibilitychange", () => document.hidden && this.clear());
    setInterval(() => this.beat(), BEAT_MS);
  }

  /** Keys and buttons, from the hub's mapping. */
  setMapping({ keys, key_commands, pad_commands, hold }) {
    this.motion = new Set(keys);
    this.commands = key_commands;
    this.pad = { commands: pad_commands, hold };
  }

  down(event) {
    const wanted = this.commands[event.code];
    if (wanted === "stop") { // wherever the focus is; STOP always works
      event.preventDefault();
      this.ask(wanted);
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (this.motion.has(event.code)) {
      if (!this.holding) return;
      event.preventDefault(); // arrows would scroll the page
      if (!event.repeat) this.press(event.code);
      return;
    }
    // Space and Enter press a focused button
    const taken = event.target.closest?.("button, summary, a, select") && ["Space", "Enter"].includes(event.code);
    if (!wanted || event.repeat || taken) return;
    event.preventDefault();
    this.ask(wanted);
  }

  press(code) {
    if (!this.held.size) this.turned = this.turn?.() ?? null;
    this.held.add(code);
    this.beat();
    this.changed?.();
  }

  up(code) {
    if (this.held.delete(code)) {
      this.beat();
      this.changed?.();
    }
  }

  /** A window without focus gets no key-up event. */
  clear() {
    if (!this.held.size) return;
    this.held.clear();
    this.beat();
    this.changed?.();
  }

  gamepad() {
    const found = [...(navigator.getGamepads?.() ?? [])].find((pad) => pad && pad.connected);
    return found ? { id: found.id, axes: found.axes.map((axis) => Number(axis.toFixed(3))), buttons: found.buttons.map((button) => Number(button.value.toFixed(2))) } : null;
  }

  beat() {
    const pad = this.gamepad();
    if (pad) this.buttons(pad);
    if (pad?.id !== this.padId) {
      this.padId = pad?.id;
      this.changed?.();
    }
    if (!this.holding || document.hidden) return; // a hidden page does not keep control
    const atRest = !this.held.size && !(pad?.axes ?? []).some((axis) => Math.abs(axis) > 0.1);
    if (atRest) this.turned = this.turn?.() ?? null; // a motion keeps its direction, even if the viewpoint changes meanwhile
    const message = { do: "steer", keys: [...this.held], turn: this.turned };
    if (pad) message.pad = { axes: pad.axes, buttons: pad.buttons };
    const text = JSON.stringify(message), now = performance.now();
    if (text === this.sentText && now - this.sentAt < ALIVE_MS) return;
    Object.assign(this, { sentText: text, sentAt: now });
    this.send({ ...message, number: ++this.number });
  }

  /** Buttons act when pressed; the one that holds control acts as long as it is pressed. */
  buttons(pad) {
    const pressed = new Set(pad.buttons.flatMap((value, i) => (value > 0.5 ? [String(i)] : [])));
    const holds = (this.pad.hold ?? []).some((button) => pressed.has(button));
    if (holds && !this.holding && !this.asked) {
      this.asked = this.byPad = true;
      this.ask("take");
    }
    if (!holds) {
      this.asked = false;
      if (this.byPad && this.holding) this.ask("let_go");
      this.byPad = this.byPad && this.holding;
    }
    for (const button of pressed) if (!this.before.has(button) && this.pad.commands?.[button]) this.ask(this.pad.commands[button]);
    this.before = pressed;
  }
}
