// From layer to layer: what the typical head of each does, a line for each way that S was read; S against attention;
// focal tokens beside what chance gives.

import { lines, swatch } from "./charts.js";
import { switchOf } from "./controls.js";
import { html, refill, scrolling, shown } from "./dom.js";
import { ofControls, ofLayers } from "./runnumbers.js";
import { SUMMING } from "./state.js";
import { ALONE, PAPER, wayLook, wayName, wayOf, wayTitle } from "./ways.js";

/** @typedef {import("./charts.js").Line} Line */
/** @typedef {import("./charts.js").Look} Look */
/** @typedef {import("./runnumbers.js").RunNumbers} RunNumbers */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */
/** @typedef {import("./state.js").Summing} Summing */
/** @typedef {import("./ways.js").Quantity} Quantity */

const SUMS = /** @type {Record<Summing, {label: string, title: string}>} */ ({
  median: { label: "typical head", title: "the median over the heads of a layer, and the middle half of them" },
  share: { label: "share of heads", title: "the share of a layer's heads that lie beyond the bound of the claim" },
  pooled: { label: "typical pair", title: "counts added up over heads first: the heads with most pairs decide" },
});
const AGAINST = "separation_"; // S against attention
const FOCAL = ["focal_unique", "focal_null", "focal_mixed"];
const FOCAL_NAMES = ["of the heads of a layer", "by chance", "of heads of all layers"];
/** What focal tokens are compared with is grey, as in the figures. @type {Record<string, Look>} */
const FOCAL_BASES = {
  focal_null: { kind: "compared chance", dash: [4, 2] },
  focal_mixed: { kind: "compared mixed", dash: [1, 1.5] },
};

/**
 * Control runs are thin and grey, one dash for each kind.
 * @param {{kind: string, dash: number[]}} control
 * @returns {Look}
 */
function controlLook({ kind, dash }) {
  return { kind: `control ${kind}`, dash };
}

/**
 * A chart, and the numbers in it as a table for whoever opens it.
 * @typedef {{quantity: Quantity, section: HTMLElement, holder: HTMLElement, table: HTMLElement, drawn: Line[]}} Card
 */

/**
 * @param {{run: any, store: Store, numbers: RunNumbers, fail: (error: unknown) => void}} spec
 */
