// Heads of a run by any score: as squares in their places, and in order with their intervals.

import { atlasView } from "./atlas.js";
import { interval } from "./charts.js";
import { css, palette, sided } from "./colours.js";
import { html, refill, shown } from "./dom.js";
import { scaleOf } from "./legend.js";

/** @typedef {import("./atlas.js").Tile} Tile */
/** @typedef {import("./source.js").Tensors} Tensors */
/** @typedef {import("./state.js").Store} Store */

const ENDS = 12; // heads shown at either end of the ranking

/**
 * @param {{run: any, store: Store, theme: () => "light" | "dark"}} spec
 */
export function runAtlas({ run, store, theme }) {
  /** @type {Tensors | null} */
  let data = null;
  const sorting = html(
    "select",
    { "aria-label": "Score", onchange: () => store.set({ runScore: sorting.value }) },
    ...run.scores.map((/** @type {any} */ each) => html("option", { value: each.name }, each.label)),
  );
  const ranked = html("input", { type: "checkbox", onchange: () => store.set({ runRanked: ranked.checked }) });
  const atlas = atlasView({
    layers: run.layers,
    heads: run.heads,
    label: "Heads: a row for each layer",
    onpick: (layer, head) => store.set({ runLayer: layer, runHead: head }),
  });
  const legend = html("div", { class: "legend" });
  const ranking = html("div", { class: "ranking", role: "group", "aria-label": "Heads by score, with intervals" });
  const side = html(
    "aside",
    { "aria-label": "Atlas of heads" },
    html("div", { class: "panel-header" }, html("h2", {}, "Heads"), html("label", { class: "toggle" }, ranked, "sort")),
    sorting,
    html("div", { class: "atlas-holder" }, atlas.grid),
    legend,
    html("h3", {}, "With intervals"),
    ranking,
  );

  /**
   * @param {"value" | "low" | "high"} what
   * @param {number} score
   * @param {number} layer
   * @param {number} head
   */
  function number(what, score, layer, head) {
    if (!data) return NaN;
    const row = run.layers.indexOf(layer);
    return Number(data[what].data[(score * run.layers.length + row) * run.heads + head]);
  }

  /**
   * The values between which colours are spread: all but the outermost.
   * @param {number[]} values
   * @returns {[number, number]}
   */
  function middle(values) {
    const known = values.filter((each) => !Number.isNaN(each)).sort((a, b) => a - b);
    return [known[Math.floor(known.length * 0.02)] ?? 0, known[Math.ceil(known.length * 0.98) - 1] ?? 1];
  }

  function show() {
    if (!data) return;
    const state = store.get();
    const place = Math.max(
      0,
      run.scores.findIndex((/** @type {any} */ each) => each.name === state.runScore),
    );
    const score = run.scores[place];
    const heads = run.layers.flatMap((/** @type {number} */ layer) =>
      Array.from({ length: run.heads }, (_, head) => ({ layer, head, score: number("value", place, layer, head) })),
    );
    const range = middle(heads.map((/** @type {{score: number}} */ each) => each.score));
    const colours = palette(theme(), score.base === null ? "norms" : "sides");
    const tiles = heads.map((/** @type {{layer: number, head: number, score: number}} */ each) => ({
      ...each,
      title: `95 %: ${["low", "high"].map((end) => shown(number(/** @type {"low" | "high"} */ (end), place, each.layer, each.head))).join(" to ")}`,
      paint: (/** @type {HTMLCanvasElement} */ canvas) => {
        [canvas.width, canvas.height] = [1, 1];
        const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
        context.fillStyle = Number.isNaN(each.score) ? "#888888" : css(colours, sided(each.score, score.base, range));
        context.fillRect(0, 0, 1, 1);
      },
    }));
    atlas.arrange(tiles, state.runRanked, { ...score, meaning: "" });
    atlas.paint(tiles, theme());
    atlas.choose(state.runLayer, state.runHead);
    showLegend(score, range, colours);
    showRanking(tiles, place, score);
  }

  /**
   * @param {any} score
   * @param {[number, number]} range
   * @param {Uint8ClampedArray} colours
   */
  function showLegend(score, [low, high], colours) {
    const far = (/** @type {number} */ value) => Math.abs(Math.log(Math.max(value, 1e-3)));
    const reach =
      score.base === 1 ? Math.exp(Math.max(far(low), far(high), 0.05)) : Math.max(Math.abs(low), Math.abs(high));
    const ends =
      score.base === 1 ? [1 / reach, 1, reach] : score.base === 0 ? [-reach, 0, reach] : [low, (low + high) / 2, high];
    refill(
      legend,
      ...scaleOf(
        score.label,
        colours,
        ends.map((each) => shown(each)),
      ),
    );
  }

  /**
   * @param {Tile[]} tiles
   * @param {number} place
   * @param {any} score
   */
  function showRanking(tiles, place, score) {
    const order = tiles.filter((each) => !Number.isNaN(each.score)).sort((a, b) => b.score - a.score);
    const ends = order.length > 2 * ENDS ? [...order.slice(0, ENDS), null, ...order.slice(-ENDS)] : order;
    const limits = (/** @type {Tile} */ each) =>
      /** @type {const} */ (["low", "high"]).map((end) => number(end, place, each.layer, each.head));
    const known = ends.flatMap((each) => (each ? [each.score, ...limits(each)] : []));
    const numbers = [...known, score.base ?? NaN].filter((each) => !Number.isNaN(each));
    const range = /** @type {[number, number]} */ ([Math.min(...numbers), Math.max(...numbers)]);
    const rows = ends.map((each) => {
      if (!each) return html("div", { class: "gap", "aria-hidden": "true" }, "⋮");
      const [low, high] = limits(each).map((value) => (Number.isNaN(value) ? null : value));
      return html(
        "button",
        {
          type: "button",
          class: "ranked-head",
          "data-head": `${each.layer}.${each.head}`,
          onclick: () => store.set({ runLayer: each.layer, runHead: each.head }),
        },
        html("span", {}, `${each.layer}.${each.head}`),
        interval({
          value: each.score,
          low,
          high,
          none: score.base ?? range[0],
          bound: null,
          ratio: score.base === 1,
          range,
          width: 150,
          kind: "",
          label: `${shown(each.score)}, 95 % from ${shown(low)} to ${shown(high)}`,
        }),
        html("b", {}, shown(each.score)),
      );
    });
    refill(ranking, ...rows);
  }

  return {
    side,
    show,
    number,
    choose: atlas.choose,
    /** @param {Tensors} tensors */
    take: (tensors) => {
      data = tensors;
      show();
    },
    follow: () => {
      ranked.checked = store.get().runRanked;
      sorting.value = store.get().runScore;
    },
  };
}
