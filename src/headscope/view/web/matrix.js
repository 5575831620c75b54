// The matrix on a canvas: one cell for each two tokens, linked with the text, with zoom and pan.

import { axesFor, fitted, fontOf, roundStep } from "./axes.js";
import { clamp, html } from "./dom.js";
import { css, paletteOf, variable } from "./colours.js";
import { gestures } from "./gestures.js";
import { cellsAsPaths, recorder } from "./recorder.js";
import { shades } from "./shades.js";

/** @typedef {import("./head.js").Head} Head */
/** @typedef {import("./state.js").State} State */
/** @typedef {{head: Head, state: State, theme: "light" | "dark", inside: boolean[] | null}} Drawn */
/** @typedef {ReturnType<typeof recorder>["paint"] | CanvasRenderingContext2D} Paint */

const MARGIN = 14; // for the strips that show sentences
const FADED = 0.22; // how much of its colour a pair below τ keeps

/**
 * @param {{
 *   onhover: (i: number, j: number) => void,
 *   onpick: (i: number, j: number) => void,
 *   onmove: (x: number, y: number, n: number) => void,
 * }} events
 */
export function matrixView(events) {
  const canvas = html("canvas", { class: "picture", role: "img", tabindex: "0" });
  const over = html("canvas", { class: "over", "aria-hidden": "true" });
  const frame = html("div", { class: "matrix" }, canvas, over);
  /** @type {Drawn | null} */
  let drawn = null;
  let side = 0; // in CSS pixels
  /** @type {{key: string, shading: ReturnType<typeof shades>} | null} */
  let shaded = null;
  const cells = document.createElement("canvas");

  /** What part is shown, and where it lies on the canvas. */
  function layout() {
    if (!drawn) return null;
    const { head, state } = drawn;
    const rows = head.size;
    const columns = state.show === "attention" ? (head.text.keys?.label.length ?? head.size) : head.size;
    const whole = Math.max(rows, columns);
    const n = state.n >= 4 && state.n < whole ? Math.round(state.n) : whole;
    const x = clamp(0, Math.round(state.x), Math.max(0, columns - n));
    const y = clamp(0, Math.round(state.y), Math.max(0, rows - n));
    const axes = barred(state) ? null : labels(head, x, Math.min(n, columns), y, Math.min(n, rows));
    const margin = MARGIN + (axes?.room ?? 0);
    return {
      axes,
      rows: Math.min(n, rows),
      columns: Math.min(n, columns),
      whole,
      n,
      x,
      y,
      margin,
      cell: (side - margin) / n,
    };
  }

  /** @type {{key: string, axes: import("./axes.js").Axes} | null} */
  let labelled = null;

  /**
   * The labels of a part of the matrix: measured once, for every movement of a pointer asks where cells lie.
   * @param {Head} head
   * @param {number} x
   * @param {number} columns
   * @param {number} y
   * @param {number} rows
   */
  function labels(head, x, columns, y, rows) {
    const along = drawn?.state.show === "attention" ? (head.text.keys ?? head.text.tokens) : head.text.tokens;
    const key = [head.text.id, x, columns, y, rows, side, along === head.text.keys].join(" ");
    if (labelled?.key !== key) {
      const sides = /** @type {[import("./head.js").Tokens, number, number][]} */ ([
        [along, x, columns],
        [head.text.tokens, y, rows],
      ]);
      labelled = { key, axes: axesFor(sides, side, MARGIN) };
    }
    return labelled.axes;
  }

  /** @param {Drawn} next */
  function draw(next) {
    drawn = next;
    if (barred(next.state)) return drawBars();
    const box = layout();
    if (!box || side <= 0) return;
    const { width, height, data } = cellColours(next, box);
    const context = sized(canvas);
    [cells.width, cells.height] = [width, height];
    const image = new ImageData(data, width, height);
    /** @type {CanvasRenderingContext2D} */ (cells.getContext("2d")).putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(cells, box.margin, box.margin, box.columns * box.cell, box.rows * box.cell);
    drawAround(context, next, box);
    canvas.setAttribute("aria-label", described(next.head, next.state));
    mark(marked.i, marked.j);
  }

  /**
   * What is seen as shapes, in CSS pixels; null where nothing is drawn.
   * @returns {SVGElement | null}
   */
  function asSvg() {
    const box = layout();
    if (!drawn || !box || side <= 0) return null;
    const { paint, group } = recorder();
    if (barred(drawn.state)) paintBars(paint, drawn, box);
    else {
      const { width, data } = cellColours(drawn, box);
      const place = { x: box.margin, y: box.margin, width: box.columns * box.cell, height: box.rows * box.cell };
      group.append(cellsAsPaths(data, width, place));
      drawAround(paint, drawn, box);
    }
    return group;
  }

  /**
   * Sentences, tokens, and the tokens with high attention.
   * @param {Paint} context
   * @param {Drawn} next
   * @param {NonNullable<ReturnType<typeof layout>>} box
   */
  function drawAround(context, next, box) {
    drawAxes(context, next, box);
    if (next.inside && next.state.show !== "attention") drawMask(context, next.inside, box);
  }

  /**
   * The colour of each cell, four bytes; of each pixel where cells are smaller.
   * @param {Drawn} next
   * @param {NonNullable<ReturnType<typeof layout>>} box
   */
  function cellColours(next, box) {
    const { head, state, theme } = next;
    const colours = paletteOf(theme, state.show);
    const most = Math.ceil(side * devicePixelRatio);
    const key = [
      head.text.id,
      head.layer,
      head.head,
      head.reading,
      head.top,
      state.show,
      box.x,
      box.y,
      box.n,
      most,
      head.attention !== null,
    ].join(" ");
    if (shaded?.key !== key) shaded = { key, shading: shades(next, box.x, box.y, box.columns, box.rows, most) };
    const { shading } = shaded;
    const least = state.tau + 2;
    const data = new Uint8ClampedArray(4 * shading.width * shading.height);
    const blank = theme === "light" ? 236 : 34;
    const paper = theme === "light" ? 255 : 21;
    for (let at = 0; at < shading.shade.length; at++) {
      const part = shading.bins[at] >= least ? 1 : FADED;
      for (let c = 0; c < 3; c++) {
        data[4 * at + c] = shading.bins[at] ? part * colours[3 * shading.shade[at] + c] + (1 - part) * paper : blank;
      }
      data[4 * at + 3] = 255;
    }
    return { width: shading.width, height: shading.height, data };
  }

  /**
   * Sentences as strips along two sides and lines across; tokens where there is room for them.
   * @param {Paint} context
   * @param {Drawn} next
   * @param {NonNullable<ReturnType<typeof layout>>} box
   */
  function drawAxes(context, { head, theme }, box) {
    const own = head.text.tokens;
    const keys = drawn?.state.show === "attention" ? (head.text.keys ?? own) : own;
    const strips = theme === "light" ? ["#9aa7b4", "#d3dae1"] : ["#5b6b7c", "#333d48"];
    const line = theme === "light" ? "rgba(0, 0, 0, .45)" : "rgba(255, 255, 255, .4)";
    const { axes } = box;
    if (!axes) return;
    context.font = fontOf(axes.size);
    canvas.dataset.margin = String(box.margin);
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
   * @param {NonNullable<ReturnType<typeof layout>>} box
   */
  function drawMask(context, inside, box) {
    context.fillStyle = "rgba(0, 114, 178, .22)";
    const width = Math.max(box.cell, 1);
    for (let k = 0; k < box.n; k++) {
      const at = box.margin + k * box.cell;
      if (inside[box.x + k]) context.fillRect(at, box.margin, width, box.rows * box.cell);
      if (inside[box.y + k]) context.fillRect(box.margin, at, box.columns * box.cell, width);
    }
  }

  /** Attention received, or norms: a bar for each token. */
  function drawBars() {
    const box = layout();
    if (!drawn || !box || side <= 0) return;
    paintBars(sized(canvas), drawn, box);
    canvas.setAttribute("aria-label", described(drawn.head, drawn.state));
    mark(marked.i, marked.j);
  }

  /**
   * @param {Paint} context
   * @param {Drawn} next
   * @param {NonNullable<ReturnType<typeof layout>>} box
   */
  function paintBars(context, { head, state, theme, inside }, box) {
    const values = state.show === "norms" ? head.norms : head.receivedShare;
    const colours = paletteOf(theme, state.show);
    let most = state.show === "norms" ? 1e-12 : 1;
    for (const value of values) if (state.show === "norms" && value > most) most = value;
    const [left, bottom, top] = [34, 30, 10];
    const [wide, high] = [(side - left - 4) / box.n, side - bottom - top];
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (let k = 0; k <= 4; k++) {
      const y = top + high * (1 - k / 4);
      context.fillStyle = theme === "light" ? "#e3e6ea" : "#2c3138";
      context.fillRect(left, y, side - left - 4, 1);
      context.fillStyle = theme === "light" ? "#444444" : "#bbbbbb";
      context.fillText(((most * k) / 4).toPrecision(2), left - 4, y);
    }
    for (let k = 0; k < box.n && box.x + k < values.length; k++) {
      const share = Math.min(values[box.x + k] / most, 1);
      const masked = state.show === "received" && inside?.[box.x + k];
      context.fillStyle = masked ? variable(frame, "--mask") : css(colours, 0.25 + 0.75 * share);
      context.fillRect(left + k * wide, top + high * (1 - share), Math.max(wide - 0.5, 0.5), high * share);
    }
    if (state.show === "received") {
      const y = top + high * (1 - state.theta);
      context.fillStyle = variable(frame, "--mask");
      for (let x = left; x < side - 4; x += 6) context.fillRect(x, y - 0.5, 3, 1.5);
      context.textAlign = "left";
      context.fillText("θ", side - 14, y - 8);
    }
    context.fillStyle = theme === "light" ? "#444444" : "#bbbbbb";
    context.textAlign = "center";
    const step = roundStep(box.n, side - left - 4);
    for (let k = Math.ceil(box.x / step) * step; k < Math.min(box.x + box.n, values.length); k += step) {
      context.fillText(String(k), left + (k - box.x + 0.5) * wide, side - bottom + 8);
    }
    context.textAlign = "right";
    context.fillText("token", side - 4, side - 5);
  }

  /**
   * A context whose unit is a CSS pixel, cleared.
   * @param {HTMLCanvasElement} target
   */
  function sized(target) {
    const pixels = Math.round(side * devicePixelRatio);
    if (target.width !== pixels) [target.width, target.height] = [pixels, pixels];
    const context = /** @type {CanvasRenderingContext2D} */ (target.getContext("2d"));
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, side, side);
    return context;
  }

  const marked = { i: -1, j: -1 };

  /**
   * Mark a row and a column.
   * @param {number} i
   * @param {number} j
   */
  function mark(i, j) {
    [marked.i, marked.j] = [i, j];
    const box = layout();
    if (!drawn || !box || side <= 0) return;
    const context = sized(over);
    const bars = barred(drawn.state);
    context.fillStyle = drawn.theme === "light" ? "rgba(0, 0, 0, .10)" : "rgba(255, 255, 255, .14)";
    context.strokeStyle = drawn.theme === "light" ? "#000000" : "#ffffff";
    if (bars) {
      const wide = (side - 38) / box.n;
      for (const token of [i, j])
        if (token >= box.x) context.fillRect(34 + (token - box.x) * wide, 0, Math.max(wide, 2), side - 30);
      return;
    }
    const width = Math.max(box.cell, 1.5);
    const [top, left] = [box.margin + (i - box.y) * box.cell, box.margin + (j - box.x) * box.cell];
    const [row, column] = [i >= box.y && i < box.y + box.rows, j >= box.x && j < box.x + box.columns];
    if (row) context.fillRect(box.margin, top, box.columns * box.cell, width);
    if (column) context.fillRect(left, box.margin, width, box.rows * box.cell);
    if (row && column) context.strokeRect(left, top, width, width);
  }

  /** @param {PointerEvent | MouseEvent | WheelEvent} event */
  function under(event) {
    const box = layout();
    if (!box || !drawn) return null;
    const corner = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - corner.left, event.clientY - corner.top];
    if (barred(drawn.state)) {
      const token = box.x + Math.floor((x - 34) / ((side - 38) / box.n));
      const known = token >= 0 && token < drawn.head.size;
      return known ? { i: token, j: token, box, fx: 0.5, fy: 0.5 } : null;
    }
    const [fx, fy] = [(x - box.margin) / box.cell, (y - box.margin) / box.cell];
    if (fx < 0 || fy < 0 || fx >= box.columns || fy >= box.rows) return null;
    return { i: box.y + Math.floor(fy), j: box.x + Math.floor(fx), box, fx: fx / box.n, fy: fy / box.n };
  }

  /**
   * Show less or more around a point.
   * @param {number} factor
   * @param {number} fx
   * @param {number} fy
   */
  function zoom(factor, fx = 0.5, fy = 0.5) {
    const box = layout();
    if (!box) return;
    const n = clamp(Math.min(6, box.whole), Math.round(box.n * factor), box.whole);
    if (n === box.n) return;
    const x = clamp(0, Math.round(box.x + fx * (box.n - n)), box.whole - n);
    const y = clamp(0, Math.round(box.y + fy * (box.n - n)), box.whole - n);
    events.onmove(x, y, n === box.whole ? 0 : n);
  }

  gestures(canvas, { layout, under, zoom, ...events });

  return {
    frame,
    canvas,
    draw,
    asSvg,
    mark,
    zoom,
    whole: () => events.onmove(0, 0, 0),
    /**
     * @param {number} dx
     * @param {number} dy
     */
    pan: (dx, dy) => {
      const box = layout();
      if (!box || box.n === box.whole) return;
      const [stride, bound] = [Math.max(1, Math.round(box.n / 8)), box.whole - box.n];
      events.onmove(clamp(0, box.x + dx * stride, bound), clamp(0, box.y + dy * stride, bound), box.n);
    },
    /** @param {number} wide in CSS pixels */
    resize: (wide) => {
      if (Math.abs(wide - side) < 1) return;
      side = wide;
      frame.style.height = `${wide}px`;
      if (drawn) draw(drawn);
    },
  };
}

/**
 * Whether there is a number for each token, not for each two of them.
 * @param {State} state
 */
function barred({ show }) {
  return show === "received" || show === "norms";
}

/**
 * What the picture shows, for those who cannot see it.
 * @param {Head} head
 * @param {State} state
 */
function described(head, state) {
  const names = {
    similarity: "Similarity matrix",
    level: "Levels of all pairs",
    attention: "Attention map",
    received: "Attention received by each token",
    norms: "Length of each token's output",
  };
  const counts = head.counts(state.tau);
  return (
    `${names[state.show]} of layer ${head.layer}, head ${head.head}, ${head.size} tokens, read by ${head.reading}. ` +
    `${counts.high} of ${head.pairs.number} pairs are ${head.top ? "top pairs" : `similar at τ ${(state.tau / 20).toFixed(2)}`}. ` +
    "The table of strongest pairs below holds the same as text."
  );
}
