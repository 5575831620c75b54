// Where a text is typed, with the choices of the method.

import { html } from "./dom.js";

/** @typedef {import("./head.js").Text} Text */

/**
 * @param {{about: any, onask: (text: string, options: Record<string, any>) => void}} spec
 */
export function askingForm({ about, onask }) {
  const area = html("textarea", {
    rows: 2,
    placeholder: "Type or paste a text",
    "aria-label": "The text to look at",
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
      event.stopPropagation();
    },
  });
  const stacks = about.model?.stacks ?? ["encoder"];
  const longest = Math.min(about.model?.longest ?? 4096, 4096);
  /** The readings have a switch of their own. @type {{name: string, label: string, kind: string, allowed: string[], default: any, several: boolean, help: string}[]} */
  const choices = about.choices.filter((/** @type {{several: boolean}} */ { several }) => !several);
  const usual = {
    ...Object.fromEntries(choices.map((each) => [each.name, each.default])),
    window: Math.min(about.model?.window ?? 128, longest),
    start: 0,
    stack: stacks[0],
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
      stacks.length > 1 ? labelled("attention of", choice("stack", stacks)) : null,
    ),
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
    area,
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

  return {
    form,
    /**
     * Say what is shown: the text, and how it was read.
     * @param {Text} text
     */
    fill: (text) => {
      if (!area.value || !area.matches(":focus")) area.value = text.texts[0] ?? "";
      const read = /** @type {Record<string, any>} */ ({ ...text.options, start: text.first, stack: text.stack });
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
