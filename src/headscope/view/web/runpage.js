// A collection of texts: the atlas of heads by score, what layers do, findings with verdicts, and what lies behind one
// head. Heads are shown first; findings take longer and come when they are ready.

import { STACKS, exportMenu, switchOf, thresholdSlider } from "./controls.js";
import { bringIntoView, counted, html, refill } from "./dom.js";
import { explainer } from "./explanations.js";
import { saveFile } from "./exports.js";
import { findingsView } from "./findings.js";
import { layersView } from "./layers.js";
import { runAtlas } from "./runatlas.js";
import { runHead } from "./runhead.js";
import { runNumbers } from "./runnumbers.js";
import { differing, written } from "./state.js";
import { PAPER, wayName, wayOf, wayTitle } from "./ways.js";

/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */
/** @typedef {import("./ways.js").Quantity} Quantity */

const REST = 150; // milliseconds that a slider rests before heads are fetched
const AGAIN = 700; // … until what is being worked out is asked for again
const USUAL_SCORE = "sentence_preference"; // what the atlas shows at first
const isUsual = (/** @type {Quantity} */ { name }) => name === USUAL_SCORE;
const POOLED = "not the run's own τ: matched ratios are pooled over windows here";

/**
 * @param {{
 *   source: Source, store: Store, theme: () => "light" | "dark",
 *   tell: (message: string, kind?: string) => void, fail: (error: unknown) => void, onphone: () => void,
 * }} spec
 */
