// The atlas of one text: a thumbnail of every head, and its scores at every τ. It fills layer by layer.

import { byTouch, html, progressView, refill, shown } from "./dom.js";
import { atlasView, paintThumbnail, PURITY, purityWords, SORTED_BY_PURITY } from "./atlas.js";

/** @typedef {import("./atlas.js").Tile} Tile */
/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./source.js").Tensors} Tensors */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */

const STEPS = 20; // thresholds, and last the top pairs
const REST = 120; // milliseconds: sliders move fast, and the atlas follows when they rest

/**
 * @param {{
 *   source: Source, store: Store, theme: () => "light" | "dark", onscores: () => void, onpressed: () => void,
 * }} spec
 */
export function textAtlas({ source, store, theme, onscores, onpressed }) {
  /** @type {Text | null} */
  let text = null;
  /** @type {ReturnType<typeof atlasView> | null} */
  let atlas = null;
  /** @type {Map<number, Tensors>} */
  const layers = new Map();
  let later = 0;
  let filled = ""; // the text and the reading that all layers are of

  const sorting = html("select", {
    "aria-label": "Score",
    onchange: () => store.set({ score: sorting.value }),
  });
  const ranked = html("input", { type: "checkbox", onchange: () => store.set({ ranked: ranked.checked }) });
  const meaning = html("p", { class: "note" });
  const holder = html("div", { class: "atlas-holder" });
  const hint = html("p", { class: "note" });
  const progress = progressView();
  const side = html(
    "aside",
    { "aria-label": "Atlas of heads" },
    html(
      "div",
      { class: "panel-header" },
      html("h2", {}, "All heads"),
      html("label", { class: "toggle" }, ranked, "sort"),
    ),
    sorting,
    meaning,
    progress.root,
    holder,
    hint,
  );

  /**
   * @param {string} name
   * @param {number} layer
   * @param {number} head
   */
  function score(name, layer, head) {
    const tensors = layers.get(layer);
    const place = text?.scores.findIndex((each) => each.name === name) ?? -1;
    if (!tensors || !text || place < 0) return NaN;
    return Number(tensors.scores.data[(place * STEPS + stepOf(store.get())) * text.heads + head]);
  }

  /**
   * @param {Text} of
   * @param {number} layer
   * @param {number} head
   * @returns {Tile}
   */
  function tile(of, layer, head) {
    const state = store.get();
    const tensors = layers.get(layer);
    const focal = tensors ? tensors.focal.data[stepOf(state) * of.heads + head] : -1;
    const at = stepOf(state) * of.heads + head;
    const pure = state.score === SORTED_BY_PURITY && tensors ? Number(tensors.purity.data[at]) : NaN;
    return {
      layer,
      head,
      score: score(state.score, layer, head),
      ...(state.score === SORTED_BY_PURITY ? { order: pure } : {}),
      orderTitle: Number.isNaN(pure) ? "" : purityWords(pure, Number(tensors?.repeated.data[at])),
      title: focal >= 0 ? `focal token: ${of.same_labels[focal]}` : "",
      paint: (canvas, colours) => {
        if (!tensors) return;
        const cells = tensors.thumbs.shape[1];
        const levels = /** @type {Uint8Array} */ (tensors.thumbs.data);
        paintThumbnail(canvas, levels.subarray(head * cells ** 2, (head + 1) * cells ** 2), cells, colours);
      },
    };
  }

  /** @returns {Tile[]} */
  function tiles() {
    const of = text;
    if (!of) return [];
    return of.layers.flatMap((layer) => Array.from({ length: of.heads }, (_, head) => tile(of, layer, head)));
  }

  function arrange() {
    const state = store.get();
    const chosen = text?.scores.find((each) => each.name === state.score);
    atlas?.arrange(tiles(), state.ranked, chosen);
    const pure = state.ranked && state.score === SORTED_BY_PURITY;
    refill(meaning, chosen?.meaning ?? "", pure ? html("span", { class: "sorted-by" }, ` ${PURITY}`) : null);
    const how = byTouch() ? "Tap one to see it." : "Click, or use the arrow keys.";
    refill(hint, `${state.ranked ? "The first is the largest." : "Rows are layers."} ${how}`);
    onscores();
  }

  /**
   * Begin with a text: every head has its place, and none a picture yet.
   * @param {Text} next
   */
  function begin(next) {
    text = next;
    filled = "";
    layers.clear();
    refill(sorting, ...next.scores.map((each) => html("option", { value: each.name }, each.label)));
    atlas = atlasView({
      layers: next.layers,
      heads: next.heads,
      label: "Heads: a row for each layer",
      onpick: (layer, head, pressed) => {
        store.set({ layer, head });
        if (pressed) onpressed();
      },
    });
    refill(holder, atlas.grid, atlas.bars);
    arrange();
  }

  /** @param {Text} of */
  function tellProgress(of) {
    const [done, all] = [layers.size, of.layers.length];
    progress.show(`heads of ${done} of ${all} layers`, done, all);
  }

  /**
   * Fetch layer by layer, the one that is looked at first; stops where another text or reading has taken its turn.
   * @param {Text} next
   * @param {string} reading
   * @param {() => boolean} wanted
   */
  async function fill(next, reading, wanted) {
    const whole = `${next.id} ${reading}`;
    if (filled === whole) return;
    filled = "";
    layers.clear(); // what is known is of another reading
    atlas?.wait();
    onscores();
    const near = store.get().layer;
    const order = [...next.layers].sort((a, b) => Math.abs(a - near) - Math.abs(b - near));
    const one = async () => {
      for (let layer = order.shift(); layer !== undefined && wanted(); layer = order.shift()) {
        const tensors = await source.get(`texts/${next.id}/${reading}/layers/${layer}`);
        if (!wanted()) return;
        layers.set(layer, tensors);
        tellProgress(next);
        atlas?.paint(
          Array.from({ length: next.heads }, (_, head) => tile(next, Number(layer), head)),
          theme(),
        );
        if (layer === store.get().layer) onscores();
      }
    };
    tellProgress(next);
    try {
      await Promise.all([one(), one()]);
    } finally {
      if (wanted()) progress.hide();
    }
    if (!wanted()) return;
    filled = whole;
    arrange();
  }

  return {
    side,
    begin,
    fill,
    arrange,
    arrangeSoon: () => {
      clearTimeout(later);
      later = window.setTimeout(arrange, REST);
    },
    /** The head that is chosen, for those who go on with keys. */
    focus: () =>
      /** @type {HTMLElement | null} */ (holder.querySelector(".tile.chosen"))?.focus({ preventScroll: true }),
    choose: (/** @type {number} */ layer, /** @type {number} */ head) => atlas?.choose(layer, head),
    repaint: () =>
      atlas?.paint(
        tiles().filter((each) => layers.has(each.layer)),
        theme(),
      ),
    follow: () => {
      const state = store.get();
      ranked.checked = state.ranked;
      if (sorting.options.length) sorting.value = state.score;
    },
    /**
     * All scores of a head, as names and numbers.
     * @param {number} layer
     * @param {number} head
     */
    scores: (layer, head) => (text ? scoreList(text, layers.get(layer), head, store.get()) : []),
  };
}

/**
 * Where the scores of a state stand: at its τ, or from the top pairs.
 * @param {State} state
 */
function stepOf({ tau, top }) {
  return top ? STEPS - 1 : tau - 1;
}

/**
 * All scores of a head, as names and numbers.
 * @param {Text} text
 * @param {Tensors | undefined} tensors of its layer
 * @param {number} head
 * @param {State} state
 * @returns {[string, string][]}
 */
export function scoreList(text, tensors, head, state) {
  return text.scores.map(({ name, label }, place) => {
    const value = tensors ? Number(tensors.scores.data[(place * STEPS + stepOf(state)) * text.heads + head]) : NaN;
    return [label, shown(value, name === "high_pairs" ? 0 : 2)];
  });
}
