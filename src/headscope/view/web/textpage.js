// One text: what every head makes of it.

import { askingForm } from "./asking.js";
import { controlBar } from "./controls.js";
import { bringIntoView, html } from "./dom.js";
import { pairsAsCsv, pictureAsSvg, saveFile, svgAsPng } from "./exports.js";
import { readingOf } from "./head.js";
import { panelView } from "./panel.js";
import { Refusal } from "./source.js";
import { differing, SHOWN, written } from "./state.js";
import { scoreList, textAtlas } from "./textatlas.js";

/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */

const USUAL = ["dot", "cosine"]; // readings in a file that is saved

/**
 * @param {{
 *   source: Source, store: Store, about: any, theme: () => "light" | "dark",
 *   tell: (message: string, kind?: string) => void, fail: (error: unknown) => void, onphone: () => void,
 * }} spec
 */
export function textPage({ source, store, about, theme, tell, fail, onphone }) {
  /** @type {Text | null} */
  let text = null;
  let turns = 0;
  /** A text that is read again for another window or stack: the server may hold more of it than can be sent. */
  let again = { id: "", text: "" };

  const panel = panelView({
    source,
    store,
    theme,
    pinned: false,
    onhover: (hover) => share(hover, text?.id),
    onstep: move,
    onread: (name) => store.set({ reading: name }),
    onpin: pinThis,
    onall: () => {
      bringIntoView(atlas.side, panel.root);
      atlas.focus();
    },
  });
  /** @type {ReturnType<typeof panelView> | null} */
  let pinned = null;
  let pinnedText = "";
  /** @type {((state: State) => [string, string][]) | null} */
  let pinnedScores = null;
  const asking = askingForm({
    about,
    // A new text begins with its whole matrix, and no token kept.
    onask: (words, options) => {
      const { stack } = store.get().options;
      again = { id: "", text: "" };
      ask(words, stack ? { ...options, stack } : options);
    },
    onwindow: (start) => askAgain({ start }),
  });
  asking.form.hidden = !source.inspect;
  const controls = controlBar({
    store,
    readings: about.readings,
    onstack: source.inspect ? (stack) => askAgain({ stack }) : null,
    onsave: (kind) => void take(kind),
    saves: [
      ["svg", "SVG picture"],
      ["png", "PNG picture"],
      ["csv", "CSV of similar pairs"],
      ...(source.download ? [/** @type {[string, string]} */ (["nc", ".nc file, everything"])] : []),
      ...(source.save ? [/** @type {[string, string]} */ (["html", "One HTML file of this view"])] : []),
      ...(source.home === "notebook" ? [] : [/** @type {[string, string]} */ (["link", "Copy link to this view"])]),
      ...(source.phone ? [/** @type {[string, string]} */ (["phone", "Open on a phone …"])] : []),
    ],
  });
  const atlas = textAtlas({
    source,
    store,
    theme,
    onscores: showScores,
    onpressed: () => bringIntoView(panel.root, atlas.side),
  });
  const panels = html("div", { class: "panels" }, panel.root);
  const root = html(
    "div",
    { class: "text-page" },
    asking.form,
    controls.bar,
    html("div", { class: "columns" }, atlas.side, panels),
  );

  /**
   * Two panels with the same text point at the same token.
   * @param {{i: number, j: number}} hover
   * @param {string | undefined} id
   */
  function share(hover, id) {
    if (id === text?.id) panel.hover(hover);
    if (id === pinnedText) pinned?.hover(hover);
  }

  function showScores() {
    const { layer, head, pin } = store.get();
    panel.scores(atlas.scores(layer, head));
    if (pinned && pin && pinnedScores) pinned.scores(pinnedScores(store.get()));
  }

  // ------------------------------------------------------------------ reading texts

  /**
   * A text by its name; a text that is not in memory any more is read again.
   * @param {string} id
   * @param {string} words
   * @param {Record<string, any>} options
   * @returns {Promise<Text>}
   */
  async function fetchText(id, words, options) {
    if (!id && again.id && again.text === words && source.inspect) {
      try {
        return await source.inspect({ again: again.id, ...options });
      } catch (error) {
        if (!(error instanceof Refusal) || error.status !== 404) throw error;
      }
    }
    if (id) {
      try {
        return await source.get(`texts/${id}`);
      } catch (error) {
        if (!(error instanceof Refusal) || error.status !== 404 || !source.inspect || !words) throw error;
      }
    }
    if (!source.inspect) throw new Error("This text is not in the file.");
    return await source.inspect({ text: words, ...options });
  }

  /**
   * Do something in a turn of its own; whatever was under way before is not wanted any more.
   * @param {(wanted: () => boolean) => Promise<void>} work
   */
  async function inTurn(work) {
    const turn = ++turns;
    const wanted = () => turn === turns;
    asking.wait(true);
    root.setAttribute("aria-busy", "true");
    try {
      await work(wanted);
    } catch (error) {
      if (wanted()) fail(error);
    } finally {
      if (wanted()) {
        asking.wait(false);
        root.removeAttribute("aria-busy");
      }
    }
  }

  /**
   * Have a text read. A new one begins with its whole matrix, and no token kept.
   * @param {string} words
   * @param {Record<string, any>} options
   */
  function ask(words, options) {
    const asked = store.get().asked + 1; // the same text may be sent again
    store.set({ text: words, id: "", options, asked, token: -1, x: 0, y: 0, n: 0 });
  }

  /**
   * The same text read in another way.
   * @param {Record<string, any>} options those that change
   */
  function askAgain(options) {
    if (!text) return;
    again = { id: text.id, text: text.texts[0] ?? "" };
    ask(again.text, { ...store.get().options, ...options });
  }

  /**
   * No text could be read: what went wrong stands in its place, and nothing of another text.
   * @param {unknown} error
   */
  function lose(error) {
    text = null;
    asking.clear();
    root.classList.add("without");
    tell(about.model?.name ?? "");
    fail(error);
  }

  const readText = () =>
    inTurn(async (wanted) => {
      const state = store.get();
      const asked = state.id || state.text || state.asked ? state : about.first;
      if (!asked) return; // a run without a text: one can be typed
      tell("Reading the text …", "busy");
      let next;
      try {
        next = await fetchText(asked.id, asked.text, state.options);
      } catch (error) {
        if (wanted()) lose(error);
        return;
      }
      if (!wanted()) return;
      root.classList.remove("without");
      const other = text?.id !== next.id;
      text = next;
      asking.fill(next);
      const layer = next.layers.includes(state.layer) ? state.layer : next.layers[next.layers.length - 1];
      const head = state.head >= 0 && state.head < next.heads ? state.head : 0;
      const score = next.scores.some((each) => each.name === state.score) ? state.score : next.scores[0].name;
      const reading = readingOf(next, state.reading);
      store.set({ id: next.id, text: next.texts[0] ?? "", layer, head, reading, score });
      controls.follow(next);
      if (other) atlas.begin(next);
      atlas.follow();
      atlas.choose(layer, head);
      const unknown = next.tokens.unknown.filter(Boolean).length;
      const strange = unknown ? ` · ${unknown} of them unknown to this model, which cannot tell one from another` : "";
      tell(
        `${next.model} · ${next.stack} · ${next.shown}${next.texts.length > 1 ? " · a pair of texts" : ""}${strange}`,
      );
      await panel.show(next, layer, head, reading);
      await atlas.fill(next, reading, wanted);
      if (!wanted()) return;
      [root.dataset.ready, root.dataset.reading] = [next.id, reading];
      panel.needBoundaries().catch(fail);
    });

  /** The same text in another reading: its panel, then its atlas. */
  const readAgain = () =>
    inTurn(async (wanted) => {
      if (!text) return;
      const { layer, head, reading: asked } = store.get();
      const reading = readingOf(text, asked);
      await panel.show(text, layer, head, reading);
      tell("", "calm");
      await atlas.fill(text, reading, wanted);
      if (wanted()) root.dataset.reading = reading;
    });

  async function readPin() {
    const { pin, options } = store.get();
    if (!pin) {
      pinned?.root.remove();
      pinned?.close();
      [pinned, pinnedText] = [null, ""];
      panels.classList.remove("two");
      panel.redraw();
      return;
    }
    try {
      const next = await fetchText(pin.id, pin.text, options);
      if (store.get().pin !== pin) return;
      pinned ??= panelView({
        source,
        store,
        theme,
        pinned: true,
        onhover: (hover) => share(hover, pinnedText),
        onstep: () => {},
        onread: (name) => {
          const { pin: now } = store.get();
          if (now) store.set({ pin: { ...now, reading: name } });
        },
        onpin: () => store.set({ pin: null }),
      });
      pinnedText = next.id;
      panels.classList.add("two");
      if (!pinned.root.isConnected) panels.append(pinned.root);
      const layer = next.layers.includes(pin.layer) ? pin.layer : next.layers[0];
      const head = Math.min(pin.head, next.heads - 1);
      const reading = readingOf(next, pin.reading);
      pinnedScores = (now) => scoreList(next, undefined, head, now); // not known yet
      showScores();
      await pinned.show(next, layer, head, reading);
      const tensors = await source.get(`texts/${next.id}/${reading}/layers/${layer}`);
      if (store.get().pin !== pin) return;
      pinnedScores = (now) => scoreList(next, tensors, head, now);
      showScores();
      pinned.needBoundaries().catch(fail);
    } catch (error) {
      fail(error);
      store.set({ pin: null });
    }
  }

  // ------------------------------------------------------------------ what the reader does

  function pinThis() {
    const { text: words, layer, head, reading: asked } = store.get();
    if (text) store.set({ pin: { id: text.id, text: words, layer, head, reading: readingOf(text, asked) } });
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

  function nextReading() {
    if (!text) return;
    const { readings } = text;
    const place = readings.indexOf(readingOf(text, store.get().reading)) + 1;
    store.set({ reading: readings[place % readings.length] });
  }

  /**
   * The page with this text, and a pinned one, in the readings of the command line and those that are looked at.
   * @param {string} name
   */
  async function saveAsFile(name) {
    if (!source.save || !text) return;
    const state = store.get();
    const readings = new Set([readingOf(text, state.reading), ...(state.pin ? [state.pin.reading] : []), ...USUAL]);
    const texts = [...new Set([text.id, ...(pinnedText ? [pinnedText] : [])])];
    const asked = {
      texts,
      readings: [...readings].filter((each) => text?.readings.includes(each)),
      address: written(state),
    };
    tell("Writing the file …", "busy");
    const file = await source.save(asked, (done, of) => tell(`Writing the file: ${done} of ${of || "…"}`, "busy"));
    saveFile(file, `${name}.html`);
    tell(`The file is written: ${(file.size / 1e6).toFixed(1)} MB, it opens in any browser.`);
  }

  /** @param {string} kind */
  async function take(kind) {
    const current = panel.current();
    if (!current || !text) return;
    const state = store.get();
    const reading = readingOf(text, state.reading);
    const name = `headscope-layer${state.layer}-head${state.head}-${reading}`;
    try {
      const beside = pinned?.current();
      if (kind === "csv") {
        saveFile(new Blob([pairsAsCsv(current, state)], { type: "text/csv;charset=utf-8" }), `${name}.csv`);
      } else if (kind === "nc" && source.download) {
        saveFile(await source.download(`texts/${text.id}/${reading}/inspection.nc`), "inspection.nc");
      } else if (kind === "html") {
        await saveAsFile(name);
      } else if (kind === "phone") {
        onphone();
      } else if (kind === "link") {
        // A page that came over a network, unencrypted, may not write to the clipboard; its address bar has the link.
        if (!navigator.clipboard) return tell("The link is in the browser's address bar; copy it from there.");
        await navigator.clipboard.writeText(location.href);
        tell("The link to this view is copied.");
      } else {
        const views = [panel, ...(pinned && beside ? [pinned] : [])];
        const svg = pictureAsSvg(views, state, theme());
        if (kind === "svg") saveFile(new Blob([svg], { type: "image/svg+xml" }), `${name}.svg`);
        else saveFile(await svgAsPng(svg), `${name}.png`);
      }
    } catch (error) {
      fail(error);
    }
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    const state = store.get();
    const { matrix } = panel;
    const arrow = (/** @type {number} */ down, /** @type {number} */ along) => () =>
      event.shiftKey ? matrix.pan(along, down) : move(down, along);
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: arrow(0, -1),
      ArrowRight: arrow(0, 1),
      ArrowUp: arrow(-1, 0),
      ArrowDown: arrow(1, 0),
      "[": () => store.set({ tau: Math.max(1, state.tau - 1) }),
      "]": () => store.set({ tau: Math.min(19, state.tau + 1) }),
      t: () => store.set({ top: !state.top }),
      m: () => store.set({ mask: !state.mask }),
      a: () => store.set({ arcs: !state.arcs }),
      r: nextReading,
      ",": () => asking.turn("before"),
      ".": () => asking.turn("after"),
      p: () => (state.pin ? store.set({ pin: null }) : pinThis()),
      "+": () => matrix.zoom(0.6),
      "-": () => matrix.zoom(1 / 0.6),
      0: () => matrix.whole(),
      Escape: () => store.set({ token: -1 }),
    };
    SHOWN.forEach((name, k) => (keys[String(k + 1)] = () => store.set({ show: name })));
    if (!(event.key in keys)) return false;
    keys[event.key]();
    return true;
  }

  /**
   * @param {State} state
   * @param {State} before
   */
  function changed(state, before) {
    if (state.page !== "text") return;
    const own = differing(state, before);
    controls.follow(text);
    atlas.follow();
    if (own("asked") || (own("id") && state.id !== text?.id) || (own("text") && state.text !== text?.texts[0])) {
      void readText();
    } else if (text) {
      const reading = readingOf(text, state.reading);
      if (own("layer", "head")) atlas.choose(state.layer, state.head);
      if (reading !== readingOf(text, before.reading)) void readAgain();
      else if (own("layer", "head")) {
        void panel.show(text, state.layer, state.head, reading).then(() => tell("", "calm"));
        showScores();
      }
    }
    if (own("show") && state.show === "attention") {
      panel.needMap().catch(fail);
      pinned?.needMap().catch(fail);
    }
    if (own("pin")) void readPin();
    if (own("tau")) atlas.arrangeSoon();
    if (own("score", "ranked", "top")) atlas.arrange();
    if (own("theme")) atlas.repaint();
    if (own("tau", "theta", "show", "mask", "arcs", "top", "token", "x", "y", "n", "theme")) {
      panel.redraw();
      pinned?.redraw();
    }
  }

  store.on(changed);
  controls.follow(null);
  return {
    root,
    key,
    begin: async () => {
      await readText();
      if (store.get().pin) await readPin();
    },
    started: () => text !== null,
    repaint: () => {
      atlas.repaint();
      panel.redraw();
      pinned?.redraw();
    },
    close: () => {
      turns = -1;
      panel.close();
      pinned?.close();
    },
  };
}
