// What a decoder's cross-attention reads: the source, token by token, beside the target that is written.

import { css, ink, paletteOf } from "./colours.js";
import { html } from "./dom.js";
import { strongestOf } from "./shades.js";

/** @typedef {import("./head.js").Head} Head */
/** @typedef {import("./head.js").Tokens} Tokens */

/**
 * @param {Tokens} keys
 * @param {(token: number) => void} onhover
 */
export function sourcesView(keys, onhover) {
  const list = html("div", { class: "tokens source", role: "listbox", "aria-label": "Tokens of the source" });
  const tokens = keys.label.map((label, k) => {
    const glued = k > 0 && keys.word[k] >= 0 && keys.word[k] === keys.word[k - 1] && keys.start[k] === keys.end[k - 1];
    const bare = glued && label.startsWith("##") && label.length > 2 ? label.slice(2) : label;
    return html(
      "span",
      {
        class: `token ${keys.category[k]}${glued ? " piece" : ""}`,
        role: "option",
        title: label,
        "data-source": k,
        tabindex: k ? -1 : 0,
        "aria-selected": "false",
        "aria-label": `${label}, source token ${k}`,
      },
      html("bdi", {}, bare),
    );
  });
  list.append(...tokens);
  const which = (/** @type {Event} */ event) => {
    const token = /** @type {Element} */ (event.target).closest?.(".token");
    return token ? Number(token.getAttribute("data-source")) : -1;
  };
  list.addEventListener("pointerover", (event) => onhover(which(event)));
  list.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && onhover(-1));
  list.addEventListener("focusin", (event) => onhover(which(event)));
  list.addEventListener("focusout", () => onhover(-1));
  list.addEventListener("keydown", (event) => {
    const at = which(event);
    /** @type {Record<string, number>} */
    const to = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at - 8,
      ArrowDown: at + 8,
      Home: 0,
      End: tokens.length - 1,
    };
    if (!(event.key in to)) return;
    const next = tokens[Math.min(Math.max(to[event.key], 0), tokens.length - 1)];
    for (const each of tokens) each.tabIndex = each === next ? 0 : -1;
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  });

  /**
   * Colour each source token: by how much the target token that is pointed at reads of it, else by all that it receives.
   * @param {Head} head
   * @param {"light" | "dark"} theme
   * @param {number} token of the target
   * @param {number} source that is pointed at
   */
  function draw(head, theme, token, source) {
    const colours = paletteOf(theme, "attention");
    tokens.forEach((element, k) => {
      const weight =
        head.attention && token >= 0 ? head.attention[token * tokens.length + k] / strongestOf(head.attention) : -1;
      const at = Math.sqrt(weight < 0 ? Math.min(Math.max(head.receivedShare[k] || 0, 0), 1) : weight);
      const lit = at > 0.02;
      element.style.background = lit ? css(colours, at) : "";
      element.style.color = lit ? ink(colours, at) : "";
      element.classList.toggle("looked", k === source);
    });
  }

  const frame = html("div", { class: "sources" }, html("h3", {}, "Source, which is read"), list);
  return { frame, draw };
}
