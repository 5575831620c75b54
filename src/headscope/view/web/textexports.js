// What can be taken away of a text: pictures, its pairs, everything about it, and the view itself as a file or a link.

import { pairsAsCsv } from "./csv.js";
import { pictureAsSvg, saveFile, svgAsPng } from "./exports.js";
import { readingOf } from "./head.js";
import { written } from "./state.js";

/** @typedef {import("./exports.js").Panel} Panel */
/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").Store} Store */
/** @typedef {{text: Text, panel: Panel, pinned: {panel: Panel, id: string} | null}} Seen */

const USUAL = ["dot", "cosine"]; // readings in a file that is saved

/**
 * @param {{
 *   source: Source, store: Store, theme: () => "light" | "dark", seen: () => Seen | null,
 *   tell: (message: string, kind?: string) => void, fail: (error: unknown) => void, onphone: () => void,
 * }} spec
 */
export function textExports({ source, store, theme, seen, tell, fail, onphone }) {
  /** @type {[string, string][]} */
  const saves = [
    ["svg", "SVG picture"],
    ["png", "PNG picture"],
    ["csv", "CSV of similar pairs"],
    ...(source.download ? [/** @type {[string, string]} */ (["nc", ".nc file, everything"])] : []),
    ...(source.save ? [/** @type {[string, string]} */ (["html", "One HTML file of this view"])] : []),
    ...(source.home === "notebook" ? [] : [/** @type {[string, string]} */ (["link", "Copy link to this view"])]),
    ...(source.phone ? [/** @type {[string, string]} */ (["phone", "Open on a phone …"])] : []),
  ];

  /**
   * The page with this text, and a pinned one, in the readings of the command line and those that are looked at.
   * @param {Seen} what
   * @param {string} name
   */
  async function saveAsFile({ text, pinned }, name) {
    if (!source.save) return;
    const state = store.get();
    const readings = new Set([readingOf(text, state.reading), ...(state.pin ? [state.pin.reading] : []), ...USUAL]);
    const asked = {
      texts: [...new Set([text.id, ...(pinned ? [pinned.id] : [])])],
      readings: [...readings].filter((each) => text.readings.includes(each)),
      address: written(state),
    };
    tell("Writing the file …", "busy");
    const file = await source.save(asked, (done, of) => tell(`Writing the file: ${done} of ${of || "…"}`, "busy"));
    saveFile(file, `${name}.html`);
    tell(`The file is written: ${(file.size / 1e6).toFixed(1)} MB, it opens in any browser.`);
  }

  /** @param {string} kind */
  async function take(kind) {
    const what = seen();
    const current = what?.panel.current();
    if (!what || !current) return;
    const { text, panel, pinned } = what;
    const state = store.get();
    const reading = readingOf(text, state.reading);
    const name = `headscope-layer${state.layer}-head${state.head}-${reading}`;
    try {
      if (kind === "csv") {
        saveFile(new Blob([pairsAsCsv(current, state)], { type: "text/csv;charset=utf-8" }), `${name}.csv`);
      } else if (kind === "nc" && source.download) {
        saveFile(await source.download(`texts/${text.id}/${reading}/inspection.nc`), "inspection.nc");
      } else if (kind === "html") {
        await saveAsFile(what, name);
      } else if (kind === "phone") {
        onphone();
      } else if (kind === "link") {
        // A page that came over a network, unencrypted, may not write to the clipboard; its address bar has the link.
        if (!navigator.clipboard) return tell("The link is in the browser's address bar; copy it from there.");
        await navigator.clipboard.writeText(location.href);
        tell("The link to this view is copied.");
      } else {
        const svg = pictureAsSvg([panel, ...(pinned ? [pinned.panel] : [])], state, theme());
        if (kind === "svg") saveFile(new Blob([svg], { type: "image/svg+xml" }), `${name}.svg`);
        else saveFile(await svgAsPng(svg), `${name}.png`);
      }
    } catch (error) {
      fail(error);
    }
  }

  return { saves, take };
}
