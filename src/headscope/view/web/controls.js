// What is shown of a text, and from which thresholds on.

import { html } from "./dom.js";
import { SHOWN } from "./state.js";

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
 * @param {{store: Store, saves: [string, string][], onsave: (kind: string) => void}} spec
 */
export function controlBar({ store, saves, onsave }) {
  const group = `show-${Math.random().toString(36).slice(2)}`; // several viewers may be on one page
  const switches = SHOWN.map((name, k) =>
    html(
      "label",
      { title: `key ${k + 1}` },
      html("input", { type: "radio", name: group, value: name, onchange: () => store.set({ show: name }) }),
      html("span", {}, name),
    ),
  );
  const tau = thresholdSlider("τ", (value) => store.set({ tau: value }), { min: 1, max: 19, step: 1 });
  const theta = thresholdSlider("θ", (value) => store.set({ theta: value }), { min: 0, max: 0.95, step: 0.01 });
  const toggle = (/** @type {"mask" | "arcs"} */ key, /** @type {string} */ title) => {
    const box = html("input", {
      type: "checkbox",
      "data-key": key,
      onchange: () => store.set({ [key]: box.checked }),
    });
    return { box, label: html("label", { class: "toggle", title }, box, key) };
  };
  const mask = toggle("mask", "mark the tokens that receive more than θ of the largest attention (m)");
  const arcs = toggle("arcs", "draw the strongest pairs over the text (a)");
  const menu = html(
    "details",
    { class: "menu" },
    html("summary", {}, "Export"),
    html(
      "div",
      {},
      ...saves.map(([kind, label]) =>
        html(
          "button",
          {
            type: "button",
            "data-save": kind,
            onclick: () => {
              menu.open = false;
              onsave(kind);
            },
          },
          label,
        ),
      ),
    ),
  );
  const bar = html(
    "div",
    { class: "controls" },
    html("fieldset", { class: "switch" }, html("legend", {}, "What the matrix shows"), ...switches),
    tau.label,
    theta.label,
    mask.label,
    arcs.label,
    menu,
  );

  return {
    bar,
    /** Make the controls say what the state is. */
    follow: () => {
      const state = store.get();
      tau.range.value = String(state.tau);
      theta.range.value = String(state.theta);
      tau.output.value = (state.tau / 20).toFixed(2);
      theta.output.value = state.theta.toFixed(2);
      for (const each of switches) {
        const radio = /** @type {HTMLInputElement} */ (each.querySelector("input"));
        radio.checked = radio.value === state.show;
      }
      mask.box.checked = state.mask;
      arcs.box.checked = state.arcs;
    },
  };
}
