// What is shown of a text, and from which thresholds on.

import { html, refill } from "./dom.js";
import { explainer } from "./explanations.js";
import { readingOf } from "./head.js";
import { SHOWN } from "./state.js";

/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./state.js").Store} Store */

/**
 * A slider with its sign and, beside it, what it stands at.
 * @param {"τ" | "θ"} sign
 * @param {(value: number) => void} onmove
 * @param {Record<string, any>} [more]
 */
export function thresholdSlider(sign, onmove, more = {}) {
  const range = html("input", {
    type: "range",
    "aria-label":
      sign === "τ" ? "τ: the level from which a pair is similar" : "θ: the attention from which a token is attended",
    oninput: () => onmove(Number(range.value)),
    ...more,
  });
  const output = html("output", {});
  return { range, output, label: html("label", { class: "slider" }, html("span", {}, sign), range, output) };
}

/**
 * One of a few words.
 * @param {string} legend
 * @param {{name: string, title: string, label?: string}[]} words
 * @param {(name: string) => void} onpick
 */
export function switchOf(legend, words, onpick) {
  const group = `switch-${Math.random().toString(36).slice(2)}`; // several viewers may be on one page
  const labels = words.map(({ name, title, label }) =>
    html(
      "label",
      { title },
      html("input", { type: "radio", name: group, value: name, onchange: () => onpick(name) }),
      html("span", {}, label ?? name),
    ),
  );
  return {
    field: html("fieldset", { class: "switch" }, html("legend", {}, legend), ...labels),
    /**
     * @param {string} chosen
     * @param {string[]} there the others cannot be chosen
     */
    follow: (chosen, there) => {
      for (const each of labels) {
        const radio = /** @type {HTMLInputElement} */ (each.querySelector("input"));
        radio.checked = radio.value === chosen;
        each.hidden = !there.includes(radio.value);
      }
    },
  };
}

/**
 * A menu of what can be taken away.
 * @param {[string, string][]} saves
 * @param {(kind: string) => void} onsave
 */
export function exportMenu(saves, onsave) {
  const menu = html("details", { class: "menu" }, html("summary", {}, "Export"));
  const buttons = saves.map(([kind, label]) => {
    const onclick = () => {
      menu.open = false;
      onsave(kind);
    };
    return html("button", { type: "button", "data-save": kind, onclick }, label);
  });
  menu.append(html("div", {}, ...buttons));
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary")?.focus();
    event.stopPropagation();
  });
  return menu;
}

/** What a stack of a model is, for whoever chooses one. */
export const STACKS = /** @type {Record<string, string>} */ ({
  encoder: "the text that the model reads, within itself",
  decoder: "the text that the model writes, within itself",
  cross: "cross-attention: each token that is written reads the text that was read",
});

/**
 * @param {{
 *   store: Store, readings: {name: string, meaning: string}[], saves: [string, string][],
 *   onsave: (kind: string) => void, onstack: ((name: string) => void) | null,
 * }} spec
 */
export function controlBar({ store, readings, saves, onsave, onstack }) {
  const explained = explainer();
  const stack = switchOf(
    "Which stack of the model",
    Object.entries(STACKS).map(([name, title]) => ({ name, title })),
    (name) => onstack?.(name),
  );
  const shown = switchOf(
    "What the matrix shows",
    SHOWN.map((name, k) => ({ name, title: `key ${k + 1}` })),
    (name) => store.set({ show: /** @type {import("./state.js").Shown} */ (name) }),
  );
  const read = switchOf(
    "How similarity is read",
    readings.map(({ name, meaning }) => ({ name, title: `${meaning} (key r: the next one)` })),
    (name) => store.set({ reading: name }),
  );
  const meaning = html("p", { class: "note meaning" });
  const tau = thresholdSlider("τ", (value) => store.set({ tau: value }), { min: 1, max: 19, step: 1 });
  const theta = thresholdSlider("θ", (value) => store.set({ theta: value }), { min: 0, max: 0.95, step: 0.01 });
  const toggle = (/** @type {"mask" | "arcs" | "top"} */ key, /** @type {string} */ title) => {
    const box = html("input", {
      type: "checkbox",
      "data-key": key,
      onchange: () => store.set({ [key]: box.checked }),
    });
    return { box, label: html("label", { class: "toggle", title }, box, key) };
  };
  const mask = toggle("mask", "mark the tokens that receive more than θ of the largest attention (m)");
  const arcs = toggle("arcs", "draw the strongest pairs over the text (a)");
  const top = toggle(
    "top",
    "take the sixteenth of the pairs that stand highest, the same number in every head and reading, instead of those " +
      "from τ on (t)",
  );
  const bar = html(
    "div",
    { class: "controls" },
    stack.field,
    html("span", { class: "explains" }, shown.field, explained.button("shown", "what level and the others are")),
    read.field,
    html("span", { class: "explains" }, tau.label, explained.button("tau", "what τ means")),
    top.label,
    html("span", { class: "explains" }, theta.label, explained.button("theta", "what θ means")),
    mask.label,
    arcs.label,
    meaning,
    exportMenu(saves, onsave),
    explained.place,
  );

  return {
    bar,
    /**
     * Make the controls say what the state is.
     * @param {Text | null} text that is shown, or none yet
     */
    follow: (text) => {
      const state = store.get();
      tau.range.value = String(state.tau);
      theta.range.value = String(state.theta);
      tau.output.value = (state.tau / 20).toFixed(2);
      theta.output.value = state.theta.toFixed(2);
      shown.follow(state.show, SHOWN);
      const stacks = (onstack && text?.stacks) || [];
      stack.field.hidden = stacks.length < 2;
      stack.follow(text?.stack ?? "", stacks);
      const reading = text ? readingOf(text, state.reading) : state.reading;
      read.follow(reading, text?.readings ?? []);
      const own = readings.find(({ name }) => name === reading);
      refill(meaning, own ? `${own.name}: ${own.meaning}` : "");
      mask.box.checked = state.mask;
      arcs.box.checked = state.arcs;
      top.box.checked = state.top;
    },
  };
}
