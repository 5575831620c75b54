// The matrix on a canvas: one cell for each two tokens, linked with the text, with zoom and pan. What is painted on it
// is in matrixpaint.js.

import { axesFor } from "./axes.js";
import { variable } from "./colours.js";
import { clamp, html } from "./dom.js";
import { gestures } from "./gestures.js";
import { barAt, cellColours, paintAround, paintBars, paintMarks } from "./matrixpaint.js";
import { cellsAsPaths, recorder } from "./recorder.js";
import { shades } from "./shades.js";

/** @typedef {import("./head.js").Head} Head */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./matrixpaint.js").Drawn} Drawn */
/** @typedef {import("./matrixpaint.js").Layout} Layout */

const MARGIN = 14; // for the strips that show sentences

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

  /**
   * What part is shown, and where it lies on the canvas.
   * @returns {Layout | null}
   */
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
      side,
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

  /**
   * The shades of the part that is shown, kept while only τ moves.
   * @param {Drawn} next
   * @param {Layout} box
   */
  function shadesOf(next, box) {
    const { head, state } = next;
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
    return shaded.shading;
  }

  /** @param {Drawn} next */
  function draw(next) {
    drawn = next;
    const box = layout();
    if (!box || side <= 0) return;
    const context = sized(canvas);
    if (barred(next.state)) paintBars(context, next, box, variable(frame, "--mask"));
    else {
      const { width, height, data } = cellColours(shadesOf(next, box), next);
      [cells.width, cells.height] = [width, height];
      const image = new ImageData(data, width, height);
      /** @type {CanvasRenderingContext2D} */ (cells.getContext("2d")).putImageData(image, 0, 0);
      context.imageSmoothingEnabled = false;
      context.drawImage(cells, box.margin, box.margin, box.columns * box.cell, box.rows * box.cell);
      paintAround(context, next, box);
      canvas.dataset.margin = String(box.margin);
    }
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
    if (barred(drawn.state)) paintBars(paint, drawn, box, variable(frame, "--mask"));
    else {
      const { width, data } = cellColours(shadesOf(drawn, box), drawn);
      const place = { x: box.margin, y: box.margin, width: box.columns * box.cell, height: box.rows * box.cell };
      group.append(cellsAsPaths(data, width, place));
      paintAround(paint, drawn, box);
    }
    return group;
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
    if (drawn && box && side > 0) paintMarks(sized(over), drawn, box, i, j);
  }

  /** @param {PointerEvent | MouseEvent | WheelEvent} event */
  function under(event) {
    const box = layout();
    if (!box || !drawn) return null;
    const corner = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - corner.left, event.clientY - corner.top];
    if (barred(drawn.state)) {
      const token = barAt(box, x);
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
