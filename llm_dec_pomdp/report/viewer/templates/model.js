// A trace arranged for drawing: rows in order of time, lanes, edges, rewards and tokens.

const TYPES = ["orchestrator_decision", "spawn", "despawn", "message", "tool_call", "tool_result", "return", "aggregate",
  "human_intervention", "safety_event"];
const NAMED = new Set(["id", "t", "type", "agent", "role", "from", "to", "tool", "content_ref", "thought_ref", "trusted"]);

// Long texts are stored once; "\u0001" and a number refer to them. No text of a trace contains that character.
function withTexts(value, texts) {
  if (typeof value === "string") return value.startsWith("\u0001") ? texts[Number(value.slice(1))] : value;
  if (Array.isArray(value)) return value.map((item) => withTexts(item, texts));
  if (value === null || typeof value !== "object") return value;
  const copy = Object.create(null); // a name may be "__proto__"
  for (const name of Object.keys(value)) copy[name] = withTexts(value[name], texts);
  return copy;
}

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function oneLine(text) {
  return text.slice(0, 300).replace(/\s+/g, " ").trim();
}

function rounded(value) {
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
}

function spoken(name) {
  return name === "wall_clock_s" ? "seconds" : String(name).replaceAll("_", " ");
}

// The fields of an event as [name, value]: nested values have names with dots, lists of names and numbers are one line.
function leaves(value, name, into) {
  if (Array.isArray(value) && value.every((item) => item === null || typeof item !== "object")) into.push([name, value.join(", ")]);
  else if (value !== null && typeof value === "object") for (const key of Object.keys(value)) leaves(value[key], name ? name + "." + key : key, into);
  else if (value !== null && value !== undefined && value !== "") into.push([name, value]);
  return into;
}

function isText(name, value) {
  if (typeof value !== "string" || NAMED.has(name)) return false;
  return name === "content" || name === "thought" || (/\s/.test(value) && (name.startsWith("content.") || value.length > 60 || value.includes("\n")));
}

// The texts of an event by name; the text of a message is its `content`. `factsOf` returns all other fields.
function textsOf(event) {
  return leaves(event, "", []).filter(([name, value]) => isText(name, value)).map(([name, value]) => [name.replace(/^content\.?/, ""), value]);
}

function factsOf(event) {
  return leaves(event, "", []).filter(([name, value]) => !isText(name, value));
}

function summary(event, model) {
  const parts = [];
  if (event.tool) parts.push(event.tool);
  if (event.to) parts.push("→ " + model.called(event.to) + (event.type === "spawn" && event.role && !model.players ? ` (${event.role})` : ""));
  if (event.decision) parts.push(String(event.decision));
  if (Number.isFinite(event.score?.total)) parts.push("score " + rounded(event.score.total));
  const shown = new Set([event.agent, event.tool, event.role, event.from, event.to]);
  const texts = leaves(event.content, "", []).map(([, value]) => String(value)).filter((value) => !shown.has(value));
  if (texts.length) parts.push(oneLine(texts.join("  ")));
  else if (event.content_ref) parts.push(event.content_ref);
  return parts.join("  ");
}

function tokensOf(event) {
  const sampled = (event.usage ?? event.tokens)?.sampled; // reported by a server, or counted here
  return Number.isFinite(sampled) ? sampled : 0;
}

class Model {
  constructor(trace) {
    this.trace = trace;
    const time = (event) => (Number.isFinite(event.t) ? event.t : Infinity);
    this.events = [...trace.events].sort((a, b) => (time(a) === time(b) ? 0 : time(a) - time(b)));
    this.byId = new Map();
    this.events.forEach((event, row) => { if (!this.byId.has(event.id)) this.byId.set(event.id, row); });
    this.arrangeLanes();
    this.joinEdges();
    this.addUp();
    this.keys = this.nameEvents();
    this.searched = null;
  }

  arrangeLanes() {
    this.lanes = new Map(); // agent -> {name, number, role, title, first, last, gone}
    const lane = (name, row) => {
      if (!this.lanes.has(name)) this.lanes.set(name, { name, number: this.lanes.size, role: "", first: row, last: row, gone: false });
      return this.lanes.get(name);
    };
    this.players = this.events[0].header?.players; // in our traces, the role of an event belongs to the agent that it is about
    this.events.forEach((event, row) => {
      const mine = lane(event.agent, row);
      if (!this.players && event.type !== "spawn" && event.role && !mine.role) mine.role = event.role;
      if (!mine.gone) mine.last = row;
      if (!event.to) return;
      const other = lane(event.to, row);
      if (event.type === "spawn" && event.role) other.role = event.role;
      if (!other.gone) other.last = row;
      if (event.type === "despawn") other.gone = true;
    });
    for (const event of this.events) if (event.type === "despawn" && !event.to) this.lanes.get(event.agent).gone = true;
    this.agents = [...this.lanes.values()];
    this.spawned = new Set(this.events.filter((event) => event.type === "spawn" && event.to).map((event) => event.to));
    const times = new Map(); // number of agents with each role
    for (const player of Object.values(this.players || {})) times.set(player?.role, (times.get(player?.role) || 0) + 1);
    for (const agent of this.agents) {
      if (!this.spawned.has(agent.name)) agent.first = 0;
      const role = agent.role || this.players?.[agent.name]?.role;
      agent.role = typeof role === "string" ? role : "";
      agent.title = !this.players || !agent.role ? agent.name : times.get(agent.role) > 1 ? `${agent.role} (${agent.name})` : agent.role;
      if (!agent.gone) agent.last = this.events.length - 1;
    }
  }

  // The displayed name of an agent: in our traces its role, which tells more than agent_0; elsewhere its name.
  called(name) {
    return this.lanes.get(name)?.title ?? name;
  }

  joinEdges() {
    this.out = this.events.map(() => []);
    this.into = this.events.map(() => []);
    this.lost = 0;
    for (const edge of this.trace.edges) {
      const [from, to] = [this.byId.get(edge.src), this.byId.get(edge.dst)];
      if (from === undefined || to === undefined) { this.lost += 1; continue; }
      const joined = { from, to, type: edge.type };
      this.out[from].push(joined);
      this.into[to].push(joined);
    }
  }

  addUp() {
    let [reward, tokens] = [0, 0];
    this.rewards = []; // cumulative, after each row
    this.tokens = [];
    for (const event of this.events) {
      if (Number.isFinite(event.reward)) reward += event.reward;
      tokens += tokensOf(event);
      this.rewards.push(reward);
      this.tokens.push(tokens);
    }
    this.paid = this.events.some((event) => Number.isFinite(event.reward));
    this.spent = tokens > 0;
  }

  // Keys that match events of two traces, such as the third message of agent_1.
  nameEvents() {
    const seen = new Map();
    return this.events.map((event) => {
      const kind = JSON.stringify([event.type, event.agent]);
      seen.set(kind, (seen.get(kind) || 0) + 1);
      return kind + seen.get(kind);
    });
  }

  words(row) {
    if (this.searched === null) this.searched = this.events.map((event) => JSON.stringify([this.called(event.agent), this.called(event.to), ...Object.values(event)]).toLowerCase());
    return this.searched[row];
  }
}

// For each row of one model, the matching row of the other (or undefined), and whether their texts are equal.
function compareModels(model, other) {
  const rows = new Map(other.keys.map((key, row) => [key, row]));
  const contentOf = (event) => JSON.stringify([...textsOf(event)]);
  return model.keys.map((key, row) => {
    const twin = rows.get(key);
    return { twin, same: twin !== undefined && contentOf(model.events[row]) === contentOf(other.events[twin]) };
  });
}
