// What is painted of the matrix, on a canvas or as SVG: cells, the tokens around them, bars, marks.

import { fitted, fontOf, roundStep } from "./axes.js";
import { css, paletteOf } from "./colours.js";

/** @typedef {import("./head.js").Head} Head */
/** @typedef {import("./state.js").State} State */
/** @typedef {{head: Head, state: State, theme: "light" | "dark", inside: boolean[] | null}} Drawn */
/** @typedef {ReturnType<typeof import("./recorder.js").recorder>["paint"] | CanvasRenderingContext2D} Paint */
/**
 * What part of the matrix is shown, and where it lies, in CSS pixels. There are no axes where there are bars.
 * @typedef {{
 *   axes: import("./axes.js").Axes | null, rows: number, columns: number, whole: number,
 *   n: number, x: number, y: number, side: number, margin: number, cell: number,
 * }} Layout
 */

const FADED = 0.22; // how much of its colour a pair below τ keeps
const AROUND_BARS = { left: 34, right: 4, top: 10, bottom: 30 }; // in CSS pixels

/**
 * The colour of each cell, four bytes; of each pixel where cells are smaller.
 * @param {ReturnType<typeof import("./shades.js").shades>} shading
 * @param {Drawn} drawn
 */
export function cellColours({ shade, bins, width, height }, { state, theme }) {
  const colours = paletteOf(theme, state.show);
  const least = state.tau + 2;
  const data = new Uint8ClampedArray(4 * width * height);
  const blank = theme === "light" ? 236 : 34;
  const paper = theme === "light" ? 255 : 21;
  for (let at = 0; at < shade.length; at++) {
    const part = bins[at] >= least ? 1 : FADED;
    for (let c = 0; c < 3; c++) {
      data[4 * at + c] = bins[at] ? part * colours[3 * shade[at] + c] + (1 - part) * paper : blank;
    }
    data[4 * at + 3] = 255;
  }
  return { width, height, data };
}

/**
 * What stands around the cells and over them: sentences, tokens, and the tokens with high attention.
 * @param {Paint} context
 * @param {Drawn} drawn
 * @param {Layout} box
 */
export function paintAround(context, drawn, box) {
  paintAxes(context, drawn, box);
  if (drawn.inside && drawn.state.show !== "attention") paintMask(context, drawn.inside, box);
}

/**
 * Sentences as strips along two sides and lines across; tokens where there is room for them.
 * @param {Paint} context
 * @param {Drawn} drawn
 * @param {Layout} box
 */
function paintAxes(context, { head, state, theme }, box) {
  const own = head.text.tokens;
  const keys = state.show === "attention" ? (head.text.keys ?? own) : own;
  const strips = theme === "light" ? ["#9aa7b4", "#d3dae1"] : ["#5b6b7c", "#333d48"];
  const line = theme === "light" ? "rgba(0, 0, 0, .45)" : "rgba(255, 255, 255, .4)";
  const { axes, side } = box;
  if (!axes) return;
  context.font = fontOf(axes.size);
  for (const across of [true, false]) {
    const tokens = across ? keys : own;
    const [from, number] = across ? [box.x, box.columns] : [box.y, box.rows];
    const long = (across ? box.rows : box.columns) * box.cell;
    const parted = new Set(tokens.sentence.slice(from, from + number)).size < side / 14; // else lines drown the cells
    for (let begin = 0, k = 1; k <= number; k++) {
      const sentence = tokens.sentence[from + begin];
      if (k < number && tokens.sentence[from + k] === sentence) continue;
      const [at, wide] = [box.margin + begin * box.cell, (k - begin) * box.cell];
      if (sentence >= 0) {
        context.fillStyle = strips[sentence % 2];
        context.fillRect(
          across ? at : box.margin - 6,
          across ? box.margin - 6 : at,
          across ? wide : 4,
          across ? 4 : wide,
        );
      }
      if (begin > 0 && parted) {
        context.fillStyle = line;
        context.fillRect(
          across ? at - 0.5 : box.margin,
          across ? box.margin : at - 0.5,
          across ? 1 : long,
          across ? long : 1,
        );
      }
      begin = k;
    }
    context.fillStyle = theme === "light" ? "#222222" : "#dddddd";
    for (let k = 0; k < number; k++) {
      const [token, at] = [from + k, box.margin + k * box.cell];
      if (token % axes.every) continue;
      context.save();
      context.translate(across ? at + box.cell / 2 : box.margin - 9, across ? box.margin - 9 : at + box.cell / 2);
      if (across) context.rotate(-Math.PI / 2);
      context.textAlign = across ? "left" : "right";
      context.textBaseline = "middle";
      context.fillText(fitted(tokens.label[token], axes), 0, 0);
      context.restore();
    }
  }
}

