// Scales of scores, as the figures' atlas has them (figures/atlas.py): two colours that meet at no effect, and no more of
// them than the heads reach. Heads far from all others get the end of the scale, which then says that they lie beyond.

const MOST = 0.95; // of the heads lie within a scale
const FAR = 1.5; // times as far as most heads: what lies farther is beyond the scale
const LEAST = 1e-3; // of a ratio whose logarithm is taken
const SMALLEST = 0.05; // that a scale reaches to either side, so that noise does not fill it

/**
 * `share`: where a value lies between the ends of the colours, 0 to 1. `from`, `to`: the part of them that heads have,
 * and `low`, `high` the scores there; `under`, `over`: whether heads lie beyond. `base`: no effect, null without one.
 * @typedef {{
 *   share: (value: number) => number, from: number, to: number, low: number, high: number, under: boolean,
 *   over: boolean, base: number | null,
 * }} Scale
 */

/**
 * @param {number[]} values of heads; those without a number are left out
 * @param {number | null} none no effect
 * @param {boolean} logarithmic
 * @returns {Scale}
 */
export function scaleFor(values, none, logarithmic) {
  const known = values.filter((each) => !Number.isNaN(each));
  const [least, most] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
  if (none === null && least >= 0) {
    const share = (/** @type {number} */ value) => (most > 0 ? value / most : 0);
    return { share, from: 0, to: 1, low: 0, high: most, under: false, over: false, base: null };
  }
  const base = none ?? 0;
  const off = (/** @type {number} */ value) => (logarithmic ? Math.log(Math.max(value, LEAST) / base) : value - base);
  const reach = Math.max(reachOf(known.map(off)), SMALLEST);
  const at = (/** @type {number} */ offset) => (logarithmic ? base * Math.exp(offset) : base + offset);
  const share = (/** @type {number} */ value) => 0.5 + off(value) / reach / 2;
  const [down, up] = [Math.max(-reach, Math.min(0, off(least))), Math.min(reach, Math.max(0, off(most)))];
  const ends = { from: 0.5 + down / reach / 2, to: 0.5 + up / reach / 2, low: at(down), high: at(up) };
  return { share, ...ends, under: off(least) < -reach, over: off(most) > reach, base };
}

/**
 * How far a scale reaches: to the farthest head, or, where that lies far from all others, as far as most do.
 * @param {number[]} offsets from no effect
 */
function reachOf(offsets) {
  const far = offsets.map(Math.abs).sort((a, b) => a - b);
  const farthest = far[far.length - 1] ?? 0;
  const place = MOST * (far.length - 1);
  const [below, above] = [far[Math.floor(place)] ?? 0, far[Math.ceil(place)] ?? 0];
  const most = below + (place % 1) * (above - below);
  return farthest <= FAR * most ? farthest : most;
}
