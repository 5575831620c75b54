// Tokens along the sides of the matrix: as many as there is room for, each of them whole.

/** @typedef {import("./head.js").Tokens} Tokens */
/** @typedef {{every: number, size: number, room: number}} Axes */

const APART = 11; // pixels between the middles of two labels, at least
const LARGEST = 0.3; // of the matrix's side that labels may take
const GAP = 4; // between a label and the strip that shows its sentence

/** @type {CanvasRenderingContext2D | null} */
let ruler = null;

/** @param {number} size in pixels */
export function fontOf(size) {
  return `${size}px system-ui, sans-serif`;
}

/**
 * How wide a label is.
 * @param {string} label
 * @param {number} size
 */
function wide(label, size) {
  ruler ??= document.createElement("canvas").getContext("2d");
  if (!ruler) return 0;
  ruler.font = fontOf(size);
  return ruler.measureText(label).width;
}

/**
 * Which tokens get a label: every so many-th, so that they do not touch; and the room for the longest of these.
 * @param {[Tokens, number, number][]} sides tokens, the first one that is shown, how many of them
 * @param {number} side of the picture, in pixels
 * @param {number} margin that is taken already
 * @returns {Axes}
 */
export function axesFor(sides, side, margin) {
  const number = Math.max(...sides.map(([, , many]) => many));
  let axes = { every: 1, size: 0, room: 0 };
  // The room depends on which labels are shown, and these on the room: twice is enough.
  for (let turn = 0; turn < 2; turn++) {
    const cell = (side - margin - axes.room) / number;
    const every = Math.max(1, Math.ceil(APART / cell));
    const size = Math.min(Math.max(9, Math.floor(cell * every * 0.8)), every > 1 ? 10 : 13);
    const widest = Math.max(0, ...sides.flatMap(([tokens, from, many]) => labelsOf(tokens, from, many, every, size)));
    axes = { every, size, room: Math.min(Math.ceil(widest) + GAP, Math.floor(side * LARGEST)) };
  }
  return axes;
}

/**
 * @param {Tokens} tokens
 * @param {number} from
 * @param {number} many
 * @param {number} every
 * @param {number} size
 */
function labelsOf(tokens, from, many, every, size) {
  const found = [];
  for (let token = from; token < from + many; token++) {
    if (token % every === 0) found.push(wide(tokens.label[token] ?? "", size));
  }
  return found;
}

/**
 * A label that fits; only one that is longer than any room loses its end.
 * @param {string} label
 * @param {Axes} axes
 */
export function fitted(label, { size, room }) {
  if (wide(label, size) <= room - GAP) return label;
  let end = label.length;
  while (end > 1 && wide(`${label.slice(0, end)}…`, size) > room - GAP) end--;
  return `${label.slice(0, end)}…`;
}

/**
 * Round numbers along an axis of so many tokens, as far apart as they must be.
 * @param {number} number
 * @param {number} long in pixels
 */
export function roundStep(number, long) {
  const least = (number * 34) / long;
  for (let unit = 1; ; unit *= 10) {
    for (const each of [1, 2, 5]) if (each * unit >= least) return each * unit;
  }
}
