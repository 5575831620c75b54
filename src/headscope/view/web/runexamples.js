// The texts of a run that show a head's score most, each with what it is an example of marked in it: one text is an
// illustration, and its number no finding.

import { counted, html, refill, shown } from "./dom.js";

/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./ways.js").Quantity} Quantity */
/** @typedef {{id: string, text: string, short: string, score: number, high_pairs: number, focal_token: string | null}} Example */

const REST = 300; // milliseconds that a head is looked at before the model reads texts for it
/**
 * What the numbers of single texts are worth.
 * @param {any} run
 */
function caution({ tau }) {
  return (
    "Picked because their numbers are the largest. Each number is of one text, read the paper's way at " +
    `τ = ${tau.toFixed(2)}, without an interval, and where few of its pairs are similar it may be large by chance: an ` +
    "illustration, not a finding. What the head does over all texts stands in the table above."
  );
}

/**
 * @param {{source: Source, run: any, onopen: (text: string, layer: number, head: number) => void}} spec
 */
export function runExamples({ source, run, onopen }) {
  const root = html("div", { class: "examples" });

  /**
   * @param {State} state
   * @param {() => boolean} wanted
   */
  async function show(state, wanted) {
    const [layer, head] = [state.runLayer, state.runHead];
    const kept = run.quantities.filter((/** @type {Quantity} */ each) => each.heads && each.examples);
    const chosen = kept.find((/** @type {Quantity} */ each) => each.name === state.runScore) ?? kept[0];
    const path = `${run.path}/heads/${layer}/${head}/examples/${chosen.examples}`;
    /** @type {Example[]} */
    const rows = await source.get(path);
    if (!wanted()) return;
    const other = chosen.name === state.runScore ? "" : " (texts are not kept by the chosen score)";
    const title = html("h3", {}, `Texts that show it most: ${chosen.label}${other}`);
    const none = "No text has enough similar pairs for this score.";
    if (!rows.length) return refill(root, title, html("p", { class: "note" }, none));
    const legend = html("p", { class: "note" });
    const words = rows.map((each) => html("p", { class: "words", dir: "auto" }, each.short));
    const articles = rows.map((each, k) => article(each, words[k], chosen, () => onopen(each.text, layer, head)));
    refill(root, title, html("p", { class: "note" }, caution(run)), legend, ...articles);
    if (source.inspect && chosen.marked) await markAll(path, words, legend, wanted);
  }

  /**
   * @param {Example} each
   * @param {HTMLElement} words
   * @param {Quantity} chosen
   * @param {() => void} onlook
   */
  function article(each, words, chosen, onlook) {
    const pairs = counted(each.high_pairs, "similar pair");
    const focal = each.focal_token ? [" · focal token ", html("bdi", { class: "quoted" }, each.focal_token)] : [];
    return html(
      "article",
      { class: "example" },
      html(
        "p",
        { class: "note" },
        `${each.id} · ${chosen.label} ${shown(each.score)} in this text · ${pairs}`,
        ...focal,
      ),
      words,
      source.inspect
        ? html("button", { type: "button", class: "small", onclick: onlook }, "look at it with this head")
        : null,
    );
  }

  /**
   * One text after the other, as the model reads it; whoever goes on to another head stops it.
   * @param {string} path
   * @param {HTMLElement[]} words
   * @param {HTMLElement} legend
   * @param {() => boolean} wanted
   */
  async function markAll(path, words, legend, wanted) {
    await new Promise((resolve) => setTimeout(resolve, REST));
    try {
      for (const [k, place] of words.entries()) {
        if (!wanted()) return;
        const { marked, pieces } = await source.get(`${path}/marked/${k}`);
        refill(legend, html("mark", {}, "Marked"), `: ${marked}.`);
        refill(place, ...pieces.map(piece));
      }
      root.dataset.marked = "all";
    } catch (error) {
      refill(legend, `The texts could not be marked: ${error instanceof Error ? error.message : error}`);
    }
  }

  return { root, show };
}

/** @param {[string, boolean]} piece */
function piece([words, marked]) {
  return marked ? html("mark", {}, words) : words;
}
