// One head and one text side by side with the numbers: what the reader looks at. There may be two of them.

import { html, onceAFrame, refill, shown } from "./dom.js";
import { css, palette } from "./colours.js";
import { distances } from "./charts.js";
import { Head, Pairs } from "./head.js";
import { matrixView, strongestOf } from "./matrix.js";
import { tokensView } from "./tokens.js";

/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */
/** @typedef {{i: number, j: number}} Hover */

const BARS = 24;
const PAIRS = 12; // in the table
const RELATIONS = {
  word_pieces: "pieces of a word", stop: "with a sentence end", punctuation: "with punctuation",
  both: "repeated in a sentence", sentence: "same sentence", repeated: "repeated", none: "unrelated",
};

/**
 * @param {{
 *   source: Source, store: Store, theme: () => "light" | "dark",
 *   onhover: (hover: Hover) => void, onstep: (layers: number, heads: number) => void, onpin: () => void, pinned: boolean,
 * }} spec
 */
export function panelView({ source, store, theme, onhover, onstep, onpin, pinned }) {
  /** @type {Text | null} */
  let text = null;
  /** @type {Pairs | null} */
  let pairs = null;
  /** @type {Head | null} */
  let head = null;
  /** @type {ReturnType<typeof tokensView> | null} */
  let tokens = null;
  /** @type {Hover} */
  let hover = { i: -1, j: -1 };
  let asked = 0;

  const matrix = matrixView({
    onhover: (i, j) => onhover({ i, j }),
    onpick: (i) => store.set({ token: store.get().token === i ? -1 : i }),
    onmove: (x, y, n) => store.set({ x, y, n }),
  });
  const title = html("h2", {});
  const focal = html("p", { class: "focal-line" });
  const step = (/** @type {string} */ sign, /** @type {string} */ label, /** @type {number} */ layers, /** @type {number} */ heads) =>
    html("button", { type: "button", class: "small", "aria-label": label, title: label, onclick: () => onstep(layers, heads) }, sign);
  const steps = pinned
    ? []
    : [step("↑", "previous layer", -1, 0), step("↓", "next layer", 1, 0), step("←", "previous head", 0, -1), step("→", "next head", 0, 1)];
  const pin = html("button", { type: "button", class: "small pin", onclick: onpin }, pinned ? "✕ unpin" : "pin beside");
  const header = html("div", { class: "panel-header" }, title, html("div", { class: "buttons" }, ...steps, pin));
  const holder = html("div", { class: "text-holder" });
  const readout = html("p", { class: "readout", role: "status", "aria-live": "polite" });
  const zooming = (/** @type {string} */ sign, /** @type {string} */ label, /** @type {() => void} */ work) =>
    html("button", { type: "button", class: "small", "aria-label": label, title: label, onclick: work }, sign);
  const legend = html("div", { class: "legend" });
  const tools = html(
    "div",
    { class: "tools" },
    legend,
    html("div", { class: "buttons" },
      zooming("+", "zoom in (Ctrl and wheel, double click)", () => matrix.zoom(0.6)),
      zooming("−", "zoom out", () => matrix.zoom(1 / 0.6)),
      zooming("⤢", "show the whole matrix", () => matrix.whole())),
  );
  const chart = html("div", { class: "chart-holder" });
  const relations = html("table", { class: "relations" });
  /** @type {{i: number, j: number, p: number}[]} */
  let best = [];
  const pairRows = Array.from({ length: PAIRS }, (_, k) => {
    const point = () => onhover(best[k] ?? { i: -1, j: -1 });
    const leave = () => onhover({ i: -1, j: -1 });
    return html("tr", { tabindex: 0, class: "pair", hidden: true, onclick: () => store.set({ token: best[k]?.i ?? -1 }), onfocus: point, onmouseenter: point, onblur: leave, onmouseleave: leave },
      html("td", {}, html("bdi", {})), html("td", {}, html("bdi", {})), html("td", {}), html("td", {}));
  });
  const nothing = html("tr", {}, html("td", { colspan: 4 }, "none at this τ"));
  const strongest = html("table", { class: "pairs", "aria-label": "Strongest pairs" }, html("tbody", {}, ...pairRows, nothing));
  const numbers = html("dl", { class: "numbers" });
  const right = html("div", { class: "right" }, matrix.frame, tools, readout);
  const figures = html(
    "div",
    { class: "figures" },
    html("section", {}, html("h3", {}, "Distance of similar pairs"), chart, html("p", { class: "note" }, "dashed: all pairs of this text")),
    html("section", {}, html("h3", {}, "How similar pairs are related"), relations),
    html("section", {}, html("h3", {}, "Strongest pairs"), strongest),
    html("section", {}, html("h3", {}, "Scores of this head"), numbers),
  );
  const left = html("div", { class: "left" }, focal, holder);
  const root = html("article", { class: pinned ? "panel pinned" : "panel", "aria-label": pinned ? "Pinned head" : "Head" }, header, left, right, figures);

  const redraw = onceAFrame(() => {
    if (!head || !tokens || !text) return;
    const state = store.get();
    const inside = state.mask ? head.mask(state.theta).inside : null;
    const token = hover.i >= 0 ? hover.i : state.token;
    tokens.draw(head, state, theme(), token < text.tokens.label.length ? token : -1, hover.i >= 0 ? hover.j : -1, text.keys ? null : inside);
    matrix.draw({ head, state, theme: theme(), inside: text.keys ? null : inside });
    matrix.mark(token, hover.j >= 0 ? hover.j : token);
    drawNumbers(head, state);
    drawLegend(head, state);
    tell();
  });

  const rehover = onceAFrame(() => {
    if (!head || !tokens || !text) return;
    const state = store.get();
    const token = hover.i >= 0 ? hover.i : state.token;
    const inside = state.mask ? head.mask(state.theta).inside : null;
    tokens.draw(head, state, theme(), token < text.tokens.label.length ? token : -1, hover.i >= 0 ? hover.j : -1, text.keys ? null : inside);
    matrix.mark(token, hover.j >= 0 ? hover.j : token);
    tell();
  });

  /** Say in words what is pointed at. */
  function tell() {
    if (!head || !text) return;
    const state = store.get();
    const token = hover.i >= 0 ? hover.i : state.token;
    const { label } = text.tokens;
    if (token < 0 || token >= label.length) {
      return refill(readout, "Point at a token or a cell; click to keep it.");
    }
    if (hover.j >= 0 && hover.j !== token) return refill(readout, ...sentenceOf(head, text, token, hover.j));
    const others = head.strongest(state.tau, 6, token).map(({ i, j }) => label[i === token ? j : i]);
    const total = head.strongest(state.tau, Infinity, token).length;
    refill(
      readout, html("b", {}, html("bdi", {}, label[token])), ` (${token}) is similar to ${total || "no"} ${total === 1 ? "token" : "tokens"}`,
      total ? ": " : "", ...others.flatMap((each, k) => [k ? ", " : "", html("bdi", { class: "quoted" }, each)]), total > others.length ? ", …" : "",
      ` · received ${shown(head.received[token], 3)} · norm ${shown(head.norms[token], 3)}`,
    );
  }

  /** What the numbers were last drawn for. @type {{head: Head | null, tau: number}} */
  let numbered = { head: null, tau: 0 };

  /**
   * @param {Head} head_
   * @param {State} state
   */
  function drawNumbers(head_, state) {
    if (!text || !pairs) return;
    const counts = head_.counts(state.tau);
    const mask = head_.mask(state.theta);
    refill(
      focal,
      html("span", { class: "high-count", "data-high": counts.high }, `${counts.high.toLocaleString("en")} of ${pairs.number.toLocaleString("en")} pairs similar`),
      counts.focal < 0 ? (head_.flat ? " · flat: no pair has a positive similarity" : "") : " · focal token ",
      counts.focal < 0 ? null : html("b", { class: "focal-name", "data-share": counts.share }, html("bdi", {}, text.same_labels[counts.focal])),
      counts.focal < 0 ? null : ` in ${Math.round(100 * counts.share)} %${counts.high < 10 ? " (of few)" : ""}`,
      html("span", { class: "mask-count", "data-number": mask.number, "data-contrast": mask.contrast },
        ` · ${mask.number} attended${Number.isNaN(mask.contrast) ? "" : `, contrast ${shown(mask.contrast, 3)}`}`),
    );
    if (numbered.head === head_ && numbered.tau === state.tau) return;
    if (numbered.head !== head_) refill(title, `Layer ${head_.layer}, head ${head_.head}`);
    numbered = { head: head_, tau: state.tau };
    const grouped = binned(counts.distance, pairs.base, head_.size);
    refill(chart, distances({ ...grouped, width: 330, height: 150 }));
    chart.dataset.counts = counts.distance.join(",");
    const rows = /** @type {NodeListOf<HTMLElement>} */ (relations.querySelectorAll("tr[data-relation]"));
    rows.forEach((row, k) => {
      const [own, every] = [counts.relation[k], pairs?.related[k] ?? 0];
      const over = counts.high && pairs ? own / counts.high / (every / pairs.number) : NaN;
      [row.dataset.high, row.dataset.all] = [String(own), String(every)];
      [own.toLocaleString("en"), every.toLocaleString("en"), shown(over)].forEach((words, column) => write(row.children[column + 1], words));
    });
    best = head_.strongest(state.tau, PAIRS);
    pairRows.forEach((row, k) => {
      row.hidden = k >= best.length;
      if (!best[k] || !text || !pairs) return;
      const { i, j, p } = best[k];
      const relation = RELATIONS[/** @type {keyof typeof RELATIONS} */ (text.relations[pairs.relation[p]])];
      [text.tokens.label[i], text.tokens.label[j], relation, shown(head_.level(i, j))].forEach((words, column) => write(row.children[column].firstElementChild ?? row.children[column], words));
    });
    nothing.hidden = best.length > 0;
  }

  /**
   * @param {Head} head_
   * @param {State} state
   */
  function drawLegend(head_, state) {
    const tau = /** @type {HTMLElement | null} */ (legend.querySelector(".tau"));
    if (tau) tau.style.left = `${50 + 2.5 * state.tau}%`;
    const key = `${head_.layer}.${head_.head} ${state.show} ${theme()} ${head_.attention !== null}`;
    if (legend.dataset.key === key && legend.dataset.text === text?.id) return;
    [legend.dataset.key, legend.dataset.text] = [key, text?.id];
    const attends = state.show === "attention" || state.show === "received";
    const norms = state.show === "norms";
    const colours = palette(theme(), norms ? "norms" : attends ? "attention" : "similarity");
    const stops = Array.from({ length: 21 }, (_, k) => css(colours, k / 20)).join(", ");
    const bar = html("div", { class: "ramp" });
    bar.style.background = `linear-gradient(to right, ${stops})`;
    const most = norms ? Math.max(...head_.norms) : state.show === "received" ? 1 : head_.attention ? strongestOf(head_.attention) : 1;
    const [low, middle, high] = attends || norms
      ? ["0", attends && state.show === "attention" ? (most / 4).toPrecision(2) : (most / 2).toPrecision(2), most.toPrecision(2)]
      : state.show === "level" ? ["−1", "0", "1"] : [(-head_.widest).toPrecision(2), "0", head_.widest.toPrecision(2)];
    const names = { similarity: "similarity S", level: "level", attention: "attention A", received: "attention received", norms: "norm" };
    const mark = html("span", { class: "tau", title: "τ" });
    if (state.show === "level") {
      mark.style.left = `${50 + 2.5 * state.tau}%`;
      bar.append(mark);
    }
    refill(legend, html("span", {}, names[state.show]), bar, html("div", { class: "ends" }, html("span", {}, low), html("span", {}, middle), html("span", {}, high)));
  }

  /**
   * Show a text and a head of it.
   * @param {Text} next
   * @param {number} layer
   * @param {number} number
   */
  async function show(next, layer, number) {
    const turn = ++asked;
    root.classList.add("loading");
    try {
      const wantsMap = store.get().show === "attention";
      const place = `texts/${next.id}/heads/${layer}/${number}`;
      const [found, related, map] = await Promise.all([
        source.get(place), source.get(`texts/${next.id}/pairs`), wantsMap ? source.get(`${place}/attention`) : null,
      ]);
      if (turn !== asked) return;
      if (text?.id !== next.id || !tokens) {
        text = next;
        pairs = new Pairs(next, related);
        tokens = tokensView(next, {
          onhover: (token) => onhover({ i: token, j: -1 }),
          onpick: (token) => store.set({ token: store.get().token === token ? -1 : token }),
        });
        refill(holder, tokens.frame);
        refill(relations,
          html("thead", {}, html("tr", {}, html("td", {}), html("th", {}, "similar"), html("th", {}, "all"), html("th", { title: "share among similar pairs over share among all" }, "× base"))),
          html("tbody", {}, ...next.relations.map((name) => html("tr", { "data-relation": name }, html("th", { scope: "row" }, RELATIONS[/** @type {keyof typeof RELATIONS} */ (name)]), html("td", {}), html("td", {}), html("td", {})))));
        numbered = { head: null, tau: 0 };
        hover = { i: -1, j: -1 };
      }
      head = new Head(next, /** @type {Pairs} */ (pairs), found, layer, number);
      if (map) head.attention = map.attention.data;
      root.dataset.head = `${layer}.${number}`;
      redraw();
    } finally {
      if (turn === asked) root.classList.remove("loading");
    }
  }

  /** Fetch the attention map where it is to be shown and not here yet. */
  async function needMap() {
    const wanted = head;
    if (!wanted || wanted.attention || !text) return;
    const map = await source.get(`texts/${text.id}/heads/${wanted.layer}/${wanted.head}/attention`);
    wanted.attention = map.attention.data;
    if (wanted === head) redraw();
  }

  const measure = new ResizeObserver(() => {
    tokens?.moved();
    const wide = Math.floor(right.clientWidth);
    if (wide > 0) matrix.resize(Math.min(wide, 640));
    redraw();
  });
  measure.observe(right);
  measure.observe(holder);

  return {
    root, show, redraw, needMap, matrix,
    /** @param {Hover} next */
    hover: (next) => {
      if (next.i === hover.i && next.j === hover.j) return;
      hover = next;
      rehover();
    },
    /** @param {[string, string][]} scores */
    scores: (scores) => {
      refill(numbers, ...scores.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]));
    },
    current: () => (head && text && pairs && tokens ? { head, text, pairs, tokens, chart } : null),
    close: () => measure.disconnect(),
  };
}

