// The viewer: one trace or two side by side, with filters, search and keyboard.

class Viewer {
  constructor(root, data) {
    this.name = root.id;
    this.data = data;
    this.models = new Map();
    this.hidden = { agents: new Set(), types: new Set() };
    this.query = "";
    root.replaceChildren();
    root.classList.add("viewer");
    this.bar = element("div", null, root, "bar");
    this.makeBar();
    this.work = element("div", null, root, "work");
    const panes = element("div", null, this.work, "panes");
    this.panes = [0, 1].map((number) => new Pane(this, number, panes));
    this.detail = new Detail(this.work, (number, row) => this.choose(number, row), () => this.leave());
    this.status = element("p", null, root, "unseen");
    this.status.setAttribute("role", "status");
    (root.parentElement === document.body && document.body.classList.contains("alone") ? document : root).addEventListener("keydown", (event) => this.key(event));
    this.pick(0, 0);
    this.compare("two" in root.dataset && innerWidth > 768 && data.traces.length > 1);
  }

  makeBar() {
    const label = element("label", "Search ", this.bar, "search");
    this.search = element("input", null, label);
    this.search.type = "search";
    this.search.placeholder = "words of a text, a tool, a name";
    this.search.addEventListener("input", () => this.seek());
    this.hits = element("span", null, label, "soft");
    this.both = button("Two side by side", this.bar, () => this.compare(!this.comparing));
    this.both.hidden = this.data.traces.length < 2;
    this.chips = this.fold("Agents and types", "chips", innerWidth > 768);
    this.agents = this.group("Agents shown");
    this.types = this.group("Types of events shown");
    const help = this.fold("Keys", "help", false);
    element("p", "↑ ↓ or k j: previous or next event · ← →: the event that it follows from or leads to · Page, Home, End · Enter: text of the event · /: search, then n and p: next or previous match · Esc: back", help);
  }

  // A button, and the panel below the bar that it opens.
  fold(name, kind, open) {
    const panel = element("div", null, this.bar, kind);
    const toggle = button(name, null, () => {
      panel.hidden = !panel.hidden;
      toggle.setAttribute("aria-expanded", String(!panel.hidden));
    }, "fold");
    toggle.setAttribute("aria-expanded", String(open));
    this.bar.insertBefore(toggle, this.bar.querySelector("div"));
    panel.hidden = !open;
    return panel;
  }

  group(name) {
    const group = element("div", null, this.chips, "group");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", name);
    return group;
  }

  // --- which traces ---

  model(index) {
    if (!this.models.has(index)) this.models.set(index, new Model(withTexts(this.data.traces[index], this.data.texts)));
    return this.models.get(index);
  }

  // The other trace that shares the most fields with this one.
  neighbour(index) {
    const mine = this.data.choices[index];
    const alike = (other) => other.filter((value, place) => value === mine[place]).length;
    let best = index;
    this.data.choices.forEach((other, place) => {
      if (place !== index && (best === index || alike(other) > alike(this.data.choices[best]))) best = place;
    });
    return best;
  }

  pick(number, index) {
    const pane = this.panes[number];
    pane.index = index;
    pane.choices.replaceChildren();
    this.data.fields.forEach((field, place) => this.menu(pane, field, place));
    pane.open(this.model(index));
    this.refill();
    this.match();
    this.leave();
  }

  menu(pane, field, place) {
    const mine = this.data.choices[pane.index];
    const before = this.data.choices.filter((other) => other.slice(0, place).every((value, at) => value === mine[at]));
    const values = [...new Set(before.map((other) => other[place]))];
    if (new Set(this.data.choices.map((other) => other[place])).size < 2) return;
    const label = element("label", spoken(field) + " ", pane.choices);
    const select = element("select", null, label);
    for (const value of values) element("option", value, select).selected = value === mine[place];
    select.addEventListener("change", () => {
      this.pick(pane.number, this.closest(mine, place, values[select.selectedIndex]));
      pane.choices.querySelectorAll("select").forEach((other) => { if (other.parentElement.firstChild.data === label.firstChild.data) other.focus(); });
    });
  }

  // The trace with this value that has the same earlier fields and shares as many other fields as possible.
  closest(mine, place, value) {
    let [best, most] = [0, -1];
    this.data.choices.forEach((other, index) => {
      if (other[place] !== value || mine.slice(0, place).some((same, at) => other[at] !== same)) return;
      const alike = other.filter((name, at) => name === mine[at]).length;
      if (alike > most) [best, most] = [index, alike];
    });
    return best;
  }

  compare(on) {
    this.comparing = on;
    this.both.setAttribute("aria-pressed", String(on));
    this.work.classList.toggle("two", on);
    this.panes[1].box.hidden = !on;
    if (on && !this.panes[1].model) this.pick(1, this.neighbour(this.panes[0].index));
    this.refill();
    this.match();
    this.leave();
  }

  match() {
    const [left, right] = this.panes;
    left.twins = this.comparing && right.model ? compareModels(left.model, right.model) : null;
    right.twins = this.comparing && right.model ? compareModels(right.model, left.model) : null;
    for (const pane of this.active) pane.arrange();
  }

