// Marks along lines: each way of reading has a shape of its own, as in the figures, so that lines are told apart without
// their colours. Shapes go by the letters with which they are declared (figures/colours.py).

import { vector } from "./dom.js";

/** The outline of each shape around 0, 0, about as large as a circle of radius 1. @type {Record<string, string>} */
const SHAPES = {
  o: "M-1 0A1 1 0 1 0 1 0A1 1 0 1 0 -1 0Z",
  s: "M-.9 -.9H.9V.9H-.9Z",
  D: "M0 -1.25L1.25 0L0 1.25L-1.25 0Z",
  "^": "M0 -1.25L1.15 .85H-1.15Z",
  v: "M0 1.25L1.15 -.85H-1.15Z",
  P: "M-.4 -1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z",
  X: "M-.6 -1.2L0 -.6L.6 -1.2L1.2 -.6L.6 0L1.2 .6L.6 1.2L0 .6L-.6 1.2L-1.2 .6L-.6 0L-1.2 -.6Z",
};

/**
 * A mark at a place of a chart.
 * @param {string} shape its letter; an unknown one is a circle, and an empty one nothing that is seen
 * @param {number} x
 * @param {number} y
 * @param {number} size the radius of the circle
 * @param {string} kind the class that colours it
 * @param {...Node} children
 */
export function marker(shape, x, y, size, kind, ...children) {
  return vector(
    "path",
    {
      d: SHAPES[shape] ?? SHAPES.o,
      transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size})`,
      class: `point ${kind}${shape ? "" : " unmarked"}`,
    },
    ...children,
  );
}
