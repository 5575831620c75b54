// The matrix as shades, one for each pixel: what does not change while a slider moves.

import { signed } from "./colours.js";
import { clamp } from "./dom.js";
import { pairPlace } from "./head.js";

/** @typedef {import("./head.js").Head} Head */
/** @typedef {import("./state.js").State} State */

const SPECIAL = 255; // stands for the bin of two tokens that are no pair and yet have a similarity

/**
 * Shades of a region of the matrix, 0 to 255, and the bins of its pairs, the largest of both where cells are smaller
 * than pixels. They do not depend on τ, so that moving it costs a comparison for each pixel.
 * @param {{head: Head, state: State}} drawn
 * @param {number} x
 * @param {number} y
 * @param {number} columns
 * @param {number} rows
 * @param {number} most pixels that there are
 */
export function shades({ head, state }, x, y, columns, rows, most) {
  const step = Math.max(1, Math.floor(Math.max(columns, rows) / most));
  const [width, height] = [Math.ceil(columns / step), Math.ceil(rows / step)];
  const shade = new Uint8Array(width * height);
  const bins = new Uint8Array(width * height); // one more than the bin; 0: nothing there
  const { pairs, size, flat, ranks, largest } = head;
  const paired = pairs.places.length;
  const attention = state.show === "attention" ? head.attention : null;
  const keys = head.text.keys?.label.length ?? size;
  const strongest = attention ? strongestOf(attention) : 0;
  for (let i = y; i < y + rows; i++) {
    for (let j = x; j < x + columns; j++) {
      let [value, bin] = [0, 0];
      if (state.show === "attention") {
        if (attention) [value, bin] = [Math.sqrt(attention[i * keys + j] / strongest) * 255, SPECIAL];
      } else if (i !== j) {
        const [a, b] = i < j ? [i, j] : [j, i];
        const [ra, rb] = [pairs.rank[a], pairs.rank[b]];
        const p = ra < 0 || rb < 0 ? -1 : pairPlace(ra, rb, paired);
        const s = head.similarity[pairPlace(a, b, size)];
        if (state.show === "level") {
          if (p >= 0 && !flat) {
            value = signed(clamp(-1, ranks ? ranks[p] : s / largest, 1)) * 255;
            bin = head.bin[p] + 1;
          }
        } else {
          value = signed(clamp(-1, s / (head.widest || 1), 1)) * 255;
          bin = p < 0 ? SPECIAL : head.bin[p] + 1;
        }
      }
      const at = Math.floor((i - y) / step) * width + Math.floor((j - x) / step);
      if (value > shade[at]) shade[at] = value;
      if (bin > bins[at]) bins[at] = bin;
    }
  }
  return { shade, bins, width, height };
}

/** @type {WeakMap<Float32Array, number>} */
const largestWeights = new WeakMap();

/** @param {Float32Array} attention */
export function strongestOf(attention) {
  let largest = largestWeights.get(attention);
  if (largest === undefined) {
    largest = 1e-12;
    for (const weight of attention) if (weight > largest) largest = weight;
    largestWeights.set(attention, largest);
  }
  return largest;
}
