// What the colours of the matrix mean.

import { css, paletteOf } from "./colours.js";
import { html, refill } from "./dom.js";
import { strongestOf } from "./shades.js";

/** @typedef {import("./head.js").Head} Head */
/** @typedef {import("./state.js").State} State */

const NAMES = {
  similarity: "similarity S",
  level: "level",
  attention: "attention A",
  received: "attention received, of the largest among tokens that count",
  norms: "norm",
};

/**
 * The numbers at the scale's beginning, middle and end.
 * @param {Head} head
 * @param {State["show"]} show
 */
function ends(head, show) {
  if (show === "level") return ["−1", "0", "1"];
  if (show === "similarity") return [-head.widest, 0, head.widest].map((each) => each.toPrecision(2));
  if (show === "received") return ["0", "0.5", "1"];
  if (show === "norms") {
    const longest = head.norms.reduce((most, each) => Math.max(most, each), 0);
    return ["0", (longest / 2).toPrecision(2), longest.toPrecision(2)];
  }
  const most = head.attention ? strongestOf(head.attention) : 1;
  return ["0", (most / 4).toPrecision(2), most.toPrecision(2)]; // by square roots
}

/**
 * A scale of colours with its name and the numbers along it.
 * @param {string} name
 * @param {Uint8ClampedArray} colours
 * @param {string[]} numbers
 * @param {HTMLElement | null} [mark]
 * @param {[number, number]} [part] of the colours that is shown
 */
export function scaleOf(name, colours, numbers, mark = null, [from, to] = [0, 1]) {
  const ramp = html("div", { class: "ramp" }, mark);
  const stops = Array.from({ length: 21 }, (_, k) => css(colours, from + (k / 20) * (to - from)));
  ramp.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const along = html("div", { class: "ends" }, ...numbers.map((each) => html("span", {}, each)));
  return [html("span", {}, name), ramp, along];
}

export function legendView() {
  const legend = html("div", { class: "legend" });
  let drawn = "";

  /**
   * @param {Head} head
   * @param {State} state
   * @param {"light" | "dark"} theme
   */
  function draw(head, state, theme) {
    const { show, tau } = state;
    const key = [head.text.id, head.layer, head.head, head.reading, show, theme, head.attention !== null].join(" ");
    if (key !== drawn) {
      drawn = key;
      const mark = show === "level" ? html("span", { class: "tau", title: "τ" }) : null;
      const name = show === "similarity" || show === "level" ? `${NAMES[show]} (${head.reading})` : NAMES[show];
      refill(legend, ...scaleOf(name, paletteOf(theme, show), ends(head, show), mark));
    }
    const tick = /** @type {HTMLElement | null} */ (legend.querySelector(".tau"));
    if (tick) tick.style.left = `${50 + 2.5 * tau}%`;
  }

  return { legend, draw };
}