  get active() {
    return this.panes.filter((pane) => pane.model && (pane.number === 0 || this.comparing));
  }

  // --- what is shown ---

  refill() {
    const count = (map, name) => map.set(name, (map.get(name) || 0) + 1);
    const [agents, types, lanes] = [new Map(), new Map(), new Map()];
    for (const pane of this.active) {
      for (const agent of pane.model.agents) { agents.set(agent.name, agents.get(agent.name) || 0); lanes.set(agent.name, lanes.get(agent.name) ?? agent); }
      for (const event of pane.model.events) { count(agents, event.agent); count(types, event.type); }
    }
    this.switches(this.agents, agents, this.hidden.agents, (name) => lanes.get(name).title, (name, node) => element("i", null, node, colourOf(lanes.get(name).number)));
    this.switches(this.types, new Map(TYPES.filter((type) => types.has(type)).map((type) => [type, types.get(type)])), this.hidden.types, spoken, (type, node) => node.append(symbol(type, "plain")));
  }

  switches(group, counts, hidden, named, picture) {
    group.replaceChildren();
    for (const [name, count] of [...counts].slice(0, MOST_LANES)) {
      const node = button(null, group, () => {
        if (!hidden.delete(name)) hidden.add(name);
        node.setAttribute("aria-pressed", String(!hidden.has(name)));
        for (const pane of this.active) pane.filter();
        this.seek();
      });
      node.setAttribute("aria-pressed", String(!hidden.has(name)));
      picture(name, node);
      node.append(` ${named(name)} `);
      element("small", count.toLocaleString("en"), node);
    }
    if (counts.size > MOST_LANES) element("small", `and ${(counts.size - MOST_LANES).toLocaleString("en")} more`, group);
  }

  // --- search ---

  matches(pane, row) {
    return this.query !== "" && pane.model.words(row).includes(this.query);
  }

  seek() {
    this.query = this.search.value.trim().toLowerCase();
    const many = this.active.map((pane) => pane.shown.filter((row) => this.matches(pane, row)).length);
    this.hits.textContent = this.query ? many.map((count) => `${count.toLocaleString("en")} events`).join(" | ") : "";
    this.status.textContent = this.hits.textContent;
    for (const pane of this.active) { pane.box.classList.toggle("sought", this.query !== ""); pane.refresh(); }
  }

  step(pane, way) {
    const here = pane.selected === null ? (way > 0 ? -1 : pane.shown.length) : pane.places[pane.selected];
    for (let place = here + way; place >= 0 && place < pane.shown.length; place += way) {
      if (this.matches(pane, pane.shown[place])) return this.choose(pane.number, pane.shown[place]);
    }
    return undefined;
  }

  // --- the chosen event ---

  choose(number, row) {
    const pane = this.panes[number];
    pane.choose(row);
    const sides = [{ model: pane.model, row, number }];
    if (this.comparing) {
      const other = this.panes[1 - number];
      const twin = pane.twins[row].twin;
      other.choose(twin === undefined ? null : twin);
      if (other.places[twin] >= 0) other.list.scrollTop = pane.list.scrollTop + (other.places[twin] - pane.places[row]) * pane.row; // side by side
      sides.splice(number ? 0 : 1, 0, { model: other.model, row: twin, number: 1 - number });
    }
    this.detail.show(sides);
    this.work.classList.add("reading");
    requestAnimationFrame(() => pane.scrollTo(pane.places[row], "near"));
  }

  leave() {
    this.work.classList.remove("reading");
    this.detail.show([]);
    for (const pane of this.active) pane.choose(null);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, select");
    const pane = this.active.find((candidate) => candidate.box.contains(event.target)) || this.panes[0];
    if (event.key === "Escape") this.back(event, pane);
    else if (event.target === this.search && event.key === "Enter") this.step(pane, event.shiftKey ? -1 : 1);
    else if (typing) return;
    else if (event.key === "/") { this.search.focus(); event.preventDefault(); } // or it would be typed
    else if (event.key === "n" || event.key === "p") this.step(pane, event.key === "n" ? 1 : -1);
    else if (event.target === pane.list) this.move(event, pane);
  }

  move(event, pane) {
    if (event.key === "Enter" && pane.selected !== null) this.detail.box.focus();
    const row = pane.after(event.key);
    if (row !== undefined) this.choose(pane.number, row);
    if (row !== undefined || event.key.startsWith("Arrow")) event.preventDefault();
  }

  back(event, pane) {
    if (this.detail.box.contains(event.target)) return pane.list.focus();
    if (event.target === this.search) { this.search.value = ""; this.seek(); return pane.list.focus(); }
    return this.leave();
  }
}

async function startViewers() {
  const [root, packed] = ["viewer", "traces"].map((id) => document.getElementById(id));
  try {
    const data = await unpack(packed.textContent);
    if (data.traces.length) new Viewer(root, data);
  } catch (error) {
    element("p", `The traces of this page cannot be shown: ${error.message}`, root, "warning");
    throw error;
  }
}
startViewers();
