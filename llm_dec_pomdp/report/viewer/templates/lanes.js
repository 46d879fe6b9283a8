// The drawing next to the visible rows: a line for each agent, a mark for each event, arrows for messages.

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8;
const MOST_ARROWS = 600; // in one picture; the shortest ones are kept
const MOST_LANES = 200; // with more agents, only those of visible rows have a line
const SHAPES = { // around 0 0
  orchestrator_decision: "M0-7L7 0L0 7L-7 0Z",
  spawn: "M-5-6L7 0L-5 6Z",
  despawn: "M-5-5L5 5M5-5L-5 5",
  message: "M-5.5 0A5.5 5.5 0 1 0 5.5 0A5.5 5.5 0 1 0-5.5 0Z",
  tool_call: "M-5-5H5V5H-5Z",
  tool_result: "M-5-5H5V5H-5Z",
  return: "M5-6L-7 0L5 6Z",
  aggregate: "M-7 0L-3.5-6H3.5L7 0L3.5 6H-3.5Z",
  human_intervention: "M0-7L7-1.5L4.5 6H-4.5L-7-1.5Z",
  safety_event: "M-3-7H3L7-3V3L3 7H-3L-7 3V-3Z",
};
const shapeOf = (type) => (Object.hasOwn(SHAPES, type) ? SHAPES[type] : SHAPES.message);
const HOLLOW = new Set(["tool_result", "despawn"]);

function drawn(name, attributes, parent) {
  const node = document.createElementNS(SVG, name);
  for (const key of Object.keys(attributes)) node.setAttribute(key, attributes[key]);
  if (parent) parent.append(node);
  return node;
}

function colourOf(number) {
  return "c" + (number % COLOURS);
}

function symbol(type, colour) {
  const picture = drawn("svg", { viewBox: "-9 -9 18 18", class: "symbol", "aria-hidden": "true" });
  drawn("path", { d: shapeOf(type), class: "node " + colour + (HOLLOW.has(type) ? " hollow" : "") }, picture);
  return picture;
}

// A straight arrow that ends before both marks; a curve within one lane.
function arrow(x1, y1, x2, y2) {
  if (x1 === x2) {
    const bow = x1 + Math.min(26, 8 + Math.abs(y2 - y1) / 6);
    return `M${x1 + 5} ${y1 + 4}C${bow} ${y1 + 14} ${bow} ${y2 - 14} ${x2 + 6} ${y2 - 5}` + tip(x2 + 6, y2 - 5, -0.75, 0.66);
  }
  const length = Math.hypot(x2 - x1, y2 - y1);
  const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
  const [ex, ey] = [x2 - 8 * ux, y2 - 8 * uy];
  return `M${(x1 + 7 * ux).toFixed(1)} ${(y1 + 7 * uy).toFixed(1)}L${ex.toFixed(1)} ${ey.toFixed(1)}` + tip(ex, ey, ux, uy);
}

function tip(x, y, ux, uy) {
  const corner = (side) => `${(x - 6 * ux - side * 3.5 * uy).toFixed(1)} ${(y - 6 * uy + side * 3.5 * ux).toFixed(1)}`;
  return `M${corner(1)}L${x.toFixed(1)} ${y.toFixed(1)}L${corner(-1)}`;
}

class Lanes {
  constructor(parent) {
    this.picture = drawn("svg", { class: "lanes", "aria-hidden": "true" }, parent);
    this.layers = ["lives", "arrows", "marked", "nodes"].map((name) => drawn("g", { class: name }, this.picture));
  }

  // view: model, shown (rows), places (row -> place or -1), lanes (agent -> x), row (height), width, selected, reading
  draw(view, first, last) {
    const top = first * view.row;
    this.picture.style.transform = `translateY(${top}px)`;
    this.picture.setAttribute("width", view.width);
    this.picture.setAttribute("height", Math.max(0, (last - first) * view.row));
    const [lives, arrows, marked, nodes] = this.layers;
    const y = (place) => (place - first + 0.5) * view.row;
    this.drawLives(view, first, last, lives);
    this.drawArrows(view, first, last, y, arrows, marked);
    const pictures = [];
    for (let place = first; place < last; place += 1) pictures.push(this.node(view, view.shown[place], y(place)));
    nodes.replaceChildren(...pictures);
    this.picture.classList.toggle("reading", view.selected !== null);
  }

