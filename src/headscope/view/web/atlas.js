// The atlas: every head of every layer as a small picture, in its place or in the order of a score.

import { headName, headTitle, html, refill, shown } from "./dom.js";
import { palette, signed } from "./colours.js";

/** @typedef {import("./head.js").Score} Score */

/**
 * One head in the atlas.
 * `order`: what it is sorted by, where that is not its score, and `orderTitle`: what that is in words.
 * @typedef {{layer: number, head: number, score: number, order?: number, orderTitle?: string, title: string, paint: (canvas: HTMLCanvasElement, theme: "light" | "dark") => void}} Tile
 */

/**
 * A thumbnail of levels.
 * @param {HTMLCanvasElement} canvas
 * @param {Uint8Array} levels
 * @param {number} side
 * @param {"light" | "dark"} theme
 */
export function paintThumbnail(canvas, levels, side, theme) {
  const colours = palette(theme, "similarity");
  const image = new ImageData(side, side);
  const blank = theme === "light" ? 240 : 30;
  for (let at = 0; at < side * side; at++) {
    const k = levels[at] ? 3 * Math.round(255 * signed((levels[at] - 1) / 254)) : -1;
    for (let c = 0; c < 3; c++) image.data[4 * at + c] = k < 0 ? blank : colours[k + c];
    image.data[4 * at + 3] = 255;
  }
  [canvas.width, canvas.height] = [side, side];
  canvas.getContext("2d")?.putImageData(image, 0, 0);
}

/**
 * @param {{layers: number[], heads: number, label: string, onpick: (layer: number, head: number, pressed: boolean) => void}} spec
 */
