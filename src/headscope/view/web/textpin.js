// The panel beside a text's own: a head that is pinned, of the same text or of another, to compare with.

import { readingOf } from "./head.js";
import { panelView } from "./panel.js";
import { scoreList } from "./textatlas.js";

/** @typedef {import("./panel.js").Hover} Hover */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */

/**
 * @param {{
 *   source: Source, store: Store, theme: () => "light" | "dark", fail: (error: unknown) => void,
 *   texts: ReturnType<typeof import("./texts.js").textsOf>, panels: HTMLElement,
 *   onhover: (hover: Hover, id: string) => void, onscores: () => void,
 * }} spec
 */
export function textPin({ source, store, theme, fail, texts, panels, onhover, onscores }) {
  /** @type {ReturnType<typeof panelView> | null} */
  let panel = null;
  let id = ""; // of its text
  /** @type {((state: State) => [string, string][]) | null} */
  let scores = null;

  /** Show what is pinned, or let go of it. */
  async function read() {
    const { pin, options } = store.get();
    if (!pin) {
      panel?.root.remove();
      panel?.close();
      [panel, id] = [null, ""];
      panels.classList.remove("two");
      return;
    }
    try {
      const next = await texts.fetch(pin.id, pin.text, options);
      if (store.get().pin !== pin) return;
      panel ??= panelView({
        source,
        store,
        theme,
        pinned: true,
        onhover: (hover) => onhover(hover, id),
        onstep: () => {},
        onread: (name) => {
          const { pin: now } = store.get();
          if (now) store.set({ pin: { ...now, reading: name } });
        },
        onpin: () => store.set({ pin: null }),
      });
      id = next.id;
      panels.classList.add("two");
      if (!panel.root.isConnected) panels.append(panel.root);
      const layer = next.layers.includes(pin.layer) ? pin.layer : next.layers[0];
      const head = Math.min(pin.head, next.heads - 1);
      const reading = readingOf(next, pin.reading);
      scores = (now) => scoreList(next, undefined, head, now); // not known yet
      onscores();
      await panel.show(next, layer, head, reading);
      const tensors = await source.get(`texts/${next.id}/${reading}/layers/${layer}`);
      if (store.get().pin !== pin) return;
      scores = (now) => scoreList(next, tensors, head, now);
      onscores();
      panel.needBoundaries().catch(fail);
    } catch (error) {
      fail(error);
      store.set({ pin: null });
    }
  }

  return {
    read,
    /** The panel and the name of its text, where anything is pinned. */
    now: () => (panel ? { panel, id } : null),
    showScores: () => {
      if (panel && store.get().pin && scores) panel.scores(scores(store.get()));
    },
  };
}
