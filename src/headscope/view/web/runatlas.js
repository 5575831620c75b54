// Heads of a run by any score: as squares in their places, and in order with their intervals.

import { atlasView, PURITY, purityWords } from "./atlas.js";
import { interval } from "./charts.js";
import { css, palette, variable } from "./colours.js";
import { headName, html, progressView, refill, shown } from "./dom.js";
import { scaleOf } from "./legend.js";
import { scaleFor } from "./scales.js";
import { wayName } from "./ways.js";

/** @typedef {import("./atlas.js").Tile} Tile */
/** @typedef {import("./scales.js").Scale} Scale */
/** @typedef {import("./source.js").Tensors} Tensors */
/** @typedef {import("./state.js").Store} Store */
/** @typedef {import("./ways.js").Quantity} Quantity */

const ENDS = 12; // heads shown at either end of the ranking

/**
 * @param {{run: any, store: Store, theme: () => "light" | "dark", onpressed: () => void}} spec
 */
export function runAtlas({ run, store, theme, onpressed }) {
  /** What is shown; all of it or nothing. @type {{score: Quantity, way: string, heads: Float64Array, pure: Float64Array | null, repeated: Float64Array | null} | null} */
  let now = null;
  const scores = run.quantities.filter((/** @type {Quantity} */ each) => each.heads);
  const sorting = html(
    "select",
    { "aria-label": "Score", onchange: () => store.set({ runScore: sorting.value }) },
    ...scores.map((/** @type {Quantity} */ each) => html("option", { value: each.name }, each.label)),
  );
  const ranked = html("input", { type: "checkbox", onchange: () => store.set({ runRanked: ranked.checked }) });
  const atlas = atlasView({
    layers: run.layers,
    heads: run.heads,
    label: "Heads: a row for each layer",
    onpick: pick,
  });
  const progress = progressView();
  const meaning = html("p", { class: "note" });
  const legend = html("div", { class: "legend" });
  const order = html("p", { class: "note" });
  const ranking = html("div", { class: "ranking", role: "group", "aria-label": "Heads by score, with intervals" });
  const side = html(
    "aside",
    { "aria-label": "Atlas of heads" },
    html("div", { class: "panel-header" }, html("h2", {}, "Heads"), html("label", { class: "toggle" }, ranked, "sort")),
    sorting,
    meaning,
    progress.root,
    html("div", { class: "atlas-holder" }, atlas.grid),
    atlas.bars,
    legend,
    html("h3", {}, "With intervals"),
    order,
    ranking,
  );

  /**
   * @param {number} layer
   * @param {number} head
   * @param {boolean} pressed and not walked to by keys
   */
  function pick(layer, head, pressed) {
    store.set({ runLayer: layer, runHead: head });
    if (pressed) onpressed();
  }

  /**
   * What a head is sorted by: how pure it is, where that is known, else its score.
   * @param {number} place
   */
  function orderOf(place) {
    const from = now?.pure ?? now?.heads;
    return from ? from[place] : NaN;
  }

  /**
   * @param {0 | 1 | 2} what value, low, high
   * @param {number} layer
   * @param {number} head
   */
  function number(what, layer, head) {
    const row = run.layers.indexOf(layer);
    return now ? now.heads[(what * run.layers.length + row) * run.heads + head] : NaN;
  }

  function show() {
    if (!now) return;
    const state = store.get();
    const { score, way } = now;
    const heads = run.layers.flatMap((/** @type {number} */ layer) =>
      Array.from({ length: run.heads }, (_, head) => {
        const place = run.layers.indexOf(layer) * run.heads + head;
        const pure =
          now?.pure && !Number.isNaN(now.pure[place]) ? purityWords(now.pure[place], now.repeated?.[place] ?? 0) : "";
        return { layer, head, score: number(0, layer, head), order: orderOf(place), orderTitle: pure };
      }),
    );
    const scores = heads.map((/** @type {{score: number}} */ each) => each.score);
    const scale = scaleFor(scores, score.base, score.logarithmic);
    const colours = palette(theme(), scale.base === null ? "norms" : "sides");
    const tiles = heads.map(
      (/** @type {{layer: number, head: number, score: number, order: number, orderTitle: string}} */ each) => ({
        ...each,
        title: `95 %: ${shown(number(1, each.layer, each.head))} to ${shown(number(2, each.layer, each.head))}`,
        paint: (/** @type {HTMLCanvasElement} */ canvas) => {
          [canvas.width, canvas.height] = [1, 1];
          const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
          context.fillStyle = Number.isNaN(each.score)
            ? variable(canvas, "--missing")
            : css(colours, scale.share(each.score));
          context.fillRect(0, 0, 1, 1);
        },
      }),
    );
    const { name, base } = score;
    const label = `${score.label}, ${wayName(way, score)}`;
    atlas.arrange(tiles, state.runRanked, { name, base, label, meaning: score.meaning });
    atlas.paint(tiles, theme());
    atlas.choose(state.runLayer, state.runHead);
    const pure = now.pure && state.runRanked ? html("span", { class: "sorted-by" }, ` ${PURITY}`) : null;
    refill(meaning, `${score.meaning}; ${wayName(way, score)}`, pure && ".", pure);
    showLegend(score, scale, colours);
    showRanking(tiles, score);
  }

  /**
   * The colours as far as heads have them; ≥ and ≤ where heads lie beyond.
   * @param {Quantity} score
   * @param {Scale} scale
   * @param {Uint8ClampedArray} colours
   */
  function showLegend({ label }, { from, to, low, high, under, over, base, share }, colours) {
    const number = (/** @type {number} */ each) => (each && Math.abs(each) < 0.1 ? each.toPrecision(1) : shown(each));
    const none = base === null ? null : html("span", { class: "no-effect", "aria-hidden": "true" });
    if (none && base !== null) none.style.left = `${(100 * (share(base) - from)) / (to - from || 1)}%`;
    const ends = [`${under ? "≤ " : ""}${number(low)}`, `${over ? "≥ " : ""}${number(high)}`];
    const signs = [under && "≤", over && "≥"].filter(Boolean).join(", ");
    const said = [
      base === null ? "" : `line: no effect, ${number(base)}`,
      signs ? `${signs}: heads lie beyond, at most 5 % of them` : "",
    ];
    const unknown = html("span", {}, html("span", { class: "no-number", "aria-hidden": "true" }), " no number");
    refill(
      legend,
      ...scaleOf(label, colours, ends, none, [from, to]),
      html("span", {}, said.filter(Boolean).join("; ")),
      heads().some(Number.isNaN) ? unknown : null,
    );
  }

  /** @returns {number[]} */
  function heads() {
    return now ? Array.from(now.heads.subarray(0, run.layers.length * run.heads)) : [];
  }

  /**
   * @param {Tile[]} tiles
   * @param {Quantity} score
   */
  function showRanking(tiles, score) {
    const sorted = tiles
      .filter((each) => !Number.isNaN(each.score))
      .sort((a, b) => (b.order ?? b.score) - (a.order ?? a.score));
    const ends = sorted.length > 2 * ENDS ? [...sorted.slice(0, ENDS), null, ...sorted.slice(-ENDS)] : sorted;
    const limits = (/** @type {Tile} */ each) => [number(1, each.layer, each.head), number(2, each.layer, each.head)];
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
          onclick: () => pick(each.layer, each.head, true),
        },
        html("span", {}, headName(each.layer, each.head)),
        interval({
          value: each.score,
          low,
          high,
          none: score.base ?? range[0],
          bound: null,
          log: score.logarithmic,
          range,
          width: 215,
          kind: "",
          label: `${shown(each.score)}, 95 % from ${shown(low)} to ${shown(high)}`,
        }),
        html("b", {}, shown(each.score)),
      );
    });
    refill(order, now?.pure ? "the purest first, each with its own preference" : "");
    refill(ranking, ...rows);
  }

  return {
    side,
    show,
    choose: atlas.choose,
    /**
     * @param {Quantity} score
     * @param {string} way
     * @param {Tensors} tensors
     */
    take: (score, way, tensors) => {
      now = {
        score,
        way,
        heads: /** @type {Float64Array} */ (tensors.heads.data),
        pure: /** @type {Float64Array | null} */ (tensors.purity?.data ?? null),
        repeated: /** @type {Float64Array | null} */ (tensors.repeated?.data ?? null),
      };
      show();
    },
    /** Say that the heads of a score are being computed, until they are there. @type {(what: string) => void} */
    wait: (what) => {
      side.setAttribute("aria-busy", "true");
      progress.show(what);
    },
    ready: () => {
      side.removeAttribute("aria-busy");
      progress.hide();
    },
    /** The head that is chosen, for those who go on with keys. */
    focus: () =>
      /** @type {HTMLElement | null} */ (atlas.grid.querySelector(".tile.chosen"))?.focus({ preventScroll: true }),
    /** The head that shows the score most. @returns {{runLayer: number, runHead: number}} */
    first: () => {
      const known = heads().map((_, place) => (Number.isNaN(orderOf(place)) ? -Infinity : orderOf(place)));
      const place = known.indexOf(Math.max(...known));
      return { runLayer: run.layers[Math.floor(place / run.heads)], runHead: place % run.heads };
    },
    follow: () => {
      ranked.checked = store.get().runRanked;
      sorting.value = store.get().runScore;
    },
  };
}
