// What lies behind one head of a run: how far it reaches, how it treats sentences, its scores in every way that S was
// read, and the texts that show it best.

import { distances, lines, swatch } from "./charts.js";
import { html, progressView, refill, shown } from "./dom.js";
import { plain } from "./runnumbers.js";
import { PAPER, wayName, wayTitle } from "./ways.js";

/** @typedef {import("./runnumbers.js").RunNumbers} RunNumbers */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./source.js").Tensors} Tensors */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./ways.js").Quantity} Quantity */

const NOTHING = "Choose a head to see how far it reaches, how it treats sentences, and the texts that show it best.";
const NO_ROWS = "This run kept no rows per text; analyze with --per-text to see texts that show a head.";
const STEPS = 19; // thresholds

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
    return html("div", { class: "panel-header" }, html("h2", {}, `Layer ${layer}, head ${head}`), all);
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
    progress.show(`Working out how far layer ${layer}, head ${head} reaches …`);
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
    const examples = html("div", { class: "examples" });
    const table = html("table", { class: "scores" });
    refill(
      root,
      heading(layer, head),
      html("div", { class: "figures" }, ...drawn(curves, state)),
      html("h3", {}, "Scores in every way that S was read"),
      html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Scores of this head" }, table),
      examples,
    );
    fill(table, state, turn);
    root.dataset.head = `${layer}.${head}`;
    if (run.rows) refill(examples, html("p", { class: "note busy" }, "Looking for texts that show it"));
    if (!run.rows) return refill(examples, html("p", { class: "note" }, NO_ROWS));
    const articles = await texts(state, layer, head);
    if (turn === requests) refill(examples, ...articles);
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
    const both = [
      { name: "in one sentence", kind: "first", strong: true, ...line("within") },
      { name: "across sentences", kind: "second", strong: true, ...line("across") },
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
        html(
          "p",
          { class: "note key" },
          ...both.flatMap(({ name, kind }) => [swatch(kind), ` ${name} `]),
          "· shaded: 95 %",
        ),
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
      const cells = ways.map((way) => {
        const own = score.ways[0] === "attention" && way === PAPER ? "attention" : way; // the same however S is read
        const cell = html("td", {});
        if (score.ways.includes(own)) {
          refill(cell, html("span", { class: "waiting", title: "being computed" }, "…"));
          numbers.get(score, own, state.runTau).then((tensors) => {
            if (turn === requests) write(cell, tensors, layer, head);
          }, fail);
        }
        return cell;
      });
      return html("tr", {}, html("th", { scope: "row", title: score.meaning }, score.label), ...cells);
    });
    refill(table, html("thead", {}, html("tr", {}, html("td", {}), ...heading)), html("tbody", {}, ...rows));
  }

  /**
   * @param {HTMLElement} cell
   * @param {Tensors} tensors
   * @param {number} layer
   * @param {number} head
   */
  function write(cell, tensors, layer, head) {
    const at = run.layers.indexOf(layer) * run.heads + head;
    const each = run.layers.length * run.heads;
    const [value, low, high] = [0, 1, 2].map((what) => Number(tensors.heads.data[what * each + at]));
    const limits = Number.isNaN(low) ? "" : `${shown(low)} to ${shown(high)}`;
    refill(cell, shown(value), limits ? html("span", { class: "note" }, limits) : null);
  }

  /**
   * @param {State} state
   * @param {number} layer
   * @param {number} head
   */
  async function texts(state, layer, head) {
    const shownBy = scores.filter((/** @type {Quantity} */ each) => each.examples);
    const chosen = shownBy.find((/** @type {Quantity} */ each) => each.name === state.runScore) ?? shownBy[0];
    const rows = await source.get(`${run.path}/heads/${layer}/${head}/examples/${chosen.examples}`);
    const articles = rows.map((/** @type {any} */ each) => {
      const note = `${each.id} · ${chosen.label} ${shown(each.score)} · ${each.high_pairs} similar pairs`;
      const focal = each.focal_token ? [" · focal token ", html("bdi", { class: "quoted" }, each.focal_token)] : [];
      return html(
        "article",
        { class: "example" },
        html("p", { class: "note" }, note, ...focal),
        html("p", { dir: "auto" }, each.short),
        source.inspect
          ? html(
              "button",
              { type: "button", class: "small", onclick: () => onopen(each.text, layer, head) },
              "look at it with this head",
            )
          : null,
      );
    });
    const none = html("p", { class: "note" }, "No text has enough similar pairs for this score.");
    const other = chosen.name === state.runScore ? "" : " (texts are not kept by the chosen score)";
    return [
      html("h3", {}, `Texts that show it most: ${chosen.label}${other}`),
      ...(articles.length ? articles : [none]),
    ];
  }

  return { root, show };
}
