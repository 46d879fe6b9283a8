// An overview of the whole trace: events of each agent over time, and cumulative reward and tokens. A click scrolls there.

const COLUMNS = 600; // points of a curve; a screen has not many more

class Strip {
  constructor(parent, goTo) {
    const strip = element("div", null, parent, "strip");
    this.box = element("div", null, strip, "plot");
    this.picture = drawn("svg", { viewBox: `0 0 ${COLUMNS} 100`, preserveAspectRatio: "none", "aria-hidden": "true" }, this.box);
    this.window = element("div", null, this.box, "window");
    this.labels = element("div", null, strip, "high");
    const go = (event) => {
      const box = this.picture.getBoundingClientRect();
      goTo((event.clientX - box.left) / box.width);
    };
    this.box.addEventListener("pointerdown", (event) => { this.box.setPointerCapture(event.pointerId); go(event); });
    this.box.addEventListener("pointermove", (event) => { if (this.box.hasPointerCapture(event.pointerId)) go(event); });
  }

  // Rows are spaced evenly, as in the list, so that the window matches the visible part of the list.
  show(view) {
    this.picture.replaceChildren();
    this.labels.replaceChildren();
    const ticksEnd = view.model.paid || view.model.spent ? 46 : 100; // the curves use the remaining height
    const count = view.shown.length;
    const tops = new Map([...view.lanes.keys()].map((name, number) => [name, number]));
    const height = ticksEnd / Math.max(1, tops.size);
    const ticks = new Map();
    const seen = new Set();
    view.shown.forEach((row, place) => {
      const agent = view.model.events[row].agent;
      const column = Math.floor((place / count) * COLUMNS);
      const mark = agent + "\u0001" + column;
      if (seen.has(mark)) return;
      seen.add(mark);
      const top = tops.get(agent) * height;
      const colour = colourOf(view.model.lanes.get(agent).number);
      const wide = Math.max(1, COLUMNS / count - 1);
      ticks.set(colour, (ticks.get(colour) || "") + `M${column} ${(top + height * 0.15).toFixed(2)}h${wide.toFixed(2)}v${(height * 0.7).toFixed(2)}h-${wide.toFixed(2)}Z`);
    });
    for (const [colour, d] of ticks) drawn("path", { d, class: "tick " + colour }, this.picture);
    if (view.model.paid) this.curve(view, view.model.rewards, "reward", "reward");
    if (view.model.spent) this.curve(view, view.model.tokens, "cost", "tokens");
  }

  curve(view, values, kind, name) {
    const [low, high] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [0, 0]);
    const y = (value) => (95 - (43 * (value - low)) / (high - low || 1)).toFixed(1);
    const count = view.shown.length;
    let d = "M0 " + y(0);
    for (let column = 0; column < Math.min(COLUMNS, count); column += 1) {
      const place = Math.floor(((column + 1) * count) / Math.min(COLUMNS, count)) - 1;
      d += `H${((column * COLUMNS) / Math.min(COLUMNS, count)).toFixed(1)}V${y(values[view.shown[place]])}`;
    }
    drawn("path", { d: d + `H${COLUMNS}`, class: "curve " + kind }, this.picture);
    element("span", `${name} ${rounded(values[values.length - 1])}`, this.labels, kind);
  }

  move(from, to) {
    this.window.style.left = `${100 * from}%`;
    this.window.style.width = `${Math.max(0.4, 100 * (to - from))}%`;
  }
}
