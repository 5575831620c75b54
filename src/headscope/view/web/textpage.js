// One text: what every head makes of it.

import { html, refill, shown } from "./dom.js";
import { atlasView, paintThumbnail } from "./atlas.js";
import { pairsAsCsv, pictureAsSvg, saveFile, svgAsPng } from "./exports.js";
import { panelView } from "./panel.js";
import { Refusal } from "./source.js";
import { SHOWN } from "./state.js";

/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./source.js").Tensors} Tensors */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */
/** @typedef {import("./atlas.js").Tile} Tile */

const STEPS = 19; // thresholds
const NAMES = { similarity: "similarity", level: "level", attention: "attention", received: "received", norms: "norms" };

/**
 * @param {{source: Source, store: Store, about: any, theme: () => "light" | "dark", tell: (message: string, kind?: string) => void}} spec
 */
export function textPage({ source, store, about, theme, tell }) {
  /** @type {Text | null} */
  let text = null;
  /** @type {Map<number, Tensors>} */
  const layers = new Map();
  /** @type {ReturnType<typeof atlasView> | null} */
  let atlas = null;
  let reading = 0;

  const fail = (/** @type {unknown} */ error) => tell(error instanceof Error ? error.message : String(error), "error");

  const panel = panelView({
    source, store, theme, pinned: false,
    onhover: (hover) => share(hover, text?.id),
    onstep: move,
    onpin: () => {
      const state = store.get();
      if (text) store.set({ pin: { id: text.id, text: state.text, layer: state.layer, head: state.head } });
    },
  });
  /** @type {ReturnType<typeof panelView> | null} */
  let pinned = null;
  let pinnedText = "";

  /**
   * Two panels with the same text point at the same token.
   * @param {{i: number, j: number}} hover
   * @param {string | undefined} id
   */
  function share(hover, id) {
    if (id === text?.id) panel.hover(hover);
    if (id === pinnedText) pinned?.hover(hover);
  }

  // ------------------------------------------------------------------ controls

  const area = html("textarea", {
    id: "text", rows: 2, maxlength: about.limits.text, placeholder: "Type or paste a text", "aria-label": "The text to look at",
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
      event.stopPropagation();
    },
  });
  const number = (/** @type {string} */ name, /** @type {string} */ label, /** @type {Record<string, any>} */ more) =>
    html("label", {}, label, html("input", { type: "number", name, ...more }));
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[]} */ values) =>
    html("label", {}, label, html("select", { name }, ...values.map((value) => html("option", { value }, value))));
  const longest = about.model?.longest ?? 4096;
  const stacks = about.model?.stacks ?? ["encoder"];
  const options = html(
    "details", { class: "options" }, html("summary", {}, "Options"),
    html("div", {},
      number("window", "tokens in the window", { min: 4, max: Math.min(longest, 4096), value: about.model?.window ?? 128 }),
      number("start", "starting with token", { min: 0, value: 0 }),
      choice("similarity", "similarity", ["dot", "cosine"]), choice("scale", "levels by", ["max", "rank"]), choice("repeated", "repeated", ["token", "word"]),
      stacks.length > 1 ? choice("stack", "attention of", stacks) : null,
      html("label", {}, html("input", { type: "checkbox", name: "special" }), "special tokens count"),
      html("label", {}, "language", html("input", { name: "language", value: about.defaults?.language ?? "en", size: 3, pattern: "[a-z]{2,3}" }))),
  );
  const look = html("button", { type: "submit", class: "primary" }, "Look");
  const form = html("form", { class: "asking", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const asked = asking();
    // A new text begins at its whole matrix, with no token kept.
    store.set({ text: area.value, id: "", options: asked, token: -1, x: 0, y: 0, n: 0 });
  } }, area, html("div", { class: "buttons" }, look, options));
  form.hidden = !source.inspect;

  /** The options that differ from how the viewer was started. */
  function asking() {
    const usual = { window: about.model?.window ?? 128, start: 0, similarity: "dot", scale: "max", repeated: "token", special: false, language: "en", stack: stacks[0], ...about.defaults };
    /** @type {Record<string, any>} */
    const found = {};
    for (const field of /** @type {NodeListOf<any>} */ (form.querySelectorAll("[name]"))) {
      const value = field.type === "checkbox" ? field.checked : field.type === "number" ? Number(field.value) : field.value;
      if (value !== /** @type {any} */ (usual)[field.name] && value !== "") found[field.name] = value;
    }
    return found;
  }

  const group = `show-${Math.random().toString(36).slice(2)}`; // several viewers may be on one page
  const switches = SHOWN.map((name, k) => {
    const radio = html("input", { type: "radio", name: group, value: name, onchange: () => store.set({ show: name }) });
    return html("label", { title: `${k + 1}` }, radio, html("span", {}, NAMES[name]));
  });
  const tau = html("input", { type: "range", min: 1, max: 19, step: 1, "aria-label": "τ: the level from which a pair is similar", oninput: () => store.set({ tau: Number(tau.value) }) });
  const theta = html("input", { type: "range", min: 0, max: 0.95, step: 0.01, "aria-label": "θ: the attention from which a token is attended", oninput: () => store.set({ theta: Number(theta.value) }) });
  const [tauShown, thetaShown] = [html("output", {}), html("output", {})];
  const toggle = (/** @type {"mask" | "arcs"} */ key, /** @type {string} */ label, /** @type {string} */ title) =>
    html("label", { class: "toggle", title }, html("input", { type: "checkbox", "data-key": key, onchange: (/** @type {Event} */ event) => store.set({ [key]: /** @type {HTMLInputElement} */ (event.target).checked }) }), label);
  const save = (/** @type {string} */ kind, /** @type {string} */ label) => html("button", { type: "button", "data-save": kind, onclick: () => void take(kind) }, label);
  const exporting = html("details", { class: "menu" }, html("summary", {}, "Export"),
    html("div", {}, save("svg", "SVG picture"), save("png", "PNG picture"), save("csv", "CSV of similar pairs"), source.download ? save("nc", ".nc, everything") : null, save("link", "Copy link to this view")));
  const controls = html("div", { class: "controls" },
    html("fieldset", { class: "switch" }, html("legend", {}, "What the matrix shows"), ...switches),
    html("label", { class: "slider" }, html("span", {}, "τ"), tau, tauShown),
    html("label", { class: "slider" }, html("span", {}, "θ"), theta, thetaShown),
    toggle("mask", "mask", "mark the tokens that receive more than θ of the largest attention among those that count (m)"),
    toggle("arcs", "arcs", "draw the strongest pairs over the text (a)"),
    exporting);

  // ------------------------------------------------------------------ atlas

  const sorting = html("select", { "aria-label": "Score", onchange: () => store.set({ score: sorting.value }) });
  const ranked = html("input", { type: "checkbox", onchange: () => store.set({ ranked: ranked.checked }) });
  const meaning = html("p", { class: "note" });
  const atlasHolder = html("div", { class: "atlas-holder" });
  const side = html("aside", { "aria-label": "Atlas of heads" },
    html("div", { class: "panel-header" }, html("h2", {}, "All heads"), html("label", { class: "toggle" }, ranked, "sort")), sorting, meaning, atlasHolder,
    html("p", { class: "note" }, "Rows are layers. Click, or use the arrow keys."));
  const panels = html("div", { class: "panels" }, panel.root);
  const root = html("div", { class: "text-page" }, form, controls, html("div", { class: "columns" }, side, panels));

  /**
   * @param {Text} shown_
   * @param {string} score
   * @param {number} layer
   * @param {number} head
   */
  function scoreOf(shown_, score, layer, head) {
    const found = layers.get(layer);
    const place = shown_.scores.findIndex((each) => each.name === score);
    if (!found || place < 0) return NaN;
    return /** @type {Float64Array} */ (found.scores.data)[(place * STEPS + store.get().tau - 1) * shown_.heads + head];
  }

  /** @returns {Tile[]} */
  function tiles() {
    const shown_ = text;
    if (!shown_) return [];
    const state = store.get();
    return shown_.layers.flatMap((layer) =>
      Array.from({ length: shown_.heads }, (_, head) => {
        const found = layers.get(layer);
        const focal = found ? found.focal.data[(state.tau - 1) * shown_.heads + head] : -1;
        return {
          layer, head, score: scoreOf(shown_, state.score, layer, head),
          title: focal >= 0 ? `focal token: ${shown_.same_labels[focal]}` : "",
          paint: (/** @type {HTMLCanvasElement} */ canvas, /** @type {"light" | "dark"} */ colours) => {
            if (!found) return;
            const [, cells] = found.thumbs.shape;
            paintThumbnail(canvas, /** @type {Uint8Array} */ (found.thumbs.data).subarray(head * cells * cells, (head + 1) * cells * cells), cells, colours);
          },
        };
      }),
    );
  }

  function arrange() {
    const state = store.get();
    const score = text?.scores.find((each) => each.name === state.score);
    atlas?.arrange(tiles(), state.ranked, score);
    refill(meaning, score?.meaning ?? "");
    scoresOfPanels();
  }

  function scoresOfPanels() {
    const state = store.get();
    const line = (/** @type {number} */ layer, /** @type {number} */ head) =>
      (text?.scores ?? []).map((each) => /** @type {[string, string]} */ ([each.label, shown(text ? scoreOf(text, each.name, layer, head) : NaN, each.name === "high_pairs" ? 0 : 2)]));
    panel.scores(line(state.layer, state.head));
    if (pinned && state.pin) pinned.scores(pinnedText === text?.id ? line(state.pin.layer, state.pin.head) : []);
  }

  let later = 0;
  /** Sliders move fast; the atlas follows when they rest. */
  function arrangeSoon() {
    clearTimeout(later);
    later = window.setTimeout(arrange, 120);
  }

  // ------------------------------------------------------------------ reading texts

  /**
   * A text by its name; a text that is not in memory any more is read again.
   * @param {string} id
   * @param {string} words
   * @param {Record<string, any>} asked
   * @returns {Promise<Text>}
   */
  async function fetchText(id, words, asked) {
    if (id) {
      try {
        return await source.get(`texts/${id}`);
      } catch (error) {
        if (!(error instanceof Refusal) || error.status !== 404 || !source.inspect || !words) throw error;
      }
    }
    if (!source.inspect) throw new Error("This text is not in the file.");
    return await source.inspect({ text: words, ...asked });
  }

  async function readText() {
    const turn = ++reading;
    const state = store.get();
    look.disabled = true;
    root.setAttribute("aria-busy", "true");
    try {
      const asked = state.id || state.text ? state : about.first;
      if (!asked) return; // a run without a text: one can be typed
      const next = await fetchText(asked.id, asked.text, state.options);
      if (turn !== reading) return;
      const first = text === null;
      const other = text?.id !== next.id;
      text = next;
      if (first || !area.matches(":focus")) area.value = next.texts[0] ?? "";
      const layer = next.layers.includes(state.layer) ? state.layer : next.layers[next.layers.length - 1];
      const head = state.head >= 0 && state.head < next.heads ? state.head : 0;
      refill(sorting, ...next.scores.map((each) => html("option", { value: each.name }, each.label)));
      sorting.value = next.scores.some((each) => each.name === state.score) ? state.score : next.scores[0].name;
      if (other || first) {
        layers.clear();
        atlas = atlasView({ layers: next.layers, heads: next.heads, label: "Heads: a row for each layer", onpick: (l, h) => store.set({ layer: l, head: h }) });
        refill(atlasHolder, atlas.grid);
        arrange();
      }
      atlas?.choose(layer, head);
      tell(`${next.model} · ${next.stack} · ${next.shown}${next.texts.length > 1 ? " · a pair of texts" : ""}`);
      store.set({ id: next.id, text: next.texts[0] ?? "", layer, head });
      await panel.show(next, layer, head);
      if (other || first) await fillAtlas(next, turn);
    } catch (error) {
      if (turn === reading) fail(error);
    } finally {
      if (turn === reading) {
        look.disabled = false;
        root.removeAttribute("aria-busy");
      }
    }
  }

  /**
   * Layer by layer, the one that is looked at first.
   * @param {Text} next
   * @param {number} turn
   */
  async function fillAtlas(next, turn) {
    const order = [...next.layers].sort((a, b) => Math.abs(a - store.get().layer) - Math.abs(b - store.get().layer));
    const one = async () => {
      for (let layer = order.shift(); layer !== undefined && turn === reading; layer = order.shift()) {
        const found = await source.get(`texts/${next.id}/layers/${layer}`);
        if (turn !== reading) return;
        layers.set(layer, found);
        atlas?.paint(tiles().filter((tile) => tile.layer === layer), theme());
        if (layer === store.get().layer) scoresOfPanels();
      }
    };
    await Promise.all([one(), one()]);
    if (turn === reading) {
      arrange();
      root.dataset.ready = next.id;
    }
  }

  async function readPin() {
    const { pin, options: asked } = store.get();
    if (!pin) {
      pinned?.root.remove();
      pinned?.close();
      pinned = null;
      pinnedText = "";
      panels.classList.remove("two");
      panel.redraw();
      return;
    }
    try {
      const next = await fetchText(pin.id, pin.text, asked);
      if (store.get().pin !== pin) return;
      pinned ??= panelView({
        source, store, theme, pinned: true, onhover: (hover) => share(hover, pinnedText), onstep: () => {}, onpin: () => store.set({ pin: null }),
      });
      pinnedText = next.id;
      panels.classList.add("two");
      if (!pinned.root.isConnected) panels.append(pinned.root);
      const [layer, head] = [next.layers.includes(pin.layer) ? pin.layer : next.layers[0], Math.min(pin.head, next.heads - 1)];
      await pinned.show(next, layer, head);
      scoresOfPanels();
    } catch (error) {
      fail(error);
      store.set({ pin: null });
    }
  }

  /**
   * @param {number} down
   * @param {number} along
   */
  function move(down, along) {
    if (!text) return;
    const state = store.get();
    const row = text.layers.indexOf(state.layer) + down;
    const head = state.head + along;
    if (row < 0 || row >= text.layers.length || head < 0 || head >= text.heads) return;
    store.set({ layer: text.layers[row], head });
  }

  /** @param {string} kind */
  async function take(kind) {
    exporting.open = false;
    const current = panel.current();
    if (!current || !text) return;
    const state = store.get();
    const name = `headscope-layer${state.layer}-head${state.head}`;
    try {
      if (kind === "csv") saveFile(new Blob([pairsAsCsv(current, state)], { type: "text/csv;charset=utf-8" }), `${name}.csv`);
      if (kind === "nc" && source.download) saveFile(await source.download(`texts/${text.id}/inspection.nc`), "inspection.nc");
      if (kind === "link") {
        await navigator.clipboard.writeText(location.href);
        tell("The link to this view is copied.");
      }
      if (kind !== "svg" && kind !== "png") return;
      const svg = pictureAsSvg(current, state, { matrix: panel.matrix, root: panel.root, theme: theme() });
      if (kind === "svg") saveFile(new Blob([svg], { type: "image/svg+xml" }), `${name}.svg`);
      else saveFile(await svgAsPng(svg), `${name}.png`);
    } catch (error) {
      fail(error);
    }
  }

  function showControls() {
    const state = store.get();
    tau.value = String(state.tau);
    theta.value = String(state.theta);
    tauShown.value = (state.tau / 20).toFixed(2);
    thetaShown.value = state.theta.toFixed(2);
    for (const each of switches) {
      const radio = /** @type {HTMLInputElement} */ (each.querySelector("input"));
      radio.checked = radio.value === state.show;
    }
    for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (controls.querySelectorAll("[data-key]"))) {
      box.checked = state[/** @type {"mask" | "arcs"} */ (box.dataset.key)];
    }
    ranked.checked = state.ranked;
    if (sorting.options.length) sorting.value = state.score;
  }

  /**
   * @param {State} state
   * @param {State} before
   */
  function changed(state, before) {
    if (state.page !== "text") return;
    showControls();
    const own = (/** @type {(keyof State)[]} */ ...keys) => keys.some((key) => state[key] !== before[key]);
    if ((own("id") && state.id !== text?.id) || (own("text") && state.text !== text?.texts[0]) || (own("options") && !state.id)) {
      void readText();
    } else if (own("layer", "head") && text) {
      atlas?.choose(state.layer, state.head);
      panel.show(text, state.layer, state.head).catch(fail);
      scoresOfPanels();
    }
    if (own("show") && state.show === "attention") {
      panel.needMap().catch(fail);
      pinned?.needMap().catch(fail);
    }
    if (own("pin")) void readPin();
    if (own("tau")) arrangeSoon();
    if (own("score", "ranked")) arrange();
    if (own("theme")) atlas?.paint(tiles().filter((tile) => layers.has(tile.layer)), theme());
    if (own("tau", "theta", "show", "mask", "arcs", "token", "x", "y", "n", "theme")) {
      panel.redraw();
      pinned?.redraw();
    }
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    const state = store.get();
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => (event.shiftKey ? panel.matrix.pan(-1, 0) : move(0, -1)), ArrowRight: () => (event.shiftKey ? panel.matrix.pan(1, 0) : move(0, 1)),
      ArrowUp: () => (event.shiftKey ? panel.matrix.pan(0, -1) : move(-1, 0)), ArrowDown: () => (event.shiftKey ? panel.matrix.pan(0, 1) : move(1, 0)),
      "[": () => store.set({ tau: Math.max(1, state.tau - 1) }), "]": () => store.set({ tau: Math.min(19, state.tau + 1) }),
      m: () => store.set({ mask: !state.mask }), a: () => store.set({ arcs: !state.arcs }),
      p: () => (text ? store.set({ pin: state.pin ? null : { id: text.id, text: state.text, layer: state.layer, head: state.head } }) : undefined),
      "+": () => panel.matrix.zoom(0.6), "-": () => panel.matrix.zoom(1 / 0.6), "0": () => panel.matrix.whole(), Escape: () => store.set({ token: -1 }),
    };
    SHOWN.forEach((name, k) => (keys[String(k + 1)] = () => store.set({ show: name })));
    if (!(event.key in keys)) return false;
    keys[event.key]();
    return true;
  }

  store.on(changed);
  showControls();
  return {
    root,
    key,
    begin: async () => {
      await readText();
      if (store.get().pin) await readPin();
    },
    begun: () => text !== null,
    repaint: () => {
      atlas?.paint(tiles().filter((tile) => layers.has(tile.layer)), theme());
      panel.redraw();
      pinned?.redraw();
    },
    close: () => {
      reading = -1;
      panel.close();
      pinned?.close();
    },
  };
}
