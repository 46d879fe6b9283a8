// One trace: its menus, rewards and costs, lanes and rows. Only visible rows are in the document.

const SPARE = 16; // extra rows above and below, so that not every frame of scrolling draws
const SLANTED = 56; // names of lanes narrower than this many pixels are slanted

class Pane {
  constructor(viewer, number, parent) {
    this.viewer = viewer;
    this.number = number;
    this.selected = null;
    this.box = element("section", null, parent, "pane");
    this.box.setAttribute("aria-label", `Trace ${"AB"[number]}`);
    this.choices = element("div", null, this.box, "choices");
    this.about = element("div", null, this.box, "about");
    this.strip = new Strip(this.box, (share) => this.scrollTo(share * this.shown.length, "middle"));
    this.heads = element("div", null, this.box, "heads");
    this.heads.setAttribute("aria-hidden", "true");
    this.list = element("div", null, this.box, "list");
    this.list.tabIndex = 0;
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "Events in order of time");
    this.space = element("div", null, this.list, "space");
    this.space.setAttribute("role", "presentation");
    this.picture = new Lanes(this.space);
    this.rows = new Map();
    this.waiting = false;
    this.list.addEventListener("scroll", () => this.later());
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) viewer.choose(number, Number(row.dataset.row));
    });
    new ResizeObserver(() => this.arrange()).observe(this.list);
  }

  open(model) {
    this.model = model;
    this.selected = null;
    this.twins = null;
    this.list.scrollTop = 0;
    this.tell();
    this.filter();
  }

  tell() {
    this.about.replaceChildren();
    const { trace } = this.model;
    const numbers = element("ul", null, this.about, "numbers");
    const facts = [trace.topology && trace.topology !== "unknown" ? spoken(trace.topology) : "", `${this.model.events.length.toLocaleString("en")} events`];
    element("li", facts.filter(Boolean).join(" · "), numbers);
    const groups = [["reward", trace.rewards], ["cost", trace.costs], ["metric", trace.metrics || {}]];
    for (const [kind, values] of groups) {
      for (const name of Object.keys(values)) {
        const item = element("li", (kind === "reward" ? this.model.called(name) : spoken(name)) + " ", numbers, kind);
        element("b", values[name] === null ? "–" : rounded(values[name]), item);
      }
    }
    if (this.model.lost) element("p", `${this.model.lost} edges refer to events that do not exist.`, this.about, "warning");
  }

  // Which events and lanes are shown.
  filter() {
    const { agents, types } = this.viewer.hidden;
    this.shown = [];
    this.places = new Int32Array(this.model.events.length).fill(-1);
    this.from = new Int32Array(this.model.events.length + 1);
    this.model.events.forEach((event, row) => {
      this.from[row] = this.shown.length;
      if (agents.has(event.agent) || types.has(event.type)) return;
      this.places[row] = this.shown.length;
      this.shown.push(row);
    });
    this.from[this.model.events.length] = this.shown.length;
    this.visible = this.model.agents.filter((agent) => !agents.has(agent.name));
    this.arrange();
  }

  placeFrom(row) {
    return this.from[Math.min(row, this.model.events.length)];
  }

  arrange() {
    if (!this.model || !this.list.clientWidth) return;
    const whole = this.list.clientWidth;
    this.row = matchMedia("(pointer: coarse)").matches ? 40 : 28;
    const gutter = whole < 480 ? 44 : 62;
    const pitch = Math.min(whole < 480 ? 30 : 92, (whole * (whole < 480 ? 0.34 : 0.42)) / Math.max(1, this.visible.length));
    this.lanes = new Map(this.visible.map((agent, place) => [agent.name, gutter + (place + 0.5) * pitch]));
    this.width = Math.ceil(gutter + pitch * this.visible.length);
    this.space.style.height = `${this.shown.length * this.row}px`;
    this.box.style.setProperty("--drawing", `${this.width}px`);
    this.box.style.setProperty("--gutter", `${gutter}px`);
    this.box.style.setProperty("--row", `${this.row}px`);
    this.head(pitch);
    this.strip.show(this);
    this.refresh();
  }

  head(pitch) {
    this.heads.replaceChildren();
    this.heads.className = "heads" + (pitch < 13 ? " none" : pitch < SLANTED ? " slanted" : "");
    if (pitch < 13) return;
    element("small", "time", element("span", null, this.heads, "clock"));
    for (const agent of this.visible) {
      const label = element("span", null, this.heads, colourOf(agent.number));
      label.style.left = `${this.lanes.get(agent.name)}px`;
      label.style.maxWidth = pitch < SLANTED ? "" : `${pitch - 2}px`;
      label.title = agent.name + (agent.role ? " · " + agent.role : "");
      const names = agent.title === agent.name ? [agent.name, agent.role] : [agent.role, agent.name];
      element("b", pitch < SLANTED ? agent.title : names[0], label);
      if (names[1] && names[1] !== names[0]) element("small", names[1], label);
    }
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  // Draws all rows again, after their content has changed.
  refresh() {
    for (const node of this.rows.values()) node.remove();
    this.rows.clear();
    this.drawn = [0, -1];
    this.draw();
  }

  draw() {
    if (!this.model || !this.lanes) return;
    const [top, height] = [this.list.scrollTop / this.row, this.list.clientHeight / this.row];
    const count = Math.max(1, this.shown.length);
    this.strip.move(Math.min(1, top / count), Math.min(1, (top + height) / count));
    const [above, below] = [Math.floor(top), Math.min(this.shown.length, Math.ceil(top + height))];
    if (above < this.drawn[0] || below > this.drawn[1]) this.drawRows(Math.max(0, above - SPARE), Math.min(this.shown.length, below + SPARE));
  }

  drawRows(first, last) {
    this.drawn = [first, last];
    const needed = new Set(this.shown.slice(first, last));
    if (this.selected !== null && this.places[this.selected] >= 0) needed.add(this.selected); // the active row stays in the document
    for (const [row, node] of this.rows) if (!needed.has(row)) { node.remove(); this.rows.delete(row); }
    for (const row of needed) if (!this.rows.has(row)) this.rows.set(row, this.space.appendChild(this.line(row)));
    this.picture.draw(this, first, last);
  }

  line(row) {
    const event = this.model.events[row];
    const place = this.places[row];
    const node = element("div", null, null, "row");
    node.id = `${this.viewer.name}-${this.number}-${row}`;
    node.dataset.row = row;
    node.setAttribute("role", "option");
    node.setAttribute("aria-selected", String(row === this.selected));
    node.setAttribute("aria-setsize", this.shown.length);
    node.setAttribute("aria-posinset", place + 1);
    node.style.transform = `translateY(${place * this.row}px)`;
    this.when(row, place, node);
    const twin = this.twins && this.twins[row];
    if (twin && !twin.same) element("span", twin.twin === undefined ? "+" : "≠", node, "other").title = twin.twin === undefined ? "only in this trace" : "has another text in the other trace";
    const colour = colourOf(this.model.lanes.get(event.agent).number);
    element("span", this.model.called(event.agent), node, "who " + colour);
    element("span", spoken(event.type), node, "what");
    element("span", summary(event, this.model), node, "text");
    const tokens = tokensOf(event);
    if (tokens) element("span", `${rounded(tokens)} tok`, node, "figure cost");
    if (Number.isFinite(event.reward)) element("span", (event.reward > 0 ? "+" : "") + rounded(event.reward), node, event.reward === 0 ? "figure" : "figure reward");
    node.classList.toggle("match", this.viewer.matches(this, row));
    return node;
  }

  // The number of the turn in its first row, else the time if it differs from the row above.
  when(row, place, node) {
    const [event, before] = [this.model.events[row], this.model.events[this.shown[place - 1]] || {}];
    const begins = Number.isInteger(event.turn) && event.turn !== before.turn;
    const time = begins ? `turn ${event.turn + 1}` : Number.isFinite(event.t) && event.t !== before.t ? rounded(event.t) : "";
    element("span", time, node, "when");
    node.classList.toggle("begins", begins);
  }

  choose(row) {
    this.selected = row;
    if (row === null) this.list.removeAttribute("aria-activedescendant");
    else this.list.setAttribute("aria-activedescendant", `${this.viewer.name}-${this.number}-${row}`);
    if (row !== null && this.places[row] >= 0) this.scrollTo(this.places[row], "near");
    this.refresh();
  }

  scrollTo(place, where) {
    if (place < 0) return; // hidden by a filter
    const [top, height] = [place * this.row, this.list.clientHeight];
    if (where === "middle") this.list.scrollTop = top - height / 2;
    else if (top < this.list.scrollTop + this.row) this.list.scrollTop = top - 2 * this.row;
    else if (top + 2 * this.row > this.list.scrollTop + height) this.list.scrollTop = top + 3 * this.row - height;
  }

  // The row that a key leads to; undefined for other keys.
  after(key) {
    const last = this.shown.length - 1;
    const here = this.selected === null || this.places[this.selected] < 0 ? -1 : this.places[this.selected];
    const page = Math.max(1, Math.floor(this.list.clientHeight / this.row) - 1);
    const steps = { ArrowDown: here + 1, j: here + 1, ArrowUp: here - 1, k: here - 1, PageDown: here + page, PageUp: here - page, Home: 0, End: last };
    if (key in steps) return this.shown[Math.max(0, Math.min(last, steps[key]))];
    const edges = this.selected === null ? [] : { ArrowLeft: this.model.into, ArrowRight: this.model.out }[key]?.[this.selected] || [];
    const ends = edges.map((edge) => (key === "ArrowLeft" ? edge.from : edge.to)).filter((row) => this.places[row] >= 0);
    return ends[0];
  }
}
