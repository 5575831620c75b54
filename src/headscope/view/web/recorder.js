// What is drawn on a canvas, as SVG: the few operations of a canvas that the matrix needs, kept as shapes.

import { vector } from "./dom.js";

const ANCHORS = /** @type {Record<string, string>} */ ({ left: "start", center: "middle", right: "end" });

/** A canvas to draw on, and the group of shapes that it becomes. */
export function recorder() {
  const group = vector("g", {});
  /** @type {string[]} */
  const moves = [];
  /** @type {number[]} */
  const saved = [];
  const paint = {
    fillStyle: /** @type {string} */ ("#000000"),
    font: "11px system-ui, sans-serif",
    textAlign: /** @type {CanvasTextAlign} */ ("left"),
    textBaseline: /** @type {CanvasTextBaseline} */ ("middle"),
    /** @param {number} x @param {number} y @param {number} width @param {number} height */
    fillRect(x, y, width, height) {
      group.append(vector("rect", { x: short(x), y: short(y), width: short(width), height: short(height), ...look() }));
    },
    /** @param {string} text @param {number} x @param {number} y */
    fillText(text, x, y) {
      const at = { x: short(x), y: short(y), dy: "0.35em", "text-anchor": ANCHORS[paint.textAlign] };
      group.append(vector("text", { ...at, "font-size": parseFloat(paint.font), ...look() }, text));
    },
    save: () => void saved.push(moves.length),
    restore: () => void (moves.length = saved.pop() ?? 0),
    /** @param {number} x @param {number} y */
    translate: (x, y) => void moves.push(`translate(${short(x)} ${short(y)})`),
    /** @param {number} angle */
    rotate: (angle) => void moves.push(`rotate(${short((180 * angle) / Math.PI)})`),
  };
  function look() {
    const [, rgb, alpha] = paint.fillStyle.match(/^rgba\((.+),\s*([\d.]+)\)$/) ?? []; // not every reader knows rgba
    const fill = rgb ? { fill: `rgb(${rgb})`, "fill-opacity": alpha } : { fill: paint.fillStyle };
    return moves.length ? { ...fill, transform: moves.join(" ") } : fill;
  }
  return { paint, group };
}

/**
 * Cells as one path for each colour, neighbours of one colour in a row as one rectangle. Their edges are not blended,
 * so that no lines show between them.
 * @param {Uint8ClampedArray} colours four bytes for each cell, row by row
 * @param {number} columns
 * @param {{x: number, y: number, width: number, height: number}} place
 */
export function cellsAsPaths(colours, columns, { x, y, width, height }) {
  const rows = colours.length / 4 / columns;
  const pixels = new Uint32Array(colours.buffer, colours.byteOffset, colours.length / 4);
  /** @type {Map<number, string[]>} */
  const paths = new Map();
  for (let row = 0; row < rows; row++) {
    for (let from = 0, to = 1; to <= columns; to++) {
      const colour = pixels[row * columns + from];
      if (to < columns && pixels[row * columns + to] === colour) continue;
      const found = paths.get(colour) ?? [];
      if (!found.length) paths.set(colour, found);
      found.push(`M${from} ${row}h${to - from}v1h${from - to}z`);
      from = to;
    }
  }
  const shapes = [...paths].map(([colour, found]) => {
    const at = pixels.indexOf(colour) * 4;
    return vector("path", { d: found.join(""), fill: `rgb(${colours[at]},${colours[at + 1]},${colours[at + 2]})` });
  });
  const scale = `translate(${short(x)} ${short(y)}) scale(${width / columns} ${height / rows})`;
  return vector("g", { class: "cells", transform: scale, "shape-rendering": "crispEdges" }, ...shapes);
}

/** @param {number} value */
function short(value) {
  return Math.round(value * 100) / 100;
}