/**
 * @param {Element} place
 * @param {string} words
 */
function write(place, words) {
  if (place.textContent !== words) place.textContent = words;
}

/**
 * @param {Head} head
 * @param {Text} text
 * @param {number} i
 * @param {number} j
 */
function sentenceOf(head, text, i, j) {
  const { label } = text.tokens;
  const crossed = text.keys && head.attention;
  const others = crossed ? (text.keys?.label ?? label) : label;
  const p = crossed ? -1 : head.pairs.place(i, j);
  const width = text.keys?.label.length ?? head.size;
  const parts = [html("b", {}, html("bdi", {}, label[i])), ` (${i}) – `, html("b", {}, html("bdi", {}, others[j])), ` (${j})`];
  if (!crossed) parts.push(`: S ${head.value(i, j).toPrecision(4)}`);
  if (p >= 0) {
    const relation = RELATIONS[/** @type {keyof typeof RELATIONS} */ (text.relations[head.pairs.relation[p]])];
    parts.push(`, level ${shown(head.level(i, j), 3)}, distance ${Math.abs(j - i)}, ${relation}`);
  } else if (!crossed) parts.push(" · special tokens are in no pair");
  if (head.attention) parts.push(` · A ${head.attention[i * width + j].toPrecision(3)}`);
  return parts;
}

/**
 * Shares by distance, in at most so many bars.
 * @param {Float64Array} high
 * @param {Float64Array} base
 * @param {number} size
 */
export function binned(high, base, size) {
  let longest = 1;
  for (let k = 1; k < size; k++) if (base[k]) longest = k;
  const step = Math.max(1, Math.ceil(longest / BARS));
  const edges = [1];
  const [share, usual] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  const sum = (/** @type {Float64Array} */ values) => values.reduce((total, each) => total + each, 0) || 1;
  const [highs, bases] = [sum(high), sum(base)];
  for (let from = 1; from <= longest; from += step) {
    let [a, b] = [0, 0];
    for (let k = from; k < from + step && k < size; k++) [a, b] = [a + high[k], b + base[k]];
    share.push(a / highs);
    usual.push(b / bases);
    edges.push(from + step);
  }
  return { edges, share, base: usual };
}
