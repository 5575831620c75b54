// Where a text is typed, with the choices of the method.

import { html, refill } from "./dom.js";

/** @typedef {import("./head.js").Text} Text */

/**
 * @param {{
 *   about: any, onask: (text: string, options: Record<string, any>) => void, onwindow: (start: number) => void,
 * }} spec
 */
export function askingForm({ about, onask, onwindow }) {
  const area = html("textarea", {
    rows: 2,
    placeholder: "Type or paste a text",
    "aria-label": "The text to look at",
    // Another text begins at its beginning, wherever the window of the last one stood.
    oninput: () => {
      const start = /** @type {HTMLInputElement | null} */ (form.querySelector("[name=start]"));
      if (start) start.value = "0";
    },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
      event.stopPropagation();
    },
  });
  const longest = Math.min(about.model?.longest ?? 4096, 4096);
  /** The readings have a switch of their own. @type {{name: string, label: string, kind: string, allowed: string[], default: any, several: boolean, help: string}[]} */
  const choices = about.choices.filter((/** @type {{several: boolean}} */ { several }) => !several);
  const usual = {
    ...Object.fromEntries(choices.map((each) => [each.name, each.default])),
    window: Math.min(about.model?.window ?? 128, longest),
    start: 0,
    ...about.defaults,
  };
  const labelled = (/** @type {string} */ label, /** @type {HTMLElement} */ field, title = "") =>
    html("label", { title }, label, field);
  const number = (/** @type {string} */ name, /** @type {Record<string, any>} */ more) =>
    html("input", { type: "number", name, value: usual[name], ...more });
  const choice = (/** @type {string} */ name, /** @type {string[]} */ values) =>
    html(
      "select",
      { name },
      ...values.map((value) => html("option", { value, selected: value === usual[name] }, value)),
    );
  /** A field for a choice of the method, as it was declared. */
  const field = (/** @type {(typeof choices)[number]} */ { name, kind, allowed }) =>
    allowed.length
      ? choice(name, allowed)
      : kind === "bool"
        ? html("input", { type: "checkbox", name, checked: usual[name] })
        : kind === "int"
          ? number(name, { min: 4, max: longest })
          : html("input", { name, value: usual[name], size: 3, pattern: "[a-z]{2,3}" });
  const options = html(
    "details",
    { class: "options" },
    html("summary", {}, "Options"),
    html(
      "div",
      {},
      ...choices.map((each) => labelled(each.label, field(each), each.help)),
      labelled("starting with token", number("start", { min: 0 })),
    ),
  );
  /** Where the windows before and after the one that is shown begin; -1 where there is none. */
  const begins = { before: -1, after: -1 };
  const turn = (/** @type {"before" | "after"} */ which, /** @type {string} */ label) =>
    html(
      "button",
      {
        type: "button",
        class: "small",
        "aria-label": which === "before" ? "previous window" : "next window",
        title: which === "before" ? "previous window (,)" : "next window (.)",
        "data-window": which,
        onclick: () => onwindow(begins[which]),
      },
      label,
    );
  const where = html("span", { class: "note" });
  const buttons = { before: turn("before", "← previous"), after: turn("after", "next →") };
  const windows = html(
    "nav",
    { class: "windows", "aria-label": "Windows of the text", hidden: true },
    buttons.before,
    where,
    buttons.after,
  );
  const look = html("button", { type: "submit", class: "primary" }, "Look");
  const form = html(
    "form",
    {
      class: "asking",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        options.open = false;
        onask(area.value, asked());
      },
    },
    html("div", { class: "typed" }, area, windows),
    html("div", { class: "buttons" }, look, options),
  );

  /** The options that differ from how the viewer was started. */
  function asked() {
    /** @type {Record<string, any>} */
    const chosen = {};
    for (const field of /** @type {NodeListOf<any>} */ (form.querySelectorAll("[name]"))) {
      const { type, name, checked, value } = field;
      const given = type === "checkbox" ? checked : type === "number" ? Number(value) : value;
      if (given !== usual[name] && given !== "") chosen[name] = given;
    }
    return chosen;
  }

  /** @param {Text} text */
  function placeWindow({ first, total, texts, tokens, options }) {
    const own = tokens.part.filter((each) => each >= 0).length;
    const room = Math.max(own, options.window - (tokens.part.length - own)); // the last window may be short
    begins.before = first > 0 ? Math.max(0, first - room) : -1;
    begins.after = first + own < total ? first + own : -1;
    windows.hidden = texts.length !== 1 || (begins.before < 0 && begins.after < 0);
    buttons.before.disabled = begins.before < 0;
    buttons.after.disabled = begins.after < 0;
    refill(where, `tokens ${first + 1} to ${first + own} of ${total}`);
  }

  return {
    form,
    /** There is no text. */
    clear: () => {
      windows.hidden = true;
    },
    /** @param {"before" | "after"} which */
    turn: (which) => {
      if (!windows.hidden && begins[which] >= 0) onwindow(begins[which]);
    },
    /**
     * Say what is shown: the text, and how it was read.
     * @param {Text} text
     */
    fill: (text) => {
      if (!area.value || !area.matches(":focus")) area.value = text.texts[0] ?? "";
      placeWindow(text);
      const read = /** @type {Record<string, any>} */ ({ ...text.options, start: text.first });
      for (const field of /** @type {NodeListOf<any>} */ (form.querySelectorAll("[name]"))) {
        if (field.type === "checkbox") field.checked = read[field.name];
        else if (field.name in read) field.value = String(read[field.name]);
      }
    },
    /** @param {boolean} busy */
    wait: (busy) => {
      look.disabled = busy;
    },
  };
}
