// What lies behind one head of a run: how far it reaches, how it treats sentences, and the texts that show it best.

import { distances, lines } from "./charts.js";
import { html, refill, shown } from "./dom.js";

/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").State} State */

const NOTHING = "Choose a head to see how far it reaches, how it treats sentences, and the texts that show it best.";
const NO_ROWS = "This run kept no rows per text; analyze with --per-text to see texts that show a head.";

/**
 * @param {{
 *   source: Source, run: any, number: (what: "value" | "low" | "high", score: number, layer: number, head: number) => number,
 *   onopen: (text: string, layer: number, head: number) => void,
 * }} spec
 */
export function runHead({ source, run, number, onopen }) {
  const root = html("section", { class: "head-detail", "aria-label": "One head" });
  let asked = 0;

  /** @param {State} state */
  async function show(state) {
    const turn = ++asked;
    const [layer, head] = [state.runLayer, state.runHead];
    if (!run.layers.includes(layer) || head < 0 || head >= run.heads) {
      return refill(root, html("p", { class: "empty" }, NOTHING));
    }
    const curves = await source.get(`run/heads/${layer}/${head}/${state.runTau}`);
    if (turn !== asked) return;
    const examples = html("div", { class: "examples" });
    refill(
      root,
      html("h2", {}, `Layer ${layer}, head ${head}`),
      html("div", { class: "figures" }, ...drawn(curves), scores(state, layer, head)),
      examples,
    );
    if (!run.rows) return refill(examples, html("p", { class: "note" }, NO_ROWS));
    const articles = await texts(state, layer, head);
    if (turn === asked) refill(examples, ...articles);
  }

  /** @param {any} curves */
  function drawn(curves) {
    const size = { width: Math.min(430, Math.max(300, root.clientWidth - 20)), height: 200 };
    const { edges, distance, base, within, across } = curves;
    const both = [
      { name: "in one sentence", line: within, kind: "first" },
      { name: "across sentences", line: across, kind: "second" },
    ];
    return [
      html(
        "section",
        {},
        html("h3", {}, "Distance of similar pairs"),
        distances({ edges, share: distance.value, low: distance.low, high: distance.high, base, ...size }),
        html("p", { class: "note" }, "dashed: all pairs"),
      ),
      html(
        "section",
        {},
        html("h3", {}, "How often two words are similar"),
        lines({
          edges,
          lines: both,
          xlabel: "distance in tokens",
          label: "How often two words at a distance are similar, in one sentence and across",
          ...size,
        }),
        html("p", { class: "note" }, "bands: 95 %"),
      ),
    ];
  }

  /**
   * @param {State} state
   * @param {number} layer
   * @param {number} head
   */
  function scores(state, layer, head) {
    const rows = run.scores.map((/** @type {any} */ each, /** @type {number} */ place) => {
      const [value, low, high] = /** @type {const} */ (["value", "low", "high"]).map((what) =>
        shown(number(what, place, layer, head)),
      );
      return html(
        "tr",
        {},
        html("th", { scope: "row" }, each.label),
        html("td", {}, value),
        html("td", { class: "note" }, `${low} to ${high}`),
      );
    });
    return html(
      "section",
      {},
      html("h3", {}, `Scores at τ = ${(state.runTau / 20).toFixed(2)}`),
      html("table", { class: "scores" }, html("tbody", {}, ...rows)),
    );
  }

  /**
   * @param {State} state
   * @param {number} layer
   * @param {number} head
   */
  async function texts(state, layer, head) {
    const shownBy = run.scores.filter((/** @type {any} */ each) => each.examples);
    const chosen = shownBy.find((/** @type {any} */ each) => each.name === state.runScore) ?? shownBy[0];
    const rows = await source.get(`run/heads/${layer}/${head}/examples/${chosen.examples}`);
    const articles = rows.map((/** @type {any} */ each) => {
      const note = `${each.id} · ${chosen.examples.replaceAll("_", " ")} ${shown(each.score)} · ${each.high_pairs} similar pairs`;
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
    return [html("h3", {}, `Texts that show it most: ${chosen.label}`), ...articles];
  }

  return { root, show };
}
