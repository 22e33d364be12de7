"use strict";
// Draws the graph of a stack's resources: dagre places the nodes, the style sheet colours them.
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const WIDTH = 156, HEIGHT = 42;
  const MARKS = {
    complete: "M2 6.5 5 9.5 10 2.5 11.4 3.8 5.2 12 .8 7.8Z", failed: "M2 .8 6 4.8 10 .8 11.2 2 7.2 6 11.2 10 10 11.2 6 7.2 2 11.2 .8 10 4.8 6 .8 2Z",
    progress: "M6 0a6 6 0 0 1 0 12z M6 1a5 5 0 0 0 0 10V12A6 6 0 0 1 6 0z",
  };
  MARKS.unhealthy = MARKS.failed;
  const make = (name, attributes, parent) => {
    const found = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
    if (parent) parent.append(found);
    return found;
  };
  const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

  const narrow = matchMedia("(max-width: 640px)");

  // A key of an object, which may have no name such as __proto__.
  const keyed = (id) => `/${id}`;

  // The layout takes long, and most changes are those of a status.
  const known = { key: "", graph: null };
  const layout = (given) => {
    const direction = narrow.matches ? "TB" : "LR";
    const key = JSON.stringify([direction, given.nodes.map((node) => node.id), given.edges]);
    if (key === known.key) return known.graph;
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: direction, nodesep: 14, ranksep: 34, marginx: 8, marginy: 8 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const node of given.nodes) graph.setNode(keyed(node.id), { width: WIDTH, height: HEIGHT });
    for (const [from, to] of given.edges) graph.setEdge(keyed(from), keyed(to));
    dagre.layout(graph);
    known.key = key;
    known.graph = graph;
    return graph;
  };

  // Marks of direction in a name show as escapes, as on the pages.
  const seen = (name) => name.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (one) => "\\u" + one.codePointAt(0).toString(16).padStart(4, "0"));

  const drawn = new WeakMap();
  const draw = (place) => {
    const wanted = `${place.dataset.graph} ${narrow.matches} ${innerWidth}`;
    if (drawn.get(place) === wanted) return;
    drawn.set(place, wanted);
    const given = JSON.parse(place.dataset.graph);
    if (given.nodes.length < 2) return;
    const graph = layout(given);
    const size = graph.graph();
    place.hidden = false;
    const scale = Math.max(0.7, Math.min(1, (place.clientWidth - 34) / size.width));
    const svg = make("svg", { width: size.width * scale, height: size.height * scale, viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": "Graph of resources; the table has the same" });
    for (const id of graph.edges()) {
      const points = graph.edge(id).points;
      const last = points[points.length - 1], before = points[points.length - 2];
      make("path", { class: "g-edge", d: "M" + points.map((one) => `${one.x.toFixed(1)} ${one.y.toFixed(1)}`).join("L") }, svg);
      const angle = Math.atan2(last.y - before.y, last.x - before.x) * 180 / Math.PI;
      make("path", { class: "g-arrow", d: "M0 0-7-3.5-7 3.5Z", transform: `translate(${last.x} ${last.y}) rotate(${angle})` }, svg);
    }
    for (const node of given.nodes) {
      const at = graph.node(keyed(node.id));
      const link = make("a", { class: `g-node g-${node.state}`, href: `${place.dataset.here}/resources/${node.id.split("/").map(encodeURIComponent).join("/")}`, transform: `translate(${at.x - WIDTH / 2} ${at.y - HEIGHT / 2})` }, svg);
      make("title", {}, link).textContent = `${seen(node.id)}: ${node.type}, ${node.status.replaceAll("_", " ").toLowerCase()}`;
      make("rect", { width: WIDTH, height: HEIGHT, rx: 6 }, link);
      if (MARKS[node.state]) make("path", { class: "mark", d: MARKS[node.state], transform: "translate(9 9)" }, link);
      const label = make("svg", { x: 27, width: WIDTH - 32, height: HEIGHT }, link);
      make("text", { y: 18 }, label).textContent = cut(seen(node.name), 17);
      const folded = node.folded ? ` · ${node.folded} inside` : "";
      make("text", { class: "sub", y: 33 }, label).textContent = cut(node.type.split("::").pop() + folded + (node.bad ? `, ${node.bad} bad` : ""), 23);
      link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || !document.getElementById("panel")) return;
        event.preventDefault();
        htmx.ajax("GET", link.getAttribute("href"), { target: "#panel", select: "#panel", swap: "outerHTML" });
      });
    }
    const heading = document.createElement("h2");
    heading.textContent = "Topology";
    const box = document.createElement("div");
    box.className = "scroll";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Graph");
    box.append(svg);
    place.replaceChildren(heading, box);
    if (given.part) {
      const note = document.createElement("p");
      note.className = "foot";
      note.textContent = "Large stack: only failures and their neighbours are drawn.";
      place.append(note);
    }
  };

  const all = () => document.querySelectorAll("[data-graph]").forEach(draw);
  // The layout of a large graph takes long: the table is painted first.
  requestAnimationFrame(() => setTimeout(all));
  document.addEventListener("ui:fresh", all);
  addEventListener("resize", all);
})();
