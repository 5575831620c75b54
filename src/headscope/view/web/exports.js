// What is seen, to take away: SVG, PNG and CSV.

import { vector } from "./dom.js";

/** @typedef {import("./state.js").State} State */
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

/** @param {string | number} field */
function quoted(field) {
  const text = String(field);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * The high pairs of a head as CSV: the columns of `inspection.high_pairs`.
 * @param {Current} current
 * @param {State} state
 */
export function pairsAsCsv({ head, text, pairs }, state) {
  const lines = ["i,j,token_i,token_j,distance,relation,similarity,level"];
  const { label } = text.tokens;
  for (const { i, j, p } of head.strongest(state.tau, Infinity)) {
    const row = [
      i,
      j,
      label[i],
      label[j],
      j - i,
      text.relations[pairs.relation[p]],
      head.value(i, j),
      head.level(i, j),
    ];
    lines.push(row.map(quoted).join(","));
  }
  return lines.join("\r\n") + "\r\n";
}

/**
 * The picture of a panel as SVG: tokens as they are coloured, arcs, the matrix with its legend, the histogram.
 * @param {Current} current
 * @param {State} state
 * @param {{matrix: {canvas: HTMLCanvasElement}, root: HTMLElement, theme: "light" | "dark"}} panel
 */
export function pictureAsSvg({ head, text, tokens, chart }, state, { matrix, root, theme }) {
  const [paper, ink] = theme === "light" ? ["#ffffff", "#1c2024"] : ["#15171c", "#e8eaed"];
  const whole = tokens.frame.getBoundingClientRect();
  const side = matrix.canvas.getBoundingClientRect().width;
  const gap = 24;
  const [textWidth, textHeight] = [Math.ceil(whole.width), Math.ceil(whole.height)];
  const beside = textWidth + side + 3 * gap <= 2400;
  const width = beside ? textWidth + side + 3 * gap : Math.max(textWidth, side) + 2 * gap;
  const left = beside ? textWidth + 2 * gap : gap;
  const top = beside ? 64 : textHeight + 90;
  const drawing = chart.querySelector("svg");
  const height = Math.max(64 + textHeight + 190, top + side + 40);
  const picture = vector("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    "font-family": "system-ui, sans-serif",
    fill: ink,
  });
  const say = (/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ words, size = 13) =>
    vector("text", { x, y, "font-size": size }, words);
  picture.append(
    vector("rect", { width, height, fill: paper }),
    say(gap, 26, `Layer ${head.layer}, head ${head.head} · ${text.model}`, 17),
    say(
      gap,
      46,
      `${state.show}, τ = ${(state.tau / 20).toFixed(2)}, θ = ${state.theta.toFixed(2)} · ${head.counts(state.tau).high} of ${head.pairs.number} pairs similar · ${text.shown}`,
      12,
    ),
  );
  const words = vector("g", { transform: `translate(${gap} 64)` });
  tokens.tokens.forEach((element, k) => {
    const box = tokens.box(k);
    const look = getComputedStyle(element);
    words.append(
      vector("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 3, fill: look.backgroundColor }),
      vector(
        "text",
        {
          x: box.x + box.width / 2,
          y: box.y + box.height * 0.72,
          "font-size": 14,
          "text-anchor": "middle",
          fill: look.color,
          direction: look.direction,
        },
        text.tokens.label[k],
      ),
    );
  });
  for (const path of tokens.frame.querySelectorAll(".arcs path")) {
    const copy = /** @type {Element} */ (path.cloneNode());
    copy.setAttribute("fill", "none");
    copy.setAttribute("opacity", "0.75");
    words.append(copy);
  }
  picture.append(
    words,
    vector("image", { x: left, y: top, width: side, height: side, href: matrix.canvas.toDataURL("image/png") }),
    say(
      left,
      top + side + 20,
      [...root.querySelectorAll(".legend span:not(.tau)")].map((each) => each.textContent).join("  ·  "),
      12,
    ),
  );
  if (drawing) {
    const copy = /** @type {SVGElement} */ (drawing.cloneNode(true));
    inlineStyles(drawing, copy);
    copy.setAttribute("x", String(gap));
    copy.setAttribute("y", String(beside ? textHeight + 84 : height - 170));
    if (beside) picture.append(copy);
  }
  return new XMLSerializer().serializeToString(picture);
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
