// What stands on the page of one text before there is one, as where the viewer was opened with a run.

import { html } from "./dom.js";

/**
 * @param {any} about
 * @param {(words: string) => void} onask
 */
export function textBeginning(about, onask) {
  const underHead = about.run_texts ? ", or choose one under a head of the collection" : "";
  const passage = about.example
    ? html(
        "button",
        { type: "button", class: "passage", onclick: () => onask(about.example.text) },
        `Look at a shipped passage (${about.example.id})`,
      )
    : null;
  return html(
    "section",
    { class: "beginning", "aria-label": "No text yet" },
    html("p", {}, `No text has been read yet. Type or paste one above${underHead}.`),
    passage,
  );
}
