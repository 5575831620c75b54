// What the words of the page mean, behind a "?": for fingers, keys and mice alike.

import { html, refill } from "./dom.js";

/** @typedef {keyof typeof EXPLANATIONS} Term */

/** Terms in the order in which they are told, each with a sentence or three. */
const EXPLANATIONS = {
  shown: [
    [
      "similarity",
      "S: for two tokens, how much the two vectors agree that this head makes of them. Which vectors, and how they are compared, is the reading beside this switch.",
    ],
    [
      "level",
      "S over the largest S of any pair of this head in this text. 1 is its most similar pair, 0 no similarity; below 0 two vectors point apart. It makes heads with long and with short vectors comparable. With “levels by rank” in Options it is the place among all pairs instead.",
    ],
    [
      "attention",
      "What the head reads: a row is a token, and the cells of the row are how much of each token it reads. A row adds up to 1. Colours go by square roots, so that small weights are seen.",
    ],
    [
      "received",
      "How much attention a token gets from all others: 1 is the most attended of the tokens that count. Special tokens may get more.",
    ],
    [
      "norms",
      "How long the vector is that the head makes of each token. By dot, long vectors are similar to many others; by cosine length does not count.",
    ],
  ],
  tau: [
    [
      "τ",
      "The level from which on a pair counts as similar. At 0.50: all pairs at least half as similar as the head's most similar pair. Counts, scores, focal token and arcs follow it. The paper takes 0.50. “top” takes the sixteenth of all pairs that stand highest instead, the same number in every head.",
    ],
  ],
  theta: [
    [
      "θ",
      "The attention from which on a token counts as attended. At 0.30: all tokens that receive more than 30 % of what the most attended token receives. “mask” marks them. AUC tells whether pairs of two such tokens are more similar than pairs of two others; 0.5 is no difference.",
    ],
  ],
  runTau: [
    [
      "τ",
      "The level from which on a pair counts as similar: its S over the largest S of a pair of the same head and text. At 0.50: at least half as similar as the most similar pair. Verdicts are given at the run's own τ.",
    ],
  ],
  runTheta: [
    [
      "θ",
      "The attention from which on a token counts as attended, as a share of what the most attended token of the text receives. Claims 1a, 1b and 6 rest on it.",
    ],
  ],
};

/** Buttons with a "?", and the place where one explanation at a time is told. */
export function explainer() {
  const id = `explained-${Math.random().toString(36).slice(2)}`; // several viewers may be on one page
  const told = html("dl", {});
  const close = html(
    "button",
    { type: "button", class: "small", "aria-label": "close", onclick: () => show(null) },
    "✕",
  );
  const place = html(
    "div",
    { class: "explained", id, role: "region", "aria-label": "Explanation", hidden: true },
    told,
    close,
  );
  /** @type {Map<Term, HTMLButtonElement>} */
  const buttons = new Map();
  /** @type {Term | null} */
  let open = null;

  /** @param {Term | null} term */
  function show(term) {
    const left = open;
    open = term;
    place.hidden = term === null;
    for (const [name, each] of buttons) each.setAttribute("aria-expanded", String(name === term));
    if (term)
      refill(
        told,
        ...EXPLANATIONS[term].map(([name, words]) => html("div", {}, html("dt", {}, name), html("dd", {}, words))),
      );
    else if (left && place.matches(":focus-within")) buttons.get(left)?.focus();
  }

  place.addEventListener("keydown", (event) => {
    if (event.key === "Escape") escape(event);
  });

  /** @param {KeyboardEvent} event */
  function escape(event) {
    if (!open) return;
    const own = buttons.get(open);
    show(null);
    own?.focus();
    event.stopPropagation();
    event.preventDefault();
  }

  return {
    place,
    /**
     * @param {Term} term
     * @param {string} what it explains, in words
     */
    button: (term, what) => {
      const made = html(
        "button",
        {
          type: "button",
          class: "why",
          "aria-label": what,
          title: what,
          "aria-expanded": "false",
          "aria-controls": id,
          onclick: () => show(open === term ? null : term),
          onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && escape(event),
        },
        "?",
      );
      buttons.set(term, made);
      return made;
    },
  };
}