/**
 * Bands over the tokens with high attention.
 * @param {Paint} context
 * @param {boolean[]} inside
 * @param {Layout} box
 */
function paintMask(context, inside, box) {
  context.fillStyle = "rgba(0, 114, 178, .22)";
  const width = Math.max(box.cell, 1);
  for (let k = 0; k < box.n; k++) {
    const at = box.margin + k * box.cell;
    if (inside[box.x + k]) context.fillRect(at, box.margin, width, box.rows * box.cell);
    if (inside[box.y + k]) context.fillRect(box.margin, at, box.columns * box.cell, width);
  }
}

/**
 * Attention received, or norms: a bar for each token.
 * @param {Paint} context
 * @param {Drawn} drawn
 * @param {Layout} box
 * @param {string} lit the colour of tokens with high attention
 */
export function paintBars(context, { head, state, theme, inside }, box, lit) {
  const values = state.show === "norms" ? head.norms : head.receivedShare;
  const colours = paletteOf(theme, state.show);
  let most = state.show === "norms" ? 1e-12 : 1;
  for (const value of values) if (state.show === "norms" && value > most) most = value;
  const { side } = box;
  const { left, right, top, bottom } = AROUND_BARS;
  const [wide, high] = [barWidth(box), side - bottom - top];
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (let k = 0; k <= 4; k++) {
    const y = top + high * (1 - k / 4);
    context.fillStyle = theme === "light" ? "#e3e6ea" : "#2c3138";
    context.fillRect(left, y, side - left - right, 1);
    context.fillStyle = theme === "light" ? "#444444" : "#bbbbbb";
    context.fillText(((most * k) / 4).toPrecision(2), left - 4, y);
  }
  for (let k = 0; k < box.n && box.x + k < values.length; k++) {
    const share = Math.min(values[box.x + k] / most, 1);
    const masked = state.show === "received" && inside?.[box.x + k];
    context.fillStyle = masked ? lit : css(colours, 0.25 + 0.75 * share);
    context.fillRect(left + k * wide, top + high * (1 - share), Math.max(wide - 0.5, 0.5), high * share);
  }
  if (state.show === "received") {
    const y = top + high * (1 - state.theta);
    context.fillStyle = lit;
    for (let x = left; x < side - right; x += 6) context.fillRect(x, y - 0.5, 3, 1.5);
    context.textAlign = "left";
    context.fillText("θ", side - 14, y - 8);
  }
  context.fillStyle = theme === "light" ? "#444444" : "#bbbbbb";
  context.textAlign = "center";
  const step = roundStep(box.n, side - left - right);
  for (let k = Math.ceil(box.x / step) * step; k < Math.min(box.x + box.n, values.length); k += step) {
    context.fillText(String(k), left + (k - box.x + 0.5) * wide, side - bottom + 8);
  }
  context.textAlign = "right";
  context.fillText("token", side - right, side - 5);
}

/** @param {Layout} box */
function barWidth({ side, n }) {
  return (side - AROUND_BARS.left - AROUND_BARS.right) / n;
}

/**
 * The token whose bar lies at a place.
 * @param {Layout} box
 * @param {number} x
 */
export function barAt(box, x) {
  return box.x + Math.floor((x - AROUND_BARS.left) / barWidth(box));
}

/**
 * A row and a column that are pointed at, or the bars of two tokens.
 * @param {CanvasRenderingContext2D} context
 * @param {Drawn} drawn
 * @param {Layout} box
 * @param {number} i
 * @param {number} j
 */
export function paintMarks(context, { theme }, box, i, j) {
  context.fillStyle = theme === "light" ? "rgba(0, 0, 0, .10)" : "rgba(255, 255, 255, .14)";
  context.strokeStyle = theme === "light" ? "#000000" : "#ffffff";
  if (!box.axes) {
    const [wide, high] = [barWidth(box), box.side - AROUND_BARS.bottom];
    for (const token of [i, j])
      if (token >= box.x) context.fillRect(AROUND_BARS.left + (token - box.x) * wide, 0, Math.max(wide, 2), high);
    return;
  }
  const width = Math.max(box.cell, 1.5);
  const [top, left] = [box.margin + (i - box.y) * box.cell, box.margin + (j - box.x) * box.cell];
  const [row, column] = [i >= box.y && i < box.y + box.rows, j >= box.x && j < box.x + box.columns];
  if (row) context.fillRect(box.margin, top, box.columns * box.cell, width);
  if (column) context.fillRect(left, box.margin, width, box.rows * box.cell);
  if (row && column) context.strokeRect(left, top, width, width);
}
