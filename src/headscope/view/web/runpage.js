// A collection of texts: findings with verdicts, the atlas of heads by score, and what lies behind one head.

import { html, refill, shown } from "./dom.js";
import { css, palette, sided } from "./colours.js";
import { atlasView } from "./atlas.js";
import { saveFile } from "./exports.js";
import { distances, interval, lines } from "./charts.js";

/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./source.js").Tensors} Tensors */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */

const VERDICTS = { holds: "✓", "does not hold": "✗", open: "?", "no verdict": "–" };

/**
 * @param {{source: Source, store: Store, about: any, theme: () => "light" | "dark", tell: (message: string, kind?: string) => void}} spec
 */
export function runPage({ source, store, theme, tell }) {
  /** @type {any} */
  let run = null;
  /** @type {Tensors | null} */
  let atlasData = null;
  /** @type {ReturnType<typeof atlasView> | null} */
  let atlas = null;
  let [asked, askedHead] = [0, 0];
  const fail = (/** @type {unknown} */ error) => tell(error instanceof Error ? error.message : String(error), "error");

  const tau = html("input", { type: "range", "aria-label": "τ: the level from which a pair is similar", oninput: () => store.set({ runTau: Math.round(Number(tau.value)) }) });
  const theta = html("input", { type: "range", "aria-label": "θ: the attention from which a token is attended", oninput: () => store.set({ runTheta: Number(theta.value) }) });
  const [tauShown, thetaShown] = [html("output", {}), html("output", {})];
  const back = html("button", { type: "button", class: "small", onclick: () => run && store.set({ runTau: Math.round(20 * run.tau), runTheta: 0 }) }, "the run's own");
  const saving = source.download
    ? html("button", { type: "button", class: "small", onclick: () => void takeAway() }, "Save result.nc")
    : null;
  const controls = html("div", { class: "controls" },
    html("label", { class: "slider" }, html("span", {}, "τ"), tau, tauShown), html("label", { class: "slider" }, html("span", {}, "θ"), theta, thetaShown), back, saving,
    html("span", { class: "note" }, "thresholds of the findings; every number was computed beforehand"));
  const findings = html("table", { class: "findings" });
  const warnings = html("ul", { class: "warnings" });
  const sorting = html("select", { "aria-label": "Score", onchange: () => store.set({ runScore: sorting.value }) });
  const ranked = html("input", { type: "checkbox", onchange: () => store.set({ runRanked: ranked.checked }) });
  const atlasHolder = html("div", { class: "atlas-holder wide" });
  const legend = html("div", { class: "legend" });
  const ranking = html("div", { class: "ranking", role: "list", "aria-label": "Heads by score, with intervals" });
  const detail = html("section", { class: "head-detail", "aria-live": "polite" });
  const root = html("div", { class: "run-page" }, controls,
    html("section", { class: "block" }, html("h2", {}, "Findings"), warnings, findings),
    html("div", { class: "columns" },
      html("aside", { "aria-label": "Atlas of heads" }, html("div", { class: "panel-header" }, html("h2", {}, "Heads"), html("label", { class: "toggle" }, ranked, "sort")), sorting, atlasHolder, legend,
        html("h3", {}, "With intervals"), ranking),
      detail));

  async function takeAway() {
    if (!source.download) return;
    try {
      saveFile(await source.download("run/result.nc"), "result.nc");
    } catch (error) {
      fail(error);
    }
  }

  /** Which of the thresholds swept a claim is to be shown at; -1 for the run's own. @param {any} claim */
  function placeOf(claim) {
    const state = store.get();
    const asked_ = claim.over === "theta" ? state.runTheta : claim.over === "tau" ? state.runTau / 20 : 0;
    const own = claim.over === "theta" ? 0 : run.tau;
    if (!asked_ || Math.abs(asked_ - own) < 1e-9) return -1;
    return run.thresholds.findIndex((/** @type {number} */ each) => Math.abs(each - asked_) < 1e-9);
  }

  function showFindings() {
    if (!run) return;
    const rows = run.claims.flatMap((/** @type {any} */ claim) => {
      const place = placeOf(claim);
      const found = place < 0 ? claim.own : Object.fromEntries(["value", "low", "high", "verdict", "reason"].map((name) => [name, claim.swept[name][place]]));
      const all = [...claim.swept.low, ...claim.swept.high, claim.own.low, claim.own.high, claim.none, 2 * claim.bound - claim.none].filter((each) => each !== null);
      const range = /** @type {[number, number]} */ ([Math.min(...all), Math.max(...all)]);
      const pad = (range[1] - range[0]) * 0.05 || 0.1;
      const kind = found.verdict.replaceAll(" ", "-");
      const number = found.value === null ? "–" : `${shown(found.value, claim.digits)}${found.low === null ? "" : ` [${shown(found.low, claim.digits)}, ${shown(found.high, claim.digits)}]`}`;
      const at = place < 0 ? "at the run's own thresholds" : `at ${claim.over === "theta" ? "θ" : "τ"} = ${run.thresholds[place].toFixed(2)}`;
      return [
        html("tr", { "data-claim": claim.key, "data-verdict": found.verdict, "data-value": found.value },
          html("th", { scope: "row" }, claim.key),
          html("td", { class: "claim" }, html("b", {}, claim.claim), html("details", {}, html("summary", {}, `${claim.statistic}, ${at}`),
            html("p", {}, `The paper: ${claim.says}`), html("p", {}, claim.own.sentence),
            claim.over === "theta" && place >= 0 && claim.key.startsWith("1") ? html("p", { class: "note" }, "Over θ this claim is read off the tokens with high attention: their share of the category over that of all tokens.") : null,
            found.reason ? html("p", { class: "note" }, found.reason) : null)),
          html("td", {}, interval({ ...found, none: claim.none, bound: claim.bound, range: [range[0] - pad, range[1] + pad], width: 190, kind, label: `${number}; no effect is ${claim.none}, the smallest that matters ${claim.bound}` })),
          html("td", { class: "number" }, number),
          html("td", {}, html("span", { class: `verdict ${kind}` }, html("span", { "aria-hidden": "true" }, VERDICTS[/** @type {keyof typeof VERDICTS} */ (found.verdict)]), ` ${found.verdict}`))),
      ];
    });
    refill(findings, html("thead", {}, html("tr", {}, html("th", {}), html("th", {}, "the paper's claim"), html("th", {}, "measured; shaded: the effect matters"), html("th", {}, "95 % interval"), html("th", {}, "verdict"))), html("tbody", {}, ...rows));
    refill(warnings, ...run.warnings.map((/** @type {string} */ each) => html("li", {}, each)));
  }

  /** @param {string} name */
  const scorePlace = (name) => run.scores.findIndex((/** @type {any} */ each) => each.name === name);

  /**
   * @param {"value" | "low" | "high"} what
   * @param {number} score
   * @param {number} row
   * @param {number} head
   */
  function number(what, score, row, head) {
    if (!atlasData) return NaN;
    return atlasData[what].data[(score * run.layers.length + row) * run.heads + head];
  }

  function showAtlas() {
    if (!run || !atlasData || !atlas) return;
    const state = store.get();
    const place = Math.max(0, scorePlace(state.runScore));
    const score = run.scores[place];
    const values = Array.from(atlasData.value.data).slice(place * run.layers.length * run.heads, (place + 1) * run.layers.length * run.heads);
    const known = values.filter((each) => !Number.isNaN(each)).sort((a, b) => a - b);
    const range = /** @type {[number, number]} */ ([known[Math.floor(known.length * 0.02)] ?? 0, known[Math.ceil(known.length * 0.98) - 1] ?? 1]);
    const colours = palette(theme(), score.base === null ? "norms" : "sides");
    const tiles = run.layers.flatMap((/** @type {number} */ layer, /** @type {number} */ row) =>
      Array.from({ length: run.heads }, (_, head) => {
        const value = number("value", place, row, head);
        const share = sided(value, score.base, range);
        return {
          layer, head, score: value, title: `95 %: ${shown(number("low", place, row, head))} to ${shown(number("high", place, row, head))}`,
          paint: (/** @type {HTMLCanvasElement} */ canvas) => {
            [canvas.width, canvas.height] = [1, 1];
            const context = canvas.getContext("2d");
            if (!context) return;
            context.fillStyle = Number.isNaN(value) ? "#888888" : css(colours, share);
            context.fillRect(0, 0, 1, 1);
          },
        };
      }));
    atlas.arrange(tiles, state.runRanked, { ...score, meaning: "" });
    atlas.paint(tiles, theme());
    atlas.choose(state.runLayer, state.runHead);
    const stops = Array.from({ length: 21 }, (_, k) => css(colours, k / 20)).join(", ");
    const ramp = html("div", { class: "ramp" });
    ramp.style.background = `linear-gradient(to right, ${stops})`;
    const reach = score.base === 1 ? Math.exp(Math.max(Math.abs(Math.log(Math.max(range[0], 1e-3))), Math.abs(Math.log(Math.max(range[1], 1e-3))), 0.05)) : Math.max(Math.abs(range[0]), Math.abs(range[1]));
    const ends = score.base === 1 ? [1 / reach, 1, reach] : score.base === 0 ? [-reach, 0, reach] : [range[0], (range[0] + range[1]) / 2, range[1]];
    refill(legend, html("span", {}, score.label), ramp, html("div", { class: "ends" }, ...ends.map((each) => html("span", {}, shown(each)))));
    showRanking(tiles, place, score);
  }

  /**
   * Heads in the order of a score, each with its interval.
   * @param {any[]} tiles
   * @param {number} place
   * @param {any} score
   */
  function showRanking(tiles, place, score) {
    const order = tiles.filter((each) => !Number.isNaN(each.score)).sort((a, b) => b.score - a.score);
    const ends = order.length > 24 ? [...order.slice(0, 12), null, ...order.slice(-12)] : order;
    const reached = ends.flatMap((each) => (each ? [each.score, number("low", place, run.layers.indexOf(each.layer), each.head), number("high", place, run.layers.indexOf(each.layer), each.head)] : []));
    const known = [...reached.filter((each) => !Number.isNaN(each)), score.base ?? reached[0]];
    const [low, high] = [Math.min(...known), Math.max(...known)];
    refill(ranking, ...ends.map((each) => {
      if (!each) return html("div", { class: "gap", "aria-hidden": "true" }, "⋮");
      const row = run.layers.indexOf(each.layer);
      const [from, to] = [number("low", place, row, each.head), number("high", place, row, each.head)];
      return html("button", { type: "button", class: "ranked-head", role: "listitem", "data-head": `${each.layer}.${each.head}`, onclick: () => store.set({ runLayer: each.layer, runHead: each.head }) },
        html("span", {}, `${each.layer}.${each.head}`),
        interval({ value: each.score, low: Number.isNaN(from) ? null : from, high: Number.isNaN(to) ? null : to, none: score.base ?? low, bound: high + 1, range: [low, high], width: 150, kind: "", label: `${shown(each.score)}, 95 % from ${shown(from)} to ${shown(to)}` }),
        html("b", {}, shown(each.score)));
    }));
  }

  async function loadAtlas() {
    const turn = ++asked;
    try {
      const found = await source.get(`run/atlas/${store.get().runTau}`);
      if (turn !== asked) return;
      atlasData = found;
      showAtlas();
      root.dataset.ready = String(store.get().runTau);
    } catch (error) {
      fail(error);
    }
  }

  async function loadHead() {
    const turn = ++askedHead;
    const state = store.get();
    const [layer, head] = [state.runLayer, state.runHead];
    if (!run?.layers.includes(layer) || head < 0 || head >= run.heads) {
      return refill(detail, html("p", { class: "empty" }, "Choose a head to see how far it reaches, how it treats sentences, and the texts that show it best."));
    }
    try {
      const curves = await source.get(`run/heads/${layer}/${head}/${state.runTau}`);
      if (turn !== askedHead) return;
      const row = run.layers.indexOf(layer);
      const size = { width: Math.min(430, Math.max(300, detail.clientWidth - 20)), height: 200 };
      const examples = html("div", { class: "examples" });
      refill(detail,
        html("h2", {}, `Layer ${layer}, head ${head}`),
        html("div", { class: "figures" },
          html("section", {}, html("h3", {}, "Distance of similar pairs"), distances({ edges: curves.edges, share: curves.distance.value, low: curves.distance.low, high: curves.distance.high, base: curves.base, ...size }), html("p", { class: "note" }, "dashed: all pairs")),
          html("section", {}, html("h3", {}, "How often two words are similar"),
            lines({ edges: curves.edges, lines: [{ name: "in one sentence", line: curves.within, kind: "first" }, { name: "across sentences", line: curves.across, kind: "second" }], xlabel: "distance in tokens", label: "How often two words at a distance are similar, in one sentence and across", ...size }),
            html("p", { class: "note" }, "bands: 95 %")),
          html("section", {}, html("h3", {}, `Scores at τ = ${(state.runTau / 20).toFixed(2)}`), html("table", { class: "scores" }, html("tbody", {}, ...run.scores.map((/** @type {any} */ each, /** @type {number} */ place) =>
            html("tr", {}, html("th", { scope: "row" }, each.label), html("td", {}, shown(number("value", place, row, head))), html("td", { class: "note" }, `${shown(number("low", place, row, head))} to ${shown(number("high", place, row, head))}`))))))),
        examples);
      if (run.rows) await loadExamples(examples, layer, head, turn);
      else refill(examples, html("p", { class: "note" }, "This run kept no rows per text; analyze with --per-text to see texts that show a head."));
    } catch (error) {
      if (turn === askedHead) fail(error);
    }
  }

  /**
   * @param {HTMLElement} place
   * @param {number} layer
   * @param {number} head
   * @param {number} turn
   */
  async function loadExamples(place, layer, head, turn) {
    const shownBy = run.scores.filter((/** @type {any} */ each) => each.examples);
    const chosen = shownBy.find((/** @type {any} */ each) => each.name === store.get().runScore) ?? shownBy[0];
    const found = await source.get(`run/heads/${layer}/${head}/examples/${chosen.examples}`);
    if (turn !== askedHead) return;
    refill(place, html("h3", {}, `Texts that show it most: ${chosen.label}`), ...found.map((/** @type {any} */ each) =>
      html("article", { class: "example" },
        html("p", { class: "note" }, `${each.id} · ${chosen.examples.replaceAll("_", " ")} ${shown(each.score)} · ${each.high_pairs} similar pairs`, each.focal_token ? " · focal token " : "", each.focal_token ? html("bdi", { class: "quoted" }, each.focal_token) : null),
        html("p", { dir: "auto" }, each.short),
        source.inspect ? html("button", { type: "button", class: "small", onclick: () => open(each.text, layer, head) }, "look at it with this head") : null)));
  }

  /**
   * @param {string} text
   * @param {number} layer
   * @param {number} head
   */
  function open(text, layer, head) {
    const options = { ...run.options, stack: run.stack };
    store.set({ page: "text", text, id: "", options, layer, head, tau: store.get().runTau, token: -1, x: 0, y: 0, n: 0 });
  }

  function showControls() {
    if (!run) return;
    const state = store.get();
    const [low, high] = [run.thresholds[0], run.thresholds[run.thresholds.length - 1]];
    [tau.min, tau.max, tau.step, tau.value] = [low * 20, high * 20, 1, state.runTau].map((each) => String(Math.round(each)));
    [theta.min, theta.max, theta.step, theta.value] = [low, high, 0.05, state.runTheta || run.theta].map(String);
    tauShown.value = (state.runTau / 20).toFixed(2);
    thetaShown.value = state.runTheta ? state.runTheta.toFixed(2) : `${run.theta.toFixed(2)}`;
    ranked.checked = state.runRanked;
    sorting.value = state.runScore;
  }

  let later = 0;
  store.on((state, before) => {
    if (state.page !== "run" || !run) return;
    const own = (/** @type {(keyof State)[]} */ ...keys) => keys.some((key) => state[key] !== before[key]);
    showControls();
    if (own("runTau", "runTheta")) showFindings();
    if (own("runTau")) {
      clearTimeout(later);
      later = window.setTimeout(() => void loadAtlas().then(loadHead), 150);
    }
    if (own("runScore", "runRanked", "theme")) showAtlas();
    if (own("runLayer", "runHead")) atlas?.choose(state.runLayer, state.runHead);
    if (own("runLayer", "runHead", "runScore")) void loadHead();
  });

  return {
    root,
    begin: async () => {
      try {
        tell("Working out the findings at every threshold …", "busy");
        run = await source.get("run");
        tell(`${run.model} · ${run.stack} · ${run.windows.toLocaleString("en")} windows of ${run.texts} · ${run.interval}`);
        const state = store.get();
        const known = scorePlace(state.runScore) >= 0;
        refill(sorting, ...run.scores.map((/** @type {any} */ each) => html("option", { value: each.name }, each.label)));
        store.set({ runTau: state.runTau || Math.round(20 * run.tau), runScore: known ? state.runScore : (run.scores[3]?.name ?? run.scores[0].name) });
        atlas = atlasView({ layers: run.layers, heads: run.heads, label: "Heads: a row for each layer", onpick: (layer, head) => store.set({ runLayer: layer, runHead: head }) });
        refill(atlasHolder, atlas.grid);
        showControls();
        showFindings();
        await loadAtlas();
        await loadHead();
      } catch (error) {
        fail(error);
      }
    },
    begun: () => run !== null,
    repaint: showAtlas,
    /** @param {KeyboardEvent} event */
    key: (event) => {
      const state = store.get();
      /** @type {Record<string, [number, number]>} */
      const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      if (!run || !(event.key in moves)) return false;
      const [down, along] = moves[event.key];
      const row = Math.max(0, run.layers.indexOf(state.runLayer)) + down;
      const head = Math.max(0, state.runHead) + along;
      if (row >= 0 && row < run.layers.length && head >= 0 && head < run.heads) store.set({ runLayer: run.layers[row], runHead: head });
      return true;
    },
    close: () => clearTimeout(later),
  };
}
