// Colour scales: ordered in lightness, so that they are read right by everybody and in grey. One of each for light and
// dark pages: nothing is the colour of the page, much stands out from it.

/** @typedef {{stops: [number, string][]}} Scale */

/** @type {Record<"light" | "dark", Record<"similarity" | "attention" | "norms", [number, string][]>>} */
const SCALES = {
  light: {
    similarity: [
      [0, "#7fb8dd"],
      [0.5, "#ffffff"],
      [0.62, "#fdc98d"],
      [0.75, "#e8590c"],
      [0.88, "#6a1b7d"],
      [1, "#16002e"],
    ],
    attention: [
      [0, "#ffffff"],
      [0.5, "#74c476"],
      [1, "#00441b"],
    ],
    norms: [
      [0, "#ffffff"],
      [0.5, "#6baed6"],
      [1, "#08306b"],
    ],
  },
  dark: {
    similarity: [
      [0, "#2f7fb0"],
      [0.5, "#15171c"],
      [0.62, "#54206b"],
      [0.75, "#c43c4e"],
      [0.88, "#f98e09"],
      [1, "#fcffa4"],
    ],
    attention: [
      [0, "#15171c"],
      [0.5, "#238b45"],
      [1, "#c7f2c0"],
    ],
    norms: [
      [0, "#15171c"],
      [0.5, "#2171b5"],
      [1, "#cfe5ff"],
    ],
  },
};
// Where a score is above or below no effect. Below stays light, on a dark page dark: in grey, what stands out is above.
const TWO_SIDES = {
  light: [
    [0, "#3fa79d"],
    [0.5, "#f7f7f7"],
    [0.65, "#e6c88c"],
    [0.82, "#ad7a2a"],
    [1, "#3f2500"],
  ],
  dark: [
    [0, "#7fe0d4"],
    [0.25, "#2b8c82"],
    [0.5, "#23262d"],
    [0.75, "#b5872f"],
    [1, "#ffdb8f"],
  ],
};

/** @param {string} colour */
function rgb(colour) {
  return [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
}

/**
 * 256 colours as bytes, three each.
 * @param {[number, string][]} stops
 */
function table(stops) {
  const colours = new Uint8ClampedArray(768);
  for (let k = 0; k < 256; k++) {
    const at = k / 255;
    let right = stops.findIndex(([place]) => place >= at);
    if (right <= 0) right = 1;
    const [[from, a], [to, b]] = [stops[right - 1], stops[right]];
    const part = (at - from) / (to - from);
    const [one, other] = [rgb(a), rgb(b)];
    for (let c = 0; c < 3; c++) colours[3 * k + c] = one[c] + part * (other[c] - one[c]);
  }
  return colours;
}

/** @type {Map<string, Uint8ClampedArray>} */
const made = new Map();

/**
 * @param {"light" | "dark"} theme
 * @param {"similarity" | "attention" | "norms" | "sides"} name
 */
export function palette(theme, name) {
  const key = `${theme} ${name}`;
  let colours = made.get(key);
  if (!colours) {
    colours = table(/** @type {[number, string][]} */ (name === "sides" ? TWO_SIDES[theme] : SCALES[theme][name]));
    made.set(key, colours);
  }
  return colours;
}

/**
 * A colour that the style sheet names.
 * @param {Element} element
 * @param {string} name
 */
export function variable(element, name) {
  return getComputedStyle(element).getPropertyValue(name).trim();
}

/**
 * The colours of what is shown of a head.
 * @param {"light" | "dark"} theme
 * @param {import("./state.js").Shown} show
 */
export function paletteOf(theme, show) {
  const attends = show === "attention" || show === "received";
  return palette(theme, show === "norms" ? "norms" : attends ? "attention" : "similarity");
}

/**
 * A colour of a palette as CSS.
 * @param {Uint8ClampedArray} colours
 * @param {number} share 0 to 1
 */
export function css(colours, share) {
  const k = 3 * Math.round(255 * Math.min(Math.max(share, 0), 1));
  return `rgb(${colours[k]}, ${colours[k + 1]}, ${colours[k + 2]})`;
}

/**
 * Black or white, whichever can be read on a colour.
 * @param {Uint8ClampedArray} colours
 * @param {number} share
 */
export function ink(colours, share) {
  const k = 3 * Math.round(255 * Math.min(Math.max(share, 0), 1));
  const linear = [0, 1, 2].map((c) => (colours[k + c] / 255) ** 2.2);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.2 ? "#111111" : "#ffffff";
}

/**
 * A level's place on the similarity scale: zero in its middle.
 * @param {number} level
 */
export function signed(level) {
  return 0.5 + level / 2;
}
