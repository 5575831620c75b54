// One head and one text: the text, the matrix and the numbers, linked. There may be two of them.

import { headTitle, html, onceAFrame, refill } from "./dom.js";
import { Head, Pairs } from "./head.js";
import { legendView } from "./legend.js";
import { matrixView } from "./matrix.js";
import { numbersView } from "./numbers.js";
import { readoutLines } from "./readout.js";
import { sourcesView } from "./sources.js";
import { tokensView } from "./tokens.js";

/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").Store} Store */
/** @typedef {{i: number, j: number}} Hover */

const WIDEST = 640; // pixels of a matrix

/**
 * @param {{
 *   source: Source, store: Store, theme: () => "light" | "dark", pinned: boolean,
 *   onhover: (hover: Hover) => void, onstep: (layers: number, heads: number) => void,
 *   onread: (reading: string) => void, onpin: () => void, onall?: () => void,
 * }} spec
 */
export function panelView({ source, store, theme, pinned, onhover, onstep, onread, onpin, onall }) {
  /** What is shown; all of it or nothing. @type {{text: Text, pairs: Pairs, head: Head, tokens: ReturnType<typeof tokensView>, sources: ReturnType<typeof sourcesView> | null} | null} */
  let now = null;
  /** @type {Hover} */
  let hover = { i: -1, j: -1 };
  let requests = 0;
  const keep = (/** @type {number} */ token) => store.set({ token: store.get().token === token ? -1 : token });

  const matrix = matrixView({
    onhover: (i, j) => onhover({ i, j }),
    onpick: keep,
    onmove: (x, y, n) => store.set({ x, y, n }),
  });
  const numbers = numbersView({ onpoint: onhover, onpick: (token) => store.set({ token }) });
  const legend = legendView();
  const button = (/** @type {string} */ sign, /** @type {string} */ title, /** @type {() => void} */ onclick) =>
    html("button", { type: "button", class: "small", "aria-label": title, title, onclick }, sign);
  const steps = [
    button("↑", "previous layer", () => onstep(-1, 0)),
    button("↓", "next layer", () => onstep(1, 0)),
    button("←", "previous head", () => onstep(0, -1)),
    button("→", "next head", () => onstep(0, 1)),
  ];
  const pin = html("button", { type: "button", class: "small pin", onclick: onpin }, pinned ? "✕ unpin" : "pin beside");
  const all = html("button", { type: "button", class: "small to-atlas", onclick: onall ?? null }, "all heads ↓");
  const title = html("h2", {});
  const problem = html("p", { class: "problem", role: "alert", hidden: true });
  const reading = html("select", {
    class: "reading",
    "aria-label": "How similarity is read here",
    onchange: () => onread(reading.value),
  });
  const holder = html("div", { class: "text-holder" });
  const readout = html("p", { class: "readout", role: "status", "aria-live": "polite" });
  const zooming = html(
    "div",
    { class: "buttons" },
    button("+", "zoom in (Ctrl and wheel, double click)", () => matrix.zoom(0.6)),
    button("−", "zoom out", () => matrix.zoom(1 / 0.6)),
    button("⤢", "show the whole matrix", () => matrix.whole()),
  );
  const right = html(
    "div",
    { class: "right" },
    matrix.frame,
    html("div", { class: "tools" }, legend.legend, zooming),
    readout,
  );
  const root = html(
    "article",
    { class: pinned ? "panel pinned" : "panel", "aria-label": pinned ? "Pinned head" : "Head" },
    html(
      "div",
      { class: "panel-header" },
      title,
      pinned ? html("label", { class: "toggle" }, "by", reading) : null,
      html("div", { class: "buttons" }, ...(pinned ? [] : steps), pin, onall ? all : null),
    ),
    problem,
    html("div", { class: "left" }, numbers.focal, holder),
    right,
    numbers.figures,
  );

  /** The token that is pointed at, or else the one that is kept; and the other one of a cell, or of the source. */
  function pointed() {
    const kept = store.get().token;
    const ofSource = now?.sources && hover.i < 0 && hover.j >= 0;
    const token = hover.i >= 0 ? hover.i : ofSource ? -1 : kept;
    const there = now !== null && token < now.text.tokens.label.length;
    return { token: there ? token : -1, other: hover.i >= 0 || ofSource ? hover.j : -1 };
  }

  /** @param {boolean} everything or only what follows the pointer */
  function draw(everything) {
    if (!now) return;
    const { tokens, text, sources } = now;
    const head = shownHead(now.head);
    const state = store.get();
    const { token, other } = pointed();
    const crossed = sources !== null && (state.show === "attention" || token < 0); // the other token is the source's
    const inside = state.mask && !text.keys ? head.mask(state.theta).inside : null;
    tokens.draw(head, state, theme(), token, crossed ? -1 : other, inside, crossed ? other : -1);
    sources?.draw(head, theme(), token, crossed ? other : -1);
    if (everything) {
      matrix.draw({ head, state, theme: theme(), inside });
      numbers.draw(head, state);
      legend.draw(head, state, theme());
    }
    const column = other >= 0 ? other : token;
    matrix.mark(token, sources && state.show === "attention" && other < 0 ? -1 : column);
    const boundary = other >= 0 && other !== token ? "" : tokens.boundaryAfter(token);
    refill(readout, ...readoutLines(head, text, token, other, state.tau, crossed), boundary && ` · ${boundary}`);
  }

  /**
   * By the level of pairs or by their order, as the reader wants it.
   * @param {Head} head
   */
  function shownHead(head) {
    if (!store.get().top) return head;
    const own = head.byOrder();
    own.attention = head.attention;
    return own;
  }

  const redraw = onceAFrame(() => draw(true));
  const rehover = onceAFrame(() => draw(false));

  /**
   * Show a text and a head of it in a reading; what goes wrong is told in their place.
   * @param {Text} text
   * @param {number} layer
   * @param {number} number
   * @param {string} name of the reading
   */
  async function show(text, layer, number, name) {
    const turn = ++requests;
    root.classList.add("loading");
    name_(layer, number, name);
    try {
      const [tensors, relations, map] = await Promise.all([
        source.get(`texts/${text.id}/${name}/heads/${layer}/${number}`),
        source.get(`texts/${text.id}/pairs`),
        store.get().show === "attention" ? source.get(mapOf(text, layer, number)) : null,
      ]);
      if (turn !== requests) return;
      root.classList.remove("failed");
      problem.hidden = true;
      let { pairs, tokens, sources } = now?.text.id === text.id ? now : { pairs: null, tokens: null, sources: null };
      if (!pairs || !tokens) {
        pairs = new Pairs(text, relations);
        tokens = tokensView(text, { onhover: (token) => onhover({ i: token, j: -1 }), onpick: keep });
        sources = text.keys ? sourcesView(text.keys, (token) => onhover({ i: -1, j: token })) : null;
        const target = html("div", {}, sources ? html("h3", {}, "Target, which is written") : null, tokens.frame);
        refill(holder, sources?.frame, target);
        root.classList.toggle("crossed", sources !== null);
        numbers.begin(text);
        hover = { i: -1, j: -1 };
      }
      const head = new Head(text, pairs, tensors, layer, number, name);
      if (map) head.attention = map.attention.data;
      now = { text, pairs, head, tokens, sources };
      refill(reading, ...text.readings.map((each) => html("option", { selected: each === name }, each)));
      [root.dataset.head, root.dataset.reading] = [`${layer}.${number}`, name];
      redraw();
      if (text.maps_kept || sources) needMap().catch(report); // small, and then every cell can tell its attention
    } catch (error) {
      if (turn !== requests) return;
      report(error);
      root.classList.add("failed");
    } finally {
      if (turn === requests) root.classList.remove("loading");
    }
  }

  /**
   * @param {number} layer
   * @param {number} number
   * @param {string} reading_
   */
  function name_(layer, number, reading_) {
    refill(title, `${headTitle(layer, number)}${pinned ? "" : `, by ${reading_}`}`);
  }

  /** @param {unknown} error */
  function report(error) {
    refill(problem, error instanceof Error ? error.message : String(error));
    problem.hidden = false;
  }

  /** Fetch the attention map where it is to be shown and not here yet. */
  async function needMap() {
    const wanted = now?.head;
    if (!wanted || wanted.attention) return;
    const map = await source.get(mapOf(wanted.text, wanted.layer, wanted.head));
    wanted.attention = map.attention.data;
    redraw();
  }

  /** Fetch how strong boundaries are between sentences: after everything else, for the model reads each sentence. */
  async function needBoundaries() {
    if (!now) return;
    const { text, tokens } = now;
    const answer = await source.get(`texts/${text.id}/boundaries`);
    tokens.mark(answer.boundaries);
    rehover();
  }

  const measure = new ResizeObserver(() => {
    now?.tokens.moved();
    const wide = Math.floor(right.clientWidth);
    if (wide > 0) matrix.resize(Math.min(wide, WIDEST));
    redraw();
  });
  measure.observe(right);
  measure.observe(holder);

  return {
    root,
    show,
    redraw,
    needMap,
    needBoundaries,
    matrix,
    scores: numbers.scores,
    /** @param {Hover} next */
    hover: (next) => {
      if (next.i === hover.i && next.j === hover.j) return;
      hover = next;
      rehover();
    },
    current: () => (now ? { ...now, head: shownHead(now.head), chart: numbers.chart } : null),
    close: () => measure.disconnect(),
  };
}

/**
 * Where a head's attention map is: it is the same in every reading.
 * @param {Text} text
 * @param {number} layer
 * @param {number} head
 */
function mapOf(text, layer, head) {
  return `texts/${text.id}/heads/${layer}/${head}/attention`;
}