export function layersView({ run, store, numbers, fail }) {
  const names = run.layers.map(String);
  const byName = new Map(run.quantities.map((/** @type {Quantity} */ each) => [each.name, each]));
  const summing = switchOf(
    "What stands for the heads of a layer",
    SUMMING.map((name) => ({ name, ...SUMS[name] })),
    (name) => store.set({ runSum: /** @type {Summing} */ (name) }),
  );
  const meaning = html("p", { class: "note" });
  const legend = html("ul", { class: "key ways" });
  const cards = run.quantities.filter((/** @type {Quantity} */ each) => each.layers).map(card);
  const against = cards.filter((/** @type {Card} */ each) => each.quantity.name.startsWith(AGAINST));
  const others = cards.filter((/** @type {Card} */ each) => !against.includes(each));
  const focal = byName.has(FOCAL[0]) ? card(byName.get(FOCAL[0])) : null;
  const group = (/** @type {string} */ title, /** @type {string} */ note, /** @type {(Card | null)[]} */ own) =>
    own.length
      ? html(
          "div",
          { class: "group" },
          html("h3", {}, title),
          html("p", { class: "note" }, note),
          html("div", { class: "cards" }, ...own.map((each) => each?.section)),
        )
      : null;
  const root = html(
    "section",
    { class: "layers", "aria-label": "From layer to layer" },
    html("div", { class: "panel-header" }, html("h2", {}, "From layer to layer"), summing.field),
    meaning,
    legend,
    html(
      "div",
      { class: "groups" },
      group(
        "S against attention",
        "how often a related pair stands above an unrelated one at the same distance in the same text: 0.5 is chance",
        against,
      ),
      focal ? group("Focal tokens", "how many different ones the heads of a layer have", [focal]) : null,
    ),
    group(
      "Scores",
      "dashed grey line: no effect; grey area: short of the smallest effect that matters to a claim",
      others,
    ),
  );
  let turn = 0;

  /**
   * @param {Quantity} quantity
   * @returns {Card}
   */
  function card(quantity) {
    const holder = html("div", { class: "chart-holder" });
    const table = html("details", { class: "as-table" }, html("summary", {}, "numbers"));
    /** @type {Card} */
    const own = { quantity, holder, table, drawn: [], section: holder };
    table.addEventListener("toggle", () => fillTable(own));
    const title = quantity.heads
      ? html(
          "button",
          {
            type: "button",
            class: "plain",
            title: `${quantity.meaning}; show it in the atlas`,
            onclick: () => store.set({ runScore: quantity.name }),
          },
          quantity.label,
        )
      : html("span", { title: quantity.meaning }, quantity.label);
    own.section = html(
      "section",
      { class: "card", "data-quantity": quantity.name },
      html("h4", {}, title),
      holder,
      table,
    );
    return own;
  }

  /** Ways that any of the charts has, in the order of the switch. */
  function waysDrawn() {
    const all = cards.flatMap((/** @type {Card} */ each) => each.quantity.ways);
    return [PAPER, ...run.readings.map((/** @type {any} */ each) => each.name), ...run.maps, ALONE].filter((way) =>
      all.includes(way),
    );
  }

  function showLegend() {
    const ways = waysDrawn().map((way) =>
      html("li", { title: wayTitle(run, way), "data-way": way }, swatch(wayLook(run, way)), ` ${run.ways[way].label}`),
    );
    const controls = run.controls.map((/** @type {any} */ each) =>
      html("li", { title: each.name }, swatch(controlLook(each)), ` control run: ${each.label}`),
    );
    refill(legend, ...ways, ...controls);
  }

  /**
   * The lines of a chart, each as soon as its numbers are here.
   * @param {Card} own
   * @param {State} state
   * @param {number} request
   */
  async function fill(own, state, request) {
    const { quantity } = own;
    const chosen = wayOf(quantity, state.runWay);
    const all = await Promise.all(quantity.ways.map((way) => numbers.get(quantity, way, state.runTau)));
    if (request !== turn) return;
    const row = /** @type {const} */ ({ median: "value", share: "share", pooled: "pooled" })[state.runSum];
    const drawn = quantity.ways.map((way, k) => {
      const each = ofLayers(all[k]);
      const median = state.runSum === "median";
      const beside = median ? { low: each.low, high: each.high, lower: each.lower, upper: each.upper } : {};
      const look = wayLook(run, way);
      return { ...look, name: wayName(way, quantity), value: each[row], strong: way === chosen, ...beside };
    });
    const controls = ofControls(all[quantity.ways.indexOf(chosen)]).map((value, k) => {
      const control = run.controls[k];
      return { ...controlLook(control), name: `control run ${control.name}`, value };
    });
    drawn.sort((a, b) => Number(a.strong) - Number(b.strong)); // the chosen one above the others
    draw(own, [...(state.runSum === "median" ? controls : []), ...drawn], state);
  }

  /**
   * @param {Card} own
   * @param {Line[]} drawn
   * @param {State} state
   */
  function draw(own, drawn, state) {
    const { quantity } = own;
    const share = state.runSum === "share";
    own.drawn = drawn;
    own.section.dataset.way = wayOf(quantity, state.runWay);
    refill(
      own.holder,
      lines({
        names,
        each: "layer",
        lines: drawn,
        none: share ? null : quantity.base,
        bound: share ? null : quantity.bound,
        range: share ? [0, 1] : undefined,
        percent: share,
        log: quantity.logarithmic && !share,
        digits: quantity.logarithmic ? 2 : 3,
        xlabel: "layer",
        label: `${quantity.label} by layer: ${told(drawn, share)}`,
        width: own.section.clientWidth > 200 ? Math.min(own.section.clientWidth, 430) : 300,
        height: 180,
      }),
    );
    fillTable(own);
  }

  /**
   * What a chart shows, for those who do not see it.
   * @param {Line[]} drawn
   * @param {boolean} share
   */
  function told(drawn, share) {
    const number = (/** @type {number | null | undefined} */ value) =>
      share ? `${shown(100 * Number(value ?? NaN), 0)} %` : shown(value);
    return drawn
      .filter((each) => each.strong)
      .map(
        ({ name, value }) =>
          `${name}, from ${number(value[0])} in the first to ${number(value[value.length - 1])} in the last`,
      )
      .join("; ");
  }

  /** @param {Card} own */
  function fillTable({ quantity, table, drawn }) {
    if (!(/** @type {HTMLDetailsElement} */ (table).open)) return;
    const rows = names.map((/** @type {string} */ name, /** @type {number} */ k) =>
      html(
        "tr",
        {},
        html("th", { scope: "row" }, name),
        ...drawn.map((each) => html("td", {}, shown(each.value[k], 3))),
      ),
    );
    const head = [
      html("th", { scope: "col" }, "layer"),
      ...drawn.map((each) => html("th", { scope: "col" }, each.name)),
    ];
    const made = html("table", {}, html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...rows));
    const summary = html("summary", {}, "numbers");
    const label = `${quantity.label} by layer`;
    table.querySelector(".scroll")?.remove();
    if (!table.querySelector("summary")) table.append(summary);
    table.append(scrolling(label, made));
  }

  /**
   * @param {Card} own
   * @param {State} state
   * @param {number} request
   */
  async function fillFocal(own, state, request) {
    const parts = FOCAL.flatMap((name) => {
      const quantity = /** @type {Quantity | undefined} */ (byName.get(name));
      return quantity ? [quantity] : [];
    });
    const all = await Promise.all(parts.map((each) => numbers.get(each, wayOf(each, state.runWay), state.runTau)));
    if (request !== turn) return;
    const chosen = wayOf(own.quantity, state.runWay);
    const drawn = parts.map(({ name }, k) => {
      const { value, low, high } = ofLayers(all[k]);
      const words = FOCAL_NAMES[FOCAL.indexOf(name)];
      const look = name === FOCAL[0] ? wayLook(run, chosen) : FOCAL_BASES[name];
      return { ...look, name: words, value, low, high, strong: name === FOCAL[0] };
    });
    draw(own, drawn, { ...state, runSum: "median" });
    const key = drawn.flatMap((each) => [swatch(each), ` ${each.name} `]);
    const mixed = parts.length > 2 && chosen === PAPER ? "(these from the top pairs) " : "";
    own.holder.append(html("p", { class: "note key" }, ...key, mixed, `· ${wayName(chosen)}, of ${run.heads} heads`));
  }

  async function show() {
    const request = ++turn;
    const state = store.get();
    follow();
    const wanted = cards.filter((/** @type {Card} */ { section, quantity }) => {
      section.hidden = state.runSum === "share" && (quantity.bound === null || quantity.of_layers);
      return !section.hidden;
    });
    for (const each of root.querySelectorAll(".group")) {
      /** @type {HTMLElement} */ (each).hidden = !each.querySelector(".card:not([hidden])");
    }
    const parts = wanted.map((/** @type {Card} */ each) => fill(each, state, request));
    if (focal) parts.push(fillFocal(focal, state, request));
    try {
      await Promise.all(parts);
      if (request === turn) root.dataset.ready = `${state.runWay}/${state.runTau}/${state.runSum}`;
    } catch (error) {
      if (request === turn) fail(error);
    }
  }

  function follow() {
    const { runSum } = store.get();
    summing.follow(runSum, SUMMING);
    const band = "of the chosen reading also its 95 % interval (shaded) and the middle half of the heads (thin)";
    const more = { median: `; ${band}`, share: "; scores that no claim rests on have no bound", pooled: "" }[runSum];
    refill(meaning, `${SUMS[runSum].title}${more}`);
  }

  showLegend();
  return { root, show };
}
