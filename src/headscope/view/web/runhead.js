// What lies behind one head of a run: how far it reaches, how it treats sentences, its scores in every way that S was
// read, and the texts that show it best.

import { distances, lines, swatch } from "./charts.js";
import { headName, headTitle, html, progressView, refill, scrolling, shown } from "./dom.js";
import { runExamples } from "./runexamples.js";
import { plain } from "./runnumbers.js";
import { ALONE, PAPER, wayLook, wayName, wayTitle } from "./ways.js";

/** @typedef {import("./runnumbers.js").RunNumbers} RunNumbers */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./source.js").Tensors} Tensors */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./ways.js").Quantity} Quantity */

const NOTHING = "Choose a head to see how far it reaches, how it treats sentences, and the texts that show it best.";
const NO_ROWS = "This run kept no rows per text; analyze with --per-text to see texts that show a head.";
const STEPS = 19; // thresholds
const ALONE_NOTE = "from attention alone";
const waits = () => html("span", { class: "waiting", title: "being computed" }, "…");

/**
 * @param {{
 *   source: Source, run: any, numbers: RunNumbers, fail: (error: unknown) => void,
 *   onopen: (text: string, layer: number, head: number) => void, onall: () => void,
 * }} spec
 */
export function runHead({ source, run, numbers, fail, onopen, onall }) {
  const root = html("section", { class: "head-detail", "aria-label": "One head" });
  const readings = run.readings.map((/** @type {any} */ each) => each.name);
  const scores = run.quantities.filter((/** @type {Quantity} */ each) => each.heads);
  const progress = progressView();
  let requests = 0;

  /** @param {number} layer @param {number} head */
  function heading(layer, head) {
    const all = html("button", { type: "button", class: "small to-atlas", onclick: onall }, "all heads ↑");
    return html("div", { class: "panel-header" }, html("h2", {}, headTitle(layer, head)), all);
  }

  /** @param {State} state */
  async function show(state) {
    const turn = ++requests;
    const [layer, head] = [state.runLayer, state.runHead];
    delete root.dataset.head;
    if (!run.layers.includes(layer) || head < 0 || head >= run.heads) {
      return refill(root, html("p", { class: "empty" }, NOTHING));
    }
    refill(root, heading(layer, head), progress.root); // what is drawn of another head goes at once
    progress.show(`Working out how far ${headName(layer, head)} reaches …`);
    let curves;
    try {
      curves = await source.get(`${run.path}/heads/${layer}/${head}`);
    } catch (error) {
      if (turn === requests)
        refill(root, heading(layer, head), html("p", { class: "problem", role: "alert" }, String(error)));
      return;
    } finally {
      if (turn === requests) progress.hide();
    }
    if (turn !== requests) return;
    const shownBy = runExamples({ source, run, onopen });
    const examples = shownBy.root;
    const table = html("table", { class: "scores" });
    refill(
      root,
      heading(layer, head),
      html("div", { class: "figures" }, ...drawn(curves, state)),
      html("h3", {}, "Scores in every way that S was read"),
      scrolling("Scores of this head", table),
      examples,
    );
    fill(table, state, turn);
    root.dataset.head = `${layer}.${head}`;
    if (run.rows) refill(examples, html("p", { class: "note busy" }, "Looking for texts that show it"));
    if (!run.rows) return refill(examples, html("p", { class: "note" }, NO_ROWS));
    await shownBy.show(state, () => turn === requests);
  }

  /**
   * @param {Tensors} curves
   * @param {State} state
   */
  function drawn(curves, state) {
    const way = readings.includes(state.runWay) ? state.runWay : PAPER;
    const place = way === PAPER ? state.runTau - 1 : STEPS + readings.indexOf(way);
    const pairs = way === PAPER ? `similar pairs, τ = ${(state.runTau / 20).toFixed(2)}` : wayName(way);
    const row = (/** @type {string} */ name, /** @type {number} */ what) => {
      const { data, shape } = curves[name];
      const begin = (what * shape[1] + place) * shape[2];
      return plain(data.subarray(begin, begin + shape[2]));
    };
    const line = (/** @type {string} */ name) => ({ value: row(name, 0), low: row(name, 1), high: row(name, 2) });
    const size = { width: Math.min(430, Math.max(300, root.clientWidth - 20)), height: 200 };
    const distance = line("distance");
    // Both are read in the same way, and so have its colour: the dash tells them apart.
    const look = wayLook(run, way);
    const both = [
      { ...look, name: "in one sentence", strong: true, ...line("within") },
      { ...look, name: "across sentences", dash: [4, 2], open: true, strong: true, ...line("across") },
    ];
    return [
      html(
        "section",
        {},
        html("h3", {}, `Distance of ${pairs}`),
        distances({
          edges: Array.from({ length: run.bands.length + 1 }, (_, k) => k),
          share: distance.value,
          low: distance.low,
          high: distance.high,
          base: run.base,
          names: run.bands,
          kind: look.kind,
          ...size,
        }),
        html("p", { class: "note" }, "bars: 95 %; dashed: all pairs; bands of distance widen"),
      ),
      html(
        "section",
        {},
        html("h3", {}, `How often two words are ${way === PAPER ? "similar" : `top, by ${way}`}`),
        lines({
          names: run.bands,
          each: "distance",
          lines: both,
          percent: true,
          range: [0, Math.max(1e-4, ...both.flatMap((each) => each.value.map(Number))) * 1.3],
          xlabel: "distance in tokens",
          label: "How often two words at a distance are similar, in one sentence and across",
          ...size,
        }),
        html("p", { class: "note key" }, ...both.flatMap((each) => [swatch(each), ` ${each.name} `]), "· shaded: 95 %"),
      ),
    ];
  }

  /**
   * Every score in every way, as far as it is here; the rest is fetched and written in.
   * @param {HTMLTableElement} table
   * @param {State} state
   * @param {number} turn
   */
  function fill(table, state, turn) {
    const [layer, head] = [state.runLayer, state.runHead];
    const ways = [PAPER, ...readings, ...run.maps];
    const short = (/** @type {string} */ way) =>
      way === PAPER ? `at τ = ${(state.runTau / 20).toFixed(2)}` : wayName(way);
    const heading = ways.map((way) => html("th", { scope: "col", title: wayTitle(run, way) }, short(way)));
    const rows = scores.map((/** @type {Quantity} */ score) => {
      const cell = (/** @type {string} */ way, span = 1) => {
        const made = html("td", { colspan: span > 1 ? span : null }, waits());
        numbers.get(score, way, state.runTau).then((tensors) => {
          if (turn === requests) write(made, tensors, layer, head, way === ALONE ? ALONE_NOTE : "");
        }, fail);
        return made;
      };
      const cells = score.ways.includes(ALONE)
        ? [cell(ALONE, ways.length)] // the same however S is read: in no column of its own
        : ways.map((way) => (score.ways.includes(way) ? cell(way) : html("td", {})));
      return html("tr", {}, html("th", { scope: "row", title: score.meaning }, score.label), ...cells);
    });
    refill(table, html("thead", {}, html("tr", {}, html("td", {}), ...heading)), html("tbody", {}, ...rows));
  }

  /**
   * @param {HTMLElement} cell
   * @param {Tensors} tensors
   * @param {number} layer
   * @param {number} head
   * @param {string} note
   */
  function write(cell, tensors, layer, head, note) {
    const at = run.layers.indexOf(layer) * run.heads + head;
    const each = run.layers.length * run.heads;
    const [value, low, high] = [0, 1, 2].map((what) => Number(tensors.heads.data[what * each + at]));
    const limits = Number.isNaN(low) ? "" : `${shown(low)} to ${shown(high)}`;
    const beside = [limits, note].filter(Boolean).join("; ");
    refill(cell, shown(value), beside ? html("span", { class: "note" }, beside) : null);
  }

  return { root, show };
}
