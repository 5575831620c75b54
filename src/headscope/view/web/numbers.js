// The numbers of one head: similar pairs by distance and relation, the strongest of them, its focal token. Tables are
// made once and written into, for a slider may ask for them sixty times a second.

import { distances } from "./charts.js";
import { html, refill, shown } from "./dom.js";

/** @typedef {import("./head.js").Head} Head */
/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./state.js").State} State */

const BARS = 24;
const PAIRS = 12; // in the table
const ATTENDED =
  "tokens that receive more than θ of the largest attention among those that count; AUC: how often a pair of two such " +
  "tokens is more similar than a pair of two others about as far apart; 0.5 is no difference";
const RELATIONS = /** @type {Record<string, string>} */ ({
  word_pieces: "pieces of a word",
  marks: "two marks",
  stop: "with a sentence end",
  punctuation: "with punctuation",
  both: "repeated in a sentence",
  sentence: "same sentence",
  repeated: "repeated",
  none: "unrelated",
});

/**
 * How the two tokens of a pair are related, in words.
 * @param {Text} text
 * @param {number} relation
 */
export function related(text, relation) {
  return RELATIONS[text.relations[relation]];
}

/**
 * @param {Element} place
 * @param {string} words
 */
function write(place, words) {
  if (place.textContent !== words) place.textContent = words;
}

/**
 * @param {{onpoint: (pair: {i: number, j: number}) => void, onpick: (token: number) => void}} events
 */
export function numbersView({ onpoint, onpick }) {
  const focal = html("p", { class: "focal-line" });
  const chart = html("div", { class: "chart-holder" });
  const relations = html("table", { class: "relations" });
  const scores = html("dl", { class: "numbers" });
  /** @type {{i: number, j: number, p: number}[]} */
  let best = [];
  const rows = Array.from({ length: PAIRS }, (_, k) => {
    const point = () => onpoint(best[k] ?? { i: -1, j: -1 });
    const leave = () => onpoint({ i: -1, j: -1 });
    return html(
      "tr",
      {
        tabindex: 0,
        class: "pair",
        hidden: true,
        onclick: () => onpick(best[k]?.i ?? -1),
        onfocus: point,
        onmouseenter: point,
        onblur: leave,
        onmouseleave: leave,
      },
      html("td", {}, html("bdi", {}), html("span", { class: "place" })),
      html("td", {}, html("bdi", {}), html("span", { class: "place" })),
      html("td", {}),
      html("td", {}),
    );
  });
  const nothing = html("tr", {}, html("td", { colspan: 4 }, "none at this τ"));
  const strongest = html(
    "table",
    { class: "pairs", "aria-label": "Strongest pairs" },
    html(
      "thead",
      {},
      html("tr", {}, ...["token", "token", "related", "level"].map((each) => html("th", { scope: "col" }, each))),
    ),
    html("tbody", {}, ...rows, nothing),
  );
  const section = (/** @type {string} */ title, /** @type {HTMLElement[]} */ ...parts) =>
    html("section", {}, html("h3", {}, title), ...parts);
  const figures = html(
    "div",
    { class: "figures" },
    section("Distance of similar pairs", chart, html("p", { class: "note" }, "dashed: all pairs of this text")),
    section("How similar pairs are related", relations),
    section("Strongest pairs", strongest),
    section("Scores of this head", scores),
  );
  /** What was drawn last. @type {{head: Head | null, tau: number}} */
  let drawn = { head: null, tau: 0 };

  /** @param {Text} text */
  function begin(text) {
    const title = "share among similar pairs over share among all";
    const head = html(
      "tr",
      {},
      html("td", {}),
      html("th", {}, "similar"),
      html("th", {}, "all"),
      html("th", { title }, "× base"),
    );
    const lines = text.relations.map((name) => {
      const cells = [html("td", {}), html("td", {}), html("td", {})];
      return html("tr", { "data-relation": name }, html("th", { scope: "row" }, RELATIONS[name]), ...cells);
    });
    refill(relations, html("thead", {}, head), html("tbody", {}, ...lines));
    drawn = { head: null, tau: 0 };
  }

  /**
   * @param {Head} head
   * @param {State} state
   */
  function draw(head, state) {
    const counts = head.counts(state.tau);
    tellFocal(head, counts, head.mask(state.theta));
    if (drawn.head === head && drawn.tau === state.tau) return;
    drawn = { head, tau: state.tau };
    refill(chart, distances({ ...binned(counts.distance, head.pairs.base, head.size), width: 330, height: 150 }));
    chart.dataset.counts = counts.distance.join(",");
    fillRelations(head, counts);
    fillPairs(head, state.tau);
  }

  /**
   * @param {Head} head
   * @param {ReturnType<Head["counts"]>} counts
   * @param {ReturnType<Head["mask"]>} mask
   */
  function tellFocal({ text, pairs, flat, top }, { high, focal: token, share }, { number, auc }) {
    if (!pairs.number) return refill(focal, "no pairs: fewer than two tokens count");
    const many = `${high.toLocaleString("en")} of ${pairs.number.toLocaleString("en")} pairs ${top ? "at the top" : "similar"}`;
    const name =
      token < 0
        ? [flat ? " · flat: no pair has a positive similarity" : ""]
        : [
            " · focal token ",
            html("b", { class: "focal-name", "data-share": share }, html("bdi", {}, text.same_labels[token])),
            ` in ${Math.round(100 * share)} %${high < 10 ? " (of few pairs)" : ""}`,
          ];
    const attended = ` · ${number} attended${Number.isNaN(auc) ? "" : `, AUC ${shown(auc, 3)}`}`;
    refill(
      focal,
      html("span", { class: "high-count", "data-high": high }, many),
      ...name,
      html("span", { class: "mask-count", "data-number": number, "data-auc": auc, title: ATTENDED }, attended),
    );
  }

  /**
   * @param {Head} head
   * @param {ReturnType<Head["counts"]>} counts
   */
  function fillRelations({ pairs }, counts) {
    const lines = /** @type {NodeListOf<HTMLElement>} */ (relations.querySelectorAll("tr[data-relation]"));
    lines.forEach((line, k) => {
      const [own, every] = [counts.relation[k], pairs.related[k]];
      const over = counts.high ? own / counts.high / (every / pairs.number) : NaN;
      [line.dataset.high, line.dataset.all] = [String(own), String(every)];
      [own.toLocaleString("en"), every.toLocaleString("en"), shown(over)].forEach((words, column) =>
        write(line.children[column + 1], words),
      );
    });
  }

  /**
   * @param {Head} head
   * @param {number} step
   */
  function fillPairs(head, step) {
    const { label } = head.text.tokens;
    best = head.strongest(step, PAIRS);
    rows.forEach((row, k) => {
      row.hidden = k >= best.length;
      if (!best[k]) return;
      const { i, j, p } = best[k];
      const words = [label[i], label[j], related(head.text, head.pairs.relation[p]), shown(head.level(i, j))];
      words.forEach((each, column) => write(row.children[column].firstElementChild ?? row.children[column], each));
      [i, j].forEach((each, column) =>
        write(/** @type {Element} */ (row.children[column].lastElementChild), `${each}`),
      );
    });
    nothing.hidden = best.length > 0;
  }

  return {
    focal,
    figures,
    chart,
    begin,
    draw,
    /** @param {[string, string][]} pairs */
    scores: (pairs) => {
      refill(scores, ...pairs.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]));
    },
  };
}

/**
 * Shares by distance, in at most so many bars.
 * @param {Float64Array} high
 * @param {Float64Array} base
 * @param {number} size
 */
function binned(high, base, size) {
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
