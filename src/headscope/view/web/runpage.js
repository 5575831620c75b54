// A collection of texts: findings with verdicts, the atlas of heads by score, and what lies behind one head.

import { thresholdSlider } from "./controls.js";
import { html, refill } from "./dom.js";
import { saveFile } from "./exports.js";
import { showFindings } from "./findings.js";
import { runAtlas } from "./runatlas.js";
import { runHead } from "./runhead.js";
import { differing } from "./state.js";

/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */

const REST = 150; // milliseconds that a slider rests before heads are fetched

/**
 * @param {{
 *   source: Source, store: Store, theme: () => "light" | "dark",
 *   tell: (message: string, kind?: string) => void, fail: (error: unknown) => void,
 * }} spec
 */
export function runPage({ source, store, theme, tell, fail }) {
  /** @type {any} */
  let run = null;
  /** @type {ReturnType<typeof runAtlas> | null} */
  let atlas = null;
  /** @type {ReturnType<typeof runHead> | null} */
  let detail = null;
  let [asked, later] = [0, 0];

  const {
    range: tau,
    output: tauShown,
    label: tauLabel,
  } = thresholdSlider("τ", (value) => store.set({ runTau: Math.round(value) }));
  const {
    range: theta,
    output: thetaShown,
    label: thetaLabel,
  } = thresholdSlider("θ", (value) => store.set({ runTheta: value }));
  const back = () => run && store.set({ runTau: Math.round(20 * run.tau), runTheta: 0 });
  const save = async () => {
    try {
      if (source.download) saveFile(await source.download("run/result.nc"), "result.nc");
    } catch (error) {
      fail(error);
    }
  };
  const button = (/** @type {string} */ label, /** @type {() => void} */ onclick) =>
    html("button", { type: "button", class: "small", onclick }, label);
  const controls = html(
    "div",
    { class: "controls" },
    tauLabel,
    thetaLabel,
    button("the run's own", back),
    source.download ? button("Save result.nc", () => void save()) : null,
    html("span", { class: "note" }, "thresholds of the findings; every number was computed beforehand"),
  );
  const findings = html("table", { class: "findings" });
  const warnings = html("ul", { class: "warnings" });
  const columns = html("div", { class: "columns" });
  const root = html(
    "div",
    { class: "run-page" },
    controls,
    html("section", { class: "block" }, html("h2", {}, "Findings"), warnings, findings),
    columns,
  );

  async function loadHeads() {
    const turn = ++asked;
    const step = store.get().runTau;
    try {
      const tensors = await source.get(`run/atlas/${step}`);
      if (turn !== asked) return;
      atlas?.take(tensors);
      root.dataset.ready = String(step);
      await detail?.show(store.get());
      tell("", "calm");
    } catch (error) {
      if (turn === asked) fail(error);
    }
  }

  function follow() {
    const state = store.get();
    const [low, high] = [run.thresholds[0], run.thresholds[run.thresholds.length - 1]];
    const steps = [20 * low, 20 * high, 1, state.runTau].map((each) => String(Math.round(each)));
    [tau.min, tau.max, tau.step, tau.value] = steps;
    [theta.min, theta.max, theta.step, theta.value] = [low, high, 0.05, state.runTheta || run.theta].map(String);
    tauShown.value = (state.runTau / 20).toFixed(2);
    thetaShown.value = (state.runTheta || run.theta).toFixed(2);
    atlas?.follow();
  }

  async function begin() {
    try {
      tell("Working out the findings at every threshold …", "busy");
      const answer = await source.get("run");
      const state = store.get();
      const known = answer.scores.some((/** @type {any} */ each) => each.name === state.runScore);
      store.set({
        runTau: state.runTau || Math.round(20 * answer.tau),
        runScore: known ? state.runScore : (answer.scores[3] ?? answer.scores[0]).name,
      });
      run = answer;
      tell(
        `${run.model} · ${run.stack} · ${run.windows.toLocaleString("en")} windows of ${run.texts} · ${run.interval}`,
      );
      refill(warnings, ...run.warnings.map((/** @type {string} */ each) => html("li", {}, each)));
      atlas = runAtlas({ run, store, theme });
      detail = runHead({ source, run, number: atlas.number, onopen: open });
      refill(columns, atlas.side, detail.root);
      follow();
      showFindings(run, store.get(), findings);
      await loadHeads();
    } catch (error) {
      fail(error);
    }
  }

  /**
   * @param {string} text
   * @param {number} layer
   * @param {number} head
   */
  function open(text, layer, head) {
    const options = { ...run.options, stack: run.stack };
    const tau_ = store.get().runTau;
    store.set({ page: "text", text, id: "", options, layer, head, tau: tau_, token: -1, x: 0, y: 0, n: 0 });
  }

  store.on((state, before) => {
    if (state.page !== "run" || !run) return;
    const own = differing(state, before);
    follow();
    if (own("runTau", "runTheta")) showFindings(run, state, findings);
    if (own("runTau")) {
      clearTimeout(later);
      later = window.setTimeout(() => void loadHeads(), REST);
    }
    if (own("runScore", "runRanked", "theme")) atlas?.show();
    if (own("runLayer", "runHead")) atlas?.choose(state.runLayer, state.runHead);
    if (own("runLayer", "runHead", "runScore")) void detail?.show(state).catch(fail);
  });

  /** @param {KeyboardEvent} event */
  function key(event) {
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (!run || !(event.key in moves)) return false;
    const state = store.get();
    const row = Math.max(0, run.layers.indexOf(state.runLayer)) + moves[event.key][0];
    const head = Math.max(0, state.runHead) + moves[event.key][1];
    const there = row >= 0 && row < run.layers.length && head >= 0 && head < run.heads;
    if (there) store.set({ runLayer: run.layers[row], runHead: head });
    return true;
  }

  return {
    root,
    key,
    begin,
    begun: () => run !== null,
    repaint: () => atlas?.show(),
    close: () => clearTimeout(later),
  };
}
