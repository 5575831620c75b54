// One text: what every head makes of it.

import { askingForm } from "./asking.js";
import { controlBar } from "./controls.js";
import { bringIntoView, html, refill } from "./dom.js";
import { readingOf } from "./head.js";
import { panelView } from "./panel.js";
import { differing, SHOWN } from "./state.js";
import { textAtlas } from "./textatlas.js";
import { textBeginning } from "./textbeginning.js";
import { textExports } from "./textexports.js";
import { textPin } from "./textpin.js";
import { textsOf } from "./texts.js";

/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */

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
  const texts = textsOf(source, store);

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
  const asking = askingForm({
    about,
    onask: texts.ask,
    onwindow: (start) => text && texts.askAgain(text, { start }),
  });
  asking.form.hidden = !source.inspect;
  const exported = textExports({
    source,
    store,
    theme,
    seen: () => text && { text, panel, pinned: pinned.now() },
    tell,
    fail,
    onphone,
  });
  const controls = controlBar({
    store,
    readings: about.readings,
    onstack: source.inspect ? (stack) => text && texts.askAgain(text, { stack }) : null,
    saves: exported.saves,
    onsave: (kind) => void exported.take(kind),
  });
  const atlas = textAtlas({
    source,
    store,
    theme,
    onscores: showScores,
    onpressed: () => bringIntoView(panel.root, atlas.side),
  });
  const panels = html("div", { class: "panels" }, panel.root);
  const pinned = textPin({ source, store, theme, fail, texts, panels, onhover: share, onscores: showScores });
  const strange = html("p", { class: "warnings", role: "note" });
  const beginning = textBeginning(about, (words) => texts.ask(words, {}));
  const root = html(
    "div",
    { class: "text-page" },
    asking.form,
    beginning,
    strange,
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
    if (id === pinned.now()?.id) pinned.now()?.panel.hover(hover);
  }

  function showScores() {
    const { layer, head } = store.get();
    panel.scores(atlas.scores(layer, head));
    pinned.showScores();
  }

  // ------------------------------------------------------------------ reading texts

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
   * No text could be read: what went wrong stands in its place, and nothing of another text.
   * @param {unknown} error
   */
  function lose(error) {
    text = null;
    asking.clear();
    refill(strange);
    root.classList.add("without");
    tell(about.model?.name ?? "");
    fail(error);
  }

  const readText = () =>
    inTurn(async (wanted) => {
      const state = store.get();
      const asked = state.id || state.text || state.asked ? state : about.first;
      root.classList.toggle("unread", !asked);
      if (!asked) return tell("No text yet"); // a run without a text: one can be typed
      tell("Reading the text …", "busy");
      let next;
      try {
        next = await texts.fetch(asked.id, asked.text, state.options);
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
      const alike = unknown ? ` · ${unknown} of them unknown to this model, which cannot tell one from another` : "";
      refill(strange, next.unfamiliar);
      tell(`${next.model} · ${next.stack} · ${next.shown}${next.texts.length > 1 ? " · a pair of texts" : ""}${alike}`);
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
      pinned.now()?.panel.needMap().catch(fail);
    }
    if (own("pin")) {
      void pinned.read();
      if (!state.pin) panel.redraw();
    }
    if (own("tau")) atlas.arrangeSoon();
    if (own("score", "ranked", "top")) atlas.arrange();
    if (own("theme")) atlas.repaint();
    if (own("tau", "theta", "show", "mask", "arcs", "top", "token", "x", "y", "n", "theme")) {
      panel.redraw();
      pinned.now()?.panel.redraw();
    }
  }

  store.on(changed);
  controls.follow(null);
  return {
    root,
    key,
    begin: async () => {
      await readText();
      if (store.get().pin) await pinned.read();
    },
    started: () => text !== null,
    repaint: () => {
      atlas.repaint();
      panel.redraw();
      pinned.now()?.panel.redraw();
    },
    close: () => {
      turns = -1;
      panel.close();
      pinned.now()?.panel.close();
    },
  };
}
