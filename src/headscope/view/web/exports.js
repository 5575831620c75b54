// What is seen, to take away as a picture: SVG and PNG.

import { css, paletteOf } from "./colours.js";
import { headTitle, vector } from "./dom.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {ReturnType<typeof import("./panel.js").panelView>} Panel */
/** @typedef {NonNullable<ReturnType<ReturnType<typeof import("./panel.js").panelView>["current"]>>} Current */

/**
 * Offer something as a file.
 * @param {Blob} blob
 * @param {string} name
 */
export function saveFile(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * What is seen as SVG: one panel, or two beside each other.
 * @param {Panel[]} panels
 * @param {State} state
 * @param {"light" | "dark"} theme
 */
export function pictureAsSvg(panels, state, theme) {
  const pictures = panels.flatMap((panel) => {
    const current = panel.current();
    return current ? [panelAsSvg(current, panel, state, theme)] : [];
  });
  const width = pictures.reduce((sum, { width: own }) => sum + own, 0);
  const height = Math.max(...pictures.map((each) => each.height));
  const whole = vector("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    "font-family": "system-ui, sans-serif",
    fill: theme === "light" ? "#1c2024" : "#e8eaed",
  });
  whole.append(vector("rect", { width, height, fill: theme === "light" ? "#ffffff" : "#15171c" }));
  let x = 0;
  for (const { picture, width: own } of pictures) {
    picture.setAttribute("transform", `translate(${x} 0)`);
    whole.append(picture);
    x += own;
  }
  return new XMLSerializer().serializeToString(whole);
}

const GAP = 24;
const TOP = 64; // below the title

/**
 * Tokens as they are coloured, arcs, the matrix with its legend, the histogram.
 * @param {Current} current
 * @param {Panel} panel
 * @param {State} state
 * @param {"light" | "dark"} theme
 */
function panelAsSvg({ head, text, tokens, chart }, { matrix, root }, state, theme) {
  const box = tokens.frame.getBoundingClientRect();
  const [wide, high] = [Math.ceil(box.width), Math.ceil(box.height)];
  const side = matrix.canvas.getBoundingClientRect().width;
  const counts = `${head.counts(state.tau).high} of ${head.pairs.number} pairs ${head.top ? "at the top" : "similar"}`;
  const about = `${state.show}, τ = ${(state.tau / 20).toFixed(2)}, θ = ${state.theta.toFixed(2)} · ${counts} · ${text.shown}`;
  const picture = vector(
    "g",
    {},
    vector(
      "text",
      { x: GAP, y: 26, "font-size": 17 },
      `${headTitle(head.layer, head.head)}, by ${head.reading} · ${text.model}`,
    ),
    vector("text", { x: GAP, y: 46, "font-size": 12 }, about),
    wordsAsSvg(tokens, text),
    vector("g", { transform: `translate(${2 * GAP + wide} ${TOP})` }, matrix.asSvg()),
    legendAsSvg(root, head, state, theme, 2 * GAP + wide, TOP + side + 8),
  );
  const drawing = chart.querySelector("svg");
  if (drawing) {
    const copy = /** @type {SVGElement} */ (drawing.cloneNode(true));
    inlineStyles(drawing, copy);
    copy.setAttribute("x", String(GAP));
    copy.setAttribute("y", String(TOP + high + 16));
    picture.append(copy);
  }
  return { picture, width: wide + side + 3 * GAP, height: Math.max(TOP + high + 180, TOP + side + 60) };
}

/**
 * @param {Current["tokens"]} tokens
 * @param {Current["text"]} text
 */
function wordsAsSvg(tokens, text) {
  const words = vector("g", { transform: `translate(${GAP} ${TOP})` });
  for (const path of tokens.frame.querySelectorAll(".arcs path")) {
    const copy = /** @type {Element} */ (path.cloneNode());
    copy.setAttribute("fill", "none");
    copy.setAttribute("opacity", "0.6");
    words.append(copy);
  }
  tokens.tokens.forEach((element, k) => {
    const { x, y, width, height } = tokens.box(k);
    const look = getComputedStyle(element);
    const sentence = text.tokens.sentence[k];
    words.append(
      vector("rect", { x, y, width, height, rx: 3, fill: look.backgroundColor }),
      vector(
        "text",
        {
          x: x + width / 2,
          y: y + height * 0.72,
          "font-size": 14,
          "text-anchor": "middle",
          fill: look.color,
          direction: look.direction,
        },
        fitting(element.textContent ?? "", width, height),
      ),
    );
    if (sentence >= 0) {
      words.append(
        vector("rect", {
          x: x - 1,
          y: y + height + 3,
          width: width + 2,
          height: 1.5,
          fill: "#808890",
          opacity: sentence % 2 ? 0.3 : 0.8,
        }),
      );
    }
    if (element.classList.contains("focal")) {
      words.append(vector("text", { x: x + width / 2, y: y - 3, "font-size": 9, "text-anchor": "middle" }, "★"));
    }
  });
  return words;
}

/**
 * A token that takes several lines on the page is cut to one.
 * @param {string} label
 * @param {number} width
 * @param {number} height
 */
function fitting(label, width, height) {
  const most = Math.floor(width / 8);
  return height > 36 && label.length > most ? `${label.slice(0, most - 1)}…` : label;
}

/**
 * @param {HTMLElement} root
 * @param {Current["head"]} head
 * @param {State} state
 * @param {"light" | "dark"} theme
 * @param {number} x
 * @param {number} y
 */
function legendAsSvg(root, head, state, theme, x, y) {
  const { show } = state;
  const colours = paletteOf(theme, show);
  const [name, ...ends] = [...root.querySelectorAll(".legend > span, .legend .ends span")].map(
    (each) => each.textContent,
  );
  const steps = Array.from({ length: 64 }, (_, k) =>
    vector("rect", { x: x + 4 * k, y: y + 16, width: 4.5, height: 10, fill: css(colours, k / 63) }),
  );
  const numbers = ends.map((each, k) =>
    vector("text", { x: x + 128 * k, y: y + 40, "font-size": 11, "text-anchor": ["start", "middle", "end"][k] }, each),
  );
  return vector(
    "g",
    { "data-head": `${head.layer}.${head.head}` },
    vector("text", { x, y: y + 10, "font-size": 12 }, name),
    ...steps,
    ...numbers,
  );
}

/**
 * Colours come from the page's style, which does not go along.
 * @param {Element} from
 * @param {Element} to
 */
function inlineStyles(from, to) {
  const look = getComputedStyle(from);
  for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "opacity"]) {
    to.setAttribute(name, look.getPropertyValue(name));
  }
  [...from.children].forEach((child, k) => inlineStyles(child, to.children[k]));
}

/**
 * @param {string} svg
 * @returns {Promise<Blob>}
 */
export function svgAsPng(svg) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      const scale = Math.min(2, 8192 / Math.max(image.width, image.height));
      [canvas.width, canvas.height] = [image.width * scale, image.height * scale];
      canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) =>
        blob ? resolve(blob) : reject(new Error("The picture is too large for a PNG; take the SVG.")),
      );
    };
    image.onerror = () => reject(new Error("The picture could not be drawn."));
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  });
}