export function atlasView({ layers, heads, label, onpick }) {
  const grid = html("div", { class: "atlas", role: "grid", "aria-label": label });
  /** @type {Map<string, {button: HTMLButtonElement, canvas: HTMLCanvasElement, caption: HTMLElement, bar: HTMLElement}>} */
  const tiles = new Map();
  for (const layer of layers) {
    for (let head = 0; head < heads; head++) {
      const canvas = html("canvas", { "aria-hidden": "true", width: 1, height: 1 });
      const caption = html("span", { class: "caption" });
      const bar = html("span", { class: "score", "aria-hidden": "true" });
      const button = html(
        "button",
        {
          type: "button",
          class: "tile waiting",
          role: "gridcell",
          tabindex: -1,
          "data-layer": layer,
          "data-head": head,
          onclick: () => onpick(layer, head, true),
        },
        canvas,
        bar,
        caption,
      );
      tiles.set(`${layer}.${head}`, { button, canvas, caption, bar });
    }
  }
  /** What the bars below the pictures are. */
  const bars = html("p", { class: "note bars" });
  /** The heads as they stand, row by row. @type {[number, number][][]} */
  let rows = [];
  let [columns, chosen] = [heads, ""];

  grid.addEventListener("keydown", (event) => {
    const button = /** @type {HTMLElement} */ (event.target).closest?.("button");
    if (!button) return;
    const key = `${button.dataset.layer}.${button.dataset.head}`;
    const row = rows.findIndex((each) => each.some(([l, h]) => `${l}.${h}` === key));
    const column = rows[row]?.findIndex(([l, h]) => `${l}.${h}` === key) ?? -1;
    /** @type {Record<string, [number, number]>} */
    const to = {
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      Home: [row, 0],
      End: [row, (rows[row]?.length ?? 1) - 1],
    };
    if (!(event.key in to)) return;
    event.preventDefault();
    event.stopPropagation();
    let [r, c] = to[event.key];
    const flowing = columns !== heads || rows.length !== layers.length;
    if (flowing && c < 0 && r > 0)
      [r, c] = [r - 1, rows[r - 1].length - 1]; // in a ranking, on to the line above or below
    else if (flowing && c >= (rows[r]?.length ?? 0) && r + 1 < rows.length) [r, c] = [r + 1, 0];
    const next = rows[r]?.[c];
    if (!next) return;
    onpick(...next, false);
    tiles.get(`${next[0]}.${next[1]}`)?.button.focus();
  });

  /**
   * Put every head where it belongs.
   * @param {Tile[]} heads_ in the order of layers and heads
   * @param {boolean} ranked
   * @param {Score | undefined} score
   */
  function arrange(heads_, ranked, score) {
    const orderOf = (/** @type {Tile} */ each) => (ranked ? (each.order ?? each.score) : each.score);
    const known = heads_.map(orderOf).filter((each) => !Number.isNaN(each));
    const [low, high] = [Math.min(...known), Math.max(...known)];
    tellBars(score, low, high, ranked && heads_.some((each) => !Number.isNaN(each.order ?? NaN)));
    for (const each of heads_) {
      const tile = tiles.get(`${each.layer}.${each.head}`);
      if (!tile) continue;
      const digits = score?.name === "high_pairs" ? 0 : 2;
      const value = shown(each.score, digits);
      const name = `layer ${each.layer}, head ${each.head}`;
      tile.button.title = `${headTitle(each.layer, each.head)}\n${score?.label ?? "score"}: ${value}${each.orderTitle ? `\n${each.orderTitle}` : ""}${each.title ? `\n${each.title}` : ""}`;
      const told = ranked && each.orderTitle ? `, ${each.orderTitle}` : "";
      tile.button.setAttribute("aria-label", `${name}, ${score?.label ?? "score"} ${value}${told}`);
      const at = orderOf(each);
      refill(
        tile.caption,
        ranked ? headName(each.layer, each.head) : "",
        ranked ? html("b", {}, shown(at, Math.min(digits, at >= 100 ? 0 : at >= 10 ? 1 : 2))) : null,
      );
      tile.bar.style.width = Number.isNaN(at) || high === low ? "0" : `${(100 * (at - low)) / (high - low)}%`;
    }
    grid.classList.toggle("ranked", ranked);
    grid.style.setProperty("--columns", String(heads));
    if (ranked) {
      const order = [...heads_].sort((a, b) =>
        Number.isNaN(orderOf(a)) ? 1 : Number.isNaN(orderOf(b)) ? -1 : orderOf(b) - orderOf(a),
      );
      columns = Math.min(heads, 6);
      grid.style.setProperty("--columns", String(columns));
      rows = [];
      order.forEach(({ layer, head }, k) => {
        if (k % columns === 0) rows.push([]);
        rows[rows.length - 1].push([layer, head]);
      });
    } else {
      columns = heads;
      rows = layers.map((layer) =>
        Array.from({ length: heads }, (_, head) => /** @type {[number, number]} */ ([layer, head])),
      );
    }
    const cells = rows.map((row) => {
      const name = ranked ? null : html("span", { class: "layer", role: "rowheader" }, row[0][0]);
      return html("div", { class: "row", role: "row" }, name, ...row.map(([l, h]) => tiles.get(`${l}.${h}`)?.button));
    });
    const numbers = Array.from({ length: heads }, (_, head) => html("span", { class: "layer" }, head));
    const top = html("div", { class: "row heads", "aria-hidden": "true" }, html("span", {}), ...numbers);
    refill(grid, ranked ? null : top, ...cells);
    choose(...chosen.split(".").map(Number));
  }

  /**
   * @param {Score | undefined} score
   * @param {number} low
   * @param {number} high
   * @param {boolean} pure whether heads stand in another order than that of the score
   */
  function tellBars(score, low, high, pure) {
    const digits = score?.name === "high_pairs" ? 0 : 2;
    const what = pure ? "how pure it is" : (score?.label ?? "its score");
    const words = `Bar below a head: ${what}, from none at ${shown(low, digits)} to full at ${shown(high, digits)}.`;
    refill(bars, Number.isFinite(low) && low < high ? words : "");
  }

  /**
   * Mark the head that is shown.
   * @param {...number} place
   */
  function choose(...place) {
    chosen = place.join(".");
    for (const [key, { button }] of tiles) {
      const own = key === chosen;
      button.classList.toggle("chosen", own);
      button.setAttribute("aria-selected", String(own));
      button.tabIndex = own ? 0 : -1;
    }
    const first = rows[0]?.[0];
    if (!tiles.has(chosen) && first) /** @type {any} */ (tiles.get(first.join("."))).button.tabIndex = 0;
  }

  /**
   * @param {Tile[]} heads_
   * @param {"light" | "dark"} theme
   */
  function paint(heads_, theme) {
    for (const each of heads_) {
      const tile = tiles.get(`${each.layer}.${each.head}`);
      if (!tile) continue;
      each.paint(tile.canvas, theme);
      tile.button.classList.remove("waiting");
    }
  }

  /** What the tiles show does not hold any more. */
  function wait() {
    for (const { button } of tiles.values()) button.classList.add("waiting");
  }

  return { grid, bars, arrange, choose, paint, wait };
}

/** The score whose atlas is sorted by how pure heads are: see view/purity.py. */
export const SORTED_BY_PURITY = "repetition_preference";
export const PURITY =
  "Sorted by how pure a head is: the share of repetitions among its similar pairs over their share among all pairs, " +
  "with ten pairs as chance has them added, so that few pairs do not lead. That is the number below each head.";

/**
 * How pure a head is, in words.
 * @param {number} ratio
 * @param {number} repeated
 */
export function purityWords(ratio, repeated) {
  return `${repeated.toLocaleString("en")} of its similar pairs are repetitions, ${shown(ratio)} times chance (shrunken)`;
}
