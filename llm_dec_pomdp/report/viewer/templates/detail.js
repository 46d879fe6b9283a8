// Details of the chosen event; with two traces, of the event in both, with the different words marked.

function element(name, text, parent, kind) {
  const node = document.createElement(name);
  if (text !== undefined && text !== null) node.textContent = text;
  if (kind) node.className = kind;
  if (parent) parent.append(node);
  return node;
}

function button(text, parent, act, kind) {
  const node = element("button", text, parent, kind);
  node.type = "button";
  node.addEventListener("click", act);
  return node;
}

class Detail {
  constructor(parent, choose, close) {
    this.choose = choose;
    this.box = element("section", null, parent, "detail");
    this.box.tabIndex = -1;
    this.box.setAttribute("aria-label", "Chosen event");
    this.close = close;
  }

  // sides: [{model, row, number}]; row is undefined if a trace has no such event
  show(sides) {
    this.box.replaceChildren();
    this.box.hidden = sides.length === 0;
    if (!sides.length) return;
    button("Close", this.box, this.close, "close").setAttribute("aria-label", "Close the event");
    const texts = sides.map((side) => (side.row === undefined ? [] : textsOf(side.model.events[side.row])));
    const columns = element("div", null, this.box, "columns");
    sides.forEach((side, place) => {
      const column = element("article", null, columns);
      if (side.row === undefined) element("p", "No such event in this trace.", column, "soft");
      else this.describe(side, texts[place], texts.length === 2 ? texts[1 - place] : null, place, column);
    });
    this.box.scrollTop = 0;
  }

  describe(side, texts, others, place, column) {
    const event = side.model.events[side.row];
    const head = element("h3", null, column);
    head.append(symbol(event.type, colourOf(side.model.lanes.get(event.agent).number)));
    head.append(`${side.model.called(event.agent)} · ${spoken(event.type)}${event.to ? " → " + side.model.called(event.to) : ""}`);
    const twins = new Map(others);
    for (const [name, text] of texts) {
      const fold = name === "thought" ? element("details", null, column, "facts") : column; // private to its agent
      if (name) element(fold === column ? "h4" : "summary", fold === column ? spoken(name) : "Thought (private)", fold);
      const block = element("pre", null, fold);
      const twin = twins.get(name);
      if (twin === undefined || twin === text) block.textContent = text;
      else for (const run of difference(place ? twin : text, place ? text : twin)[place]) element(run.same ? "span" : "mark", run.text, block);
    }
    if (!texts.length && (event.type === "message" || event.content_ref)) element("p", "No text is stored with this event.", column, "soft");
    this.links(side, column);
    const fold = element("details", null, column, "facts");
    fold.open = !texts.length || Boolean(event.score);
    element("summary", "All recorded fields", fold);
    const facts = element("dl", null, fold);
    for (const [name, value] of factsOf(event)) {
      element("dt", name, facts);
      element("dd", rounded(value), facts);
    }
  }

  links(side, column) {
    const lists = [["Follows from", side.model.into[side.row], "from"], ["Leads to", side.model.out[side.row], "to"]];
    for (const [title, edges, end] of lists) {
      if (!edges.length) continue;
      element("h4", title, column);
      const list = element("ul", null, column, "links");
      for (const edge of edges.slice(0, 50)) {
        const other = side.model.events[edge[end]];
        const line = button(null, element("li", null, list), () => this.choose(side.number, edge[end]));
        line.append(symbol(other.type, colourOf(side.model.lanes.get(other.agent).number)), `${side.model.called(other.agent)} · ${spoken(edge.type)}  `);
        element("span", summary(other, side.model), line, "soft");
      }
      if (edges.length > 50) element("p", `and ${edges.length - 50} more`, column, "soft");
    }
  }
}