  node(view, row, y) {
    const event = view.model.events[row];
    const lane = view.model.lanes.get(event.agent);
    const kind = `node ${colourOf(lane.number)}${HOLLOW.has(event.type) ? " hollow" : ""}${row === view.selected ? " chosen" : ""}`;
    return drawn("path", { d: shapeOf(event.type), class: kind, transform: `translate(${view.lanes.get(event.agent)} ${y})` });
  }

  drawLives(view, first, last, layer) {
    const paths = [];
    const seen = new Set(view.shown.slice(first, last).map((row) => view.model.events[row].agent));
    for (const name of view.lanes.size > MOST_LANES ? seen : view.lanes.keys()) {
      const [lane, x] = [view.model.lanes.get(name), view.lanes.get(name)];
      const start = Math.max(first, view.placeFrom(lane.first) + 0.5);
      const end = Math.min(last, view.placeFrom(lane.last + 1) - (lane.gone ? 0.5 : 0));
      if (end <= start) continue;
      const d = `M${x} ${(start - first) * view.row}V${(end - first) * view.row}`;
      paths.push(drawn("path", { d, class: "life " + colourOf(lane.number) }));
    }
    layer.replaceChildren(...paths);
  }

  drawArrows(view, first, last, y, layer, marked) {
    const groups = new Map();
    const add = (kind, d) => groups.set(kind, (groups.get(kind) || "") + d);
    const x = (row) => view.lanes.get(view.model.events[row].agent);
    for (const edge of this.near(view, first, last)) {
      const colour = colourOf(view.model.lanes.get(view.model.events[edge.from].agent).number);
      const mine = edge.from === view.selected || edge.to === view.selected;
      const d = arrow(x(edge.from), y(view.places[edge.from]), x(edge.to), y(view.places[edge.to]));
      add(`${mine ? "mine " : ""}edge ${edge.type} ${colour}`, d);
    }
    for (let place = first; place < last; place += 1) {
      const event = view.model.events[view.shown[place]];
      const answered = event.type !== "spawn" && view.model.out[view.shown[place]].some((edge) => view.model.events[edge.to].agent === event.to);
      const to = answered || event.to === event.agent ? undefined : view.lanes.get(event.to);
      if (to !== undefined) {
        const colour = colourOf(view.model.lanes.get(event.agent).number);
        add(`${view.shown[place] === view.selected ? "mine " : ""}edge sent ${colour}`, arrow(x(view.shown[place]), y(place), to + (to > x(view.shown[place]) ? 8 : -8), y(place)));
      }
    }
    const paths = [...groups].map(([kind, d]) => drawn("path", { d, class: kind }));
    layer.replaceChildren(...paths.filter((path) => !path.classList.contains("mine")));
    marked.replaceChildren(...paths.filter((path) => path.classList.contains("mine")));
  }

  // Edges that start or end at a visible row; edges of mere temporal order are drawn only for the selected event.
  near(view, first, last) {
    const edges = new Set();
    for (let place = first; place < last; place += 1) {
      const row = view.shown[place];
      for (const edge of [...view.model.out[row], ...view.model.into[row]]) {
        const mine = edge.from === view.selected || edge.to === view.selected;
        const hidden = view.places[edge.from] < 0 || view.places[edge.to] < 0;
        const plain = edge.type === "temporal" || view.model.events[edge.from].agent === view.model.events[edge.to].agent;
        if (!hidden && (mine || !plain)) edges.add(edge);
      }
    }
    if (edges.size <= MOST_ARROWS) return edges;
    const length = (edge) => (edge.from === view.selected || edge.to === view.selected ? -1 : Math.abs(edge.to - edge.from));
    return [...edges].sort((a, b) => length(a) - length(b)).slice(0, MOST_ARROWS);
  }
}