export function runPage({ source, store, theme, tell, fail, onphone }) {
  /** Everything that is made for a run; all of it or nothing. @type {ReturnType<typeof makeViews> | null} */
  let views = null;
  /** @type {any} */
  let run = null;
  let [asked, later, closed, sweeping] = [0, 0, false, false];
  let opened = 0; // how often: what was asked of a run that is shown no more is not wanted

  const tau = thresholdSlider("τ", (value) => store.set({ runTau: Math.round(value) }));
  const theta = thresholdSlider("θ", (value) => store.set({ runTheta: value }));
  const back = () => run && store.set({ runTau: Math.round(20 * run.tau), runTheta: 0 });
  const explained = explainer();
  const save = async (/** @type {string} */ kind) => {
    try {
      if (kind === "phone") onphone();
      else if (kind === "nc" && source.download) saveFile(await source.download("run/result.nc"), "result.nc");
      else if (source.save) {
        const asked = { run: true, stack: run.stack, address: written(store.get()) };
        const file = await source.save(asked, (done, of) => {
          tell(of ? `Writing the file: ${done} of ${of}` : "Working out all intervals for the file …", "busy");
        });
        saveFile(file, "headscope-run.html");
        tell(`The file is written: ${(file.size / 1e6).toFixed(1)} MB, it opens in any browser.`);
      }
    } catch (error) {
      fail(error);
    }
  };
  const button = (/** @type {string} */ label, /** @type {() => void} */ onclick) =>
    html("button", { type: "button", class: "small", onclick }, label);
  /** @type {[string, string][]} */
  const saves = [
    ...(source.download ? [/** @type {[string, string]} */ (["nc", "result.nc, everything"])] : []),
    ...(source.save ? [/** @type {[string, string]} */ (["html", "One HTML file of this run"])] : []),
    ...(source.phone ? [/** @type {[string, string]} */ (["phone", "Open on a phone …"])] : []),
  ];
  const note = html("span", { class: "note", role: "status" });
  const controls = html("div", { class: "controls" });
  const columns = html("div", { class: "columns" });
  const root = html("div", { class: "run-page" }, controls, columns);

  /** @param {any} about */
  function makeViews(about) {
    const numbers = runNumbers(source, about.path);
    const stack = switchOf(
      "Which stack of the model",
      about.stacks.map((/** @type {string} */ name) => ({ name, title: STACKS[name] ?? name })),
      (name) => store.set({ runStack: name, runLayer: -1, runHead: -1 }),
    );
    stack.field.hidden = about.stacks.length < 2;
    stack.follow(about.stack, about.stacks);
    const ways = [PAPER, ...about.readings.map((/** @type {any} */ each) => each.name), ...about.maps];
    const way = switchOf(
      "How S is read",
      ways.map((name) => ({ name, label: wayName(name), title: wayTitle(about, name) })),
      (name) => store.set({ runWay: name }),
    );
    const atlas = runAtlas({ run: about, store, theme, onpressed: () => bringIntoView(detail.root, atlas.side) });
    const layers = layersView({ run: about, store, numbers, fail });
    const onall = () => {
      bringIntoView(atlas.side, detail.root);
      atlas.focus();
    };
    const detail = runHead({ source, run: about, numbers, fail, onopen: open, onall });
    const findings = findingsView({ run: about, store });
    return { stack, ways, way, numbers, atlas, layers, detail, findings };
  }

  /** The score that the atlas shows. @returns {Quantity} */
  function score() {
    const { runScore } = store.get();
    return run.quantities.find((/** @type {Quantity} */ each) => each.name === runScore);
  }

  async function loadHeads() {
    if (!views) return;
    const turn = ++asked;
    const state = store.get();
    const [wanted, way] = [score(), wayOf(score(), state.runWay)];
    const how = way === PAPER ? `at τ = ${(state.runTau / 20).toFixed(2)}` : wayName(way, wanted);
    views.atlas.wait(`Working out ${wanted.label} of ${run.layers.length * run.heads} heads, ${how} …`);
    try {
      const tensors = await views.numbers.get(wanted, way, state.runTau, true);
      if (turn !== asked) return;
      views.atlas.take(wanted, way, tensors);
      root.dataset.ready = `${wanted.name}/${way === PAPER ? state.runTau : way}`;
      tell("", "calm");
    } catch (error) {
      if (turn === asked) fail(error);
    } finally {
      if (turn === asked) views.atlas.ready();
    }
  }

  /** Everything but the atlas, which has been drawn. */
  async function loadRest() {
    await Promise.all([views?.detail.show(store.get()).catch(fail), views?.layers.show()]);
  }

  /**
   * Ask until it is there; null where it is not wanted any more.
   * @param {string} what
   * @returns {Promise<any>}
   */
  async function worked(what) {
    const [turn, path] = [opened, `${run.path}/${what}`];
    for (;;) {
      const answer = await source.get(path);
      if (closed || turn !== opened) return null;
      if (answer.ready) return answer;
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
  }

  async function loadFindings() {
    const answer = await worked("findings");
    if (!answer) return;
    views?.findings.take(answer);
    root.dataset.findings = "ready";
  }

  async function loadSweep() {
    if (sweeping || !views?.findings.needsSweep()) return;
    sweeping = true;
    try {
      const answer = await worked("sensitivity");
      if (!answer) return;
      views.findings.takeSweep(answer);
      root.dataset.swept = "ready";
    } catch (error) {
      sweeping = false;
      fail(error);
    }
  }

  function follow() {
    if (!views) return;
    const state = store.get();
    const reach = [run.thresholds[0], run.thresholds[run.thresholds.length - 1], run.tau];
    const [low, high] = [Math.min(...reach), Math.max(...reach)];
    const steps = [20 * low, 20 * high, 1, state.runTau].map((each) => String(Math.round(each)));
    [tau.range.min, tau.range.max, tau.range.step, tau.range.value] = steps;
    const thetas = [run.thresholds[0], run.thresholds[run.thresholds.length - 1], 0.05, state.runTheta || run.theta];
    [theta.range.min, theta.range.max, theta.range.step, theta.range.value] = thetas.map(String);
    tau.output.value = (state.runTau / 20).toFixed(2);
    theta.output.value = (state.runTheta || run.theta).toFixed(2);
    // Every reading can be had of curves and charts; maps only where the score is of them.
    const shown = score();
    const offered = views.ways.filter((way) => !run.maps.includes(way) || shown.ways.includes(way));
    views.way.follow(offered.includes(state.runWay) ? state.runWay : PAPER, offered);
    const pooled = shown.matched && wayOf(shown, state.runWay) === PAPER && state.runTau !== Math.round(20 * run.tau);
    refill(note, pooled ? POOLED : "");
    views.atlas.follow();
  }

  /** The stack that the address asks for, where the run has it; else the one that the viewer was started with. */
  async function openRun() {
    const answer = await source.get("run");
    const { runStack } = store.get();
    const other = runStack !== answer.stack && answer.stacks.includes(runStack);
    return other ? await source.get(`stacks/${runStack}/run`) : answer;
  }

  async function begin() {
    const turn = ++opened;
    const wanted = () => !closed && turn === opened;
    [asked, sweeping] = [asked + 1, false];
    for (const name of ["ready", "findings", "swept"]) delete root.dataset[name];
    try {
      tell("Opening the run …", "busy");
      const answer = await openRun();
      if (!wanted()) return;
      const state = store.get();
      const scores = answer.quantities.filter((/** @type {Quantity} */ each) => each.heads);
      const known = scores.some((/** @type {Quantity} */ each) => each.name === state.runScore);
      store.set({
        runTau: state.runTau || Math.round(20 * answer.tau),
        runScore: known ? state.runScore : (scores.find(isUsual) ?? scores[0]).name,
      });
      run = answer;
      tell(`${run.model} · ${run.stack} · ${counted(run.windows, "window")} of ${run.texts} · ${run.interval}`);
      views = makeViews(run);
      refill(
        controls,
        views.stack.field,
        views.way.field,
        html("span", { class: "explains" }, tau.label, explained.button("runTau", "what τ means")),
        html("span", { class: "explains" }, theta.label, explained.button("runTheta", "what θ means")),
        button("the run's own", back),
        note,
        saves.length ? exportMenu(saves, (kind) => void save(kind)) : null,
        explained.place,
      );
      refill(columns, views.atlas.side, views.detail.root);
      refill(root, controls, views.findings.root, columns, views.layers.root);
      follow();
      await loadHeads();
      if (!wanted()) return;
      const { runLayer, runHead } = store.get();
      const there = run.layers.includes(runLayer) && runHead >= 0 && runHead < run.heads;
      if (!there && root.dataset.ready) store.set(views.atlas.first());
      const rest = loadRest();
      await loadFindings();
      await loadSweep();
      await rest;
    } catch (error) {
      if (wanted()) fail(error);
    }
  }

  /**
   * @param {string} text
   * @param {number} layer
   * @param {number} head
   */
  function open(text, layer, head) {
    const options = { ...run.options, stack: run.stack };
    const { runTau, runWay } = store.get();
    const read = run.readings.some((/** @type {any} */ each) => each.name === runWay);
    const own = { reading: read ? runWay : run.readings[0].name, top: read };
    store.set({ page: "text", text, id: "", options, layer, head, tau: runTau, ...own, token: -1, x: 0, y: 0, n: 0 });
  }

  store.on((state, before) => {
    if (state.page !== "run" || !views) return;
    const own = differing(state, before);
    if (own("runStack")) return void begin();
    follow();
    if (own("runTau", "runTheta", "runOpen")) views.findings.show();
    if (own("runTau", "runTheta")) void loadSweep();
    if (own("runTau")) {
      clearTimeout(later);
      later = window.setTimeout(() => void loadHeads().then(loadRest), REST);
    }
    if (own("runScore", "runWay")) void loadHeads();
    if (own("runRanked", "theme")) views.atlas.show();
    if (own("runLayer", "runHead")) views.atlas.choose(state.runLayer, state.runHead);
    if (own("runLayer", "runHead", "runScore", "runWay")) void views.detail.show(state).catch(fail);
    if (own("runWay", "runSum")) void views.layers.show();
  });

  /** @param {KeyboardEvent} event */
  function key(event) {
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (!run || !views) return false;
    const state = store.get();
    if (event.key === "r") {
      const offered = views.ways.filter((way) => !run.maps.includes(way) || score().ways.includes(way));
      store.set({ runWay: offered[(offered.indexOf(state.runWay) + 1) % offered.length] });
      return true;
    }
    if (!(event.key in moves)) return false;
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
    started: () => run !== null,
    repaint: () => views?.atlas.show(),
    close: () => {
      closed = true;
      clearTimeout(later);
    },
  };
}
