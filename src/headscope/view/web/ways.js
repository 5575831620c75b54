// How S is read for a score of a run: as the paper does, at τ; through the top pairs of a reading, or by its order; or
// what an attention map says instead.

/** @typedef {import("./charts.js").Look} Look */

/**
 * A score of heads or a number of layers, as Python declares it.
 * @typedef {{
 *   name: string, label: string, meaning: string, base: number | null, bound: number | null,
 *   logarithmic: boolean, read: string, matched: boolean, of_layers: boolean, ways: string[], heads: boolean,
 *   layers: boolean,
 *   examples: string | null, marked: boolean,
 * }} Quantity
 */

export const PAPER = "tau";
export const ALONE = "attention"; // of numbers in which S does not come in, and so no τ
const MAPS = /** @type {Record<string, string>} */ ({ direct: "read each other", rows: "read the same" });
const MAP_TITLES = /** @type {Record<string, string>} */ ({
  direct: "by the attention map: two tokens that read each other",
  rows: "by the attention map: two tokens that read the same tokens",
});

/**
 * The way that is wanted, where the quantity can be read so; else its first.
 * @param {Quantity} quantity
 * @param {string} wanted
 */
export function wayOf(quantity, wanted) {
  return quantity.ways.includes(wanted) ? wanted : quantity.ways[0];
}

/**
 * Where a quantity's numbers are, of a stack of the run.
 * @param {Quantity} quantity
 * @param {string} way
 * @param {number} step τ in twentieths
 */
export function pathOf(quantity, way, step) {
  return `scores/${quantity.name}/${way === PAPER ? step : way}`;
}

/**
 * A way in words, for a quantity or for all of them.
 * @param {string} way
 * @param {Quantity | null} [quantity]
 */
export function wayName(way, quantity = null) {
  if (way === PAPER) return "the paper's way, at τ";
  if (way === ALONE) return "from attention alone";
  if (way in MAPS) return `attention: ${MAPS[way]}`;
  return quantity && quantity.read !== "pairs" ? `by ${way}` : `top pairs by ${way}`;
}

/**
 * What a way means, in a sentence.
 * @param {any} run
 * @param {string} way
 */
export function wayTitle(run, way) {
  const main = run.readings[0].name;
  if (way === PAPER) {
    const level = run.scale === "rank" ? "rank" : "similarity over the largest";
    return `pairs whose level (${level}, by ${main}) is at least τ; what needs no threshold is read by ${main}`;
  }
  if (way === ALONE) return "from attention alone: S does not come in, and so no τ";
  if (way in MAP_TITLES) return MAP_TITLES[way];
  const meaning = run.readings.find((/** @type {any} */ each) => each.name === way)?.meaning ?? "";
  return `the sixteenth of a head's pairs that stand highest; ${way}: ${meaning}`;
}

/**
 * How a way is drawn: its colour, dash and marker, as the figures have them.
 * @param {any} run
 * @param {string} way
 * @returns {Look}
 */
export function wayLook(run, way) {
  const { marker, dash } = run.ways[way];
  return { kind: `way-${way}`, marker, dash, open: way === ALONE };
}
