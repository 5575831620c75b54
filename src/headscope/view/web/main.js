// Where the viewer begins: on its own page, in a single file, or in a notebook's cell.

import { byTouch, html, refill } from "./dom.js";
import { phoneDialog } from "./phone.js";
import { runPage } from "./runpage.js";
import { fileSource, kernelSource, serverSource } from "./source.js";
import { beginning, read, store, written } from "./state.js";
import { STYLE } from "./style.js";
import { textPage } from "./textpage.js";

/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").State} State */

const HELP = [
  ["← → ↑ ↓", "the head, the layer"],
  ["Shift and arrows", "move a zoomed matrix"],
  ["+ − 0", "zoom in, out, all"],
  ["1 … 5", "similarity, level, attention, received, norms"],
  ["r", "the next reading"],
  ["[ ]", "τ down, up"],
  ["t", "the top pairs, instead of those from τ on"],
  ["m", "mask of high attention"],
  ["a", "arcs"],
  ["p", "pin this head beside, or let it go"],
  [", .", "the previous, the next window of the text"],
  ["Esc", "let go of the token"],
  ["Tab", "from part to part; arrows within"],
];

/** @param {unknown} error */
function worded(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Whether the page around is dark. Notebooks say so in their own ways, whatever the system prefers.
 * @param {MediaQueryList} system
 */
function darkAround(system) {
  const { body, documentElement } = document;
  const { jpThemeLight, vscodeThemeKind, theme } = body.dataset; // JupyterLab; VS Code; marimo
  if (jpThemeLight) return jpThemeLight === "false";
  if (vscodeThemeKind) return vscodeThemeKind === "vscode-dark" || vscodeThemeKind === "vscode-high-contrast";
  const named = theme ?? documentElement.getAttribute("theme"); // Colab
  return named === "dark" || named === "light" ? named === "dark" : system.matches;
}

/**
 * Show the viewer in an element.
 * @param {HTMLElement} place
 * @param {Source} asked
 * @param {{
 *   state: Partial<State>, keep: (address: string, anew: boolean) => void, whole: boolean, meanwhile?: HTMLElement | null,
 * }} options
 */
export async function mount(place, asked, { state: given, keep, whole, meanwhile = null }) {
  const shadow = place.shadowRoot ?? place.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  shadow.adoptedStyleSheets = [sheet];
  const bar = html("p", { class: "telling", role: "status" }, "…");
  const problem = html("p", { class: "problem", role: "alert", hidden: true });
  const main = html("main", {});
  const root = html("div", { class: whole ? "headscope whole" : "headscope", tabindex: "-1" });
  shadow.replaceChildren(root);
  refill(root, meanwhile); // until somebody answers, which in a notebook without a kernel is never

  /** @type {any} */
  let about;
  try {
    about = await asked.get("about");
  } catch (error) {
    refill(root, html("p", { class: "problem" }, worded(error)));
    return { close: () => {} };
  }
  // Where no model is at hand, nothing that needs one is offered.
  const source = about.can_inspect ? asked : { ...asked, inspect: null };
  const state = store({
    ...beginning(),
    page: about.run && !about.texts.length ? "run" : "text",
    ...about.state,
    ...read(about.address ?? ""),
    ...given,
  });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  /** @returns {"light" | "dark"} */
  const theme = () => {
    const wanted = state.get().theme;
    return wanted === "auto" ? (darkAround(dark) ? "dark" : "light") : wanted;
  };
  const tell = (/** @type {string} */ message, kind = "") => {
    problem.hidden = kind !== "error";
    if (kind === "calm") return; // whatever went wrong is over
    refill(kind === "error" ? problem : bar, message);
    bar.classList.toggle("busy", kind === "busy");
  };
  const fail = (/** @type {unknown} */ error) => {
    bar.classList.remove("busy");
    tell(worded(error), "error");
  };
  const phone = phoneDialog(source);
  const onphone = () => void phone.open(written(state.get())).catch(fail);
  const spec = { source, store: state, about, theme, tell, fail, onphone };
  const pages = { text: textPage(spec), run: about.run ? runPage(spec) : null };

  const tab = (/** @type {"text" | "run"} */ name, /** @type {string} */ label) =>
    html("button", { type: "button", role: "tab", "data-page": name, onclick: () => state.set({ page: name }) }, label);
  const canRead = source.inspect !== null || about.texts.length > 0;
  const tabs =
    about.run && canRead
      ? html(
          "div",
          { role: "tablist", class: "tabs", "aria-label": "What to look at" },
          tab("run", "Collection"),
          tab("text", "One text"),
        )
      : null;
  const help = html(
    "dialog",
    { class: "help", "aria-label": "Keys" },
    html("h2", {}, "Keys"),
    html("dl", {}, ...HELP.flatMap(([keys, meaning]) => [html("dt", {}, keys), html("dd", {}, meaning)])),
    html("form", { method: "dialog" }, html("button", {}, "Close")),
  );
  const colours = html(
    "button",
    {
      type: "button",
      class: "small",
      "aria-label": "light or dark",
      title: "light or dark",
      onclick: () => state.set({ theme: theme() === "dark" ? "light" : "dark" }),
    },
    "◐",
  );
  refill(
    root,
    html(
      "header",
      {},
      html("strong", { class: "name" }, "headscope"),
      tabs,
      bar,
      html(
        "div",
        { class: "buttons" },
        colours,
        byTouch()
          ? null // what there is to tap can be seen
          : html(
              "button",
              { type: "button", class: "small", title: "keys (?)", onclick: () => help.showModal() },
              "keys",
            ),
      ),
    ),
    problem,
    main,
    help,
    phone.root,
  );

  function showPage() {
    const name = state.get().page === "run" && pages.run ? "run" : "text";
    const page = /** @type {NonNullable<typeof pages.text>} */ (pages[name]);
    root.dataset.theme = theme();
    if (page.root.parentNode !== main) refill(main, page.root);
    for (const each of tabs?.querySelectorAll("[role=tab]") ?? []) {
      each.setAttribute("aria-selected", String(each.getAttribute("data-page") === name));
    }
    if (!page.started()) return page.begin();
    return Promise.resolve();
  }

  let [later, anew, left] = [0, false, ""];
  state.on((now, before) => {
    clearTimeout(later);
    // Another text, page or reading is a step that one can go back from; anything else is the same place.
    anew ||= now.page !== before.page || (now.id !== before.id && now.id !== "" && left !== "" && now.id !== left);
    anew ||= before.reading !== "" && now.reading !== before.reading;
    left = now.id || left;
    later = window.setTimeout(() => {
      if (now.page === "text" && now.id === "" && left !== "") return; // on its way; the last one keeps its address
      keep(written(now), anew);
      anew = false;
    }, 150);
    if (now.theme !== before.theme) root.dataset.theme = theme();
    if (now.page !== before.page) void showPage();
  });
  const repaint = () => {
    root.dataset.theme = theme();
    pages.text.repaint();
    pages.run?.repaint();
  };
  dark.addEventListener("change", repaint);
  const around = new MutationObserver(() => root.dataset.theme !== theme() && repaint());
  for (const each of [document.body, document.documentElement]) {
    around.observe(each, { attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "data-theme", "theme"] });
  }

  /** @param {KeyboardEvent} event */
  const key = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || help.open || phone.root.open)
      return;
    const from = /** @type {HTMLElement} */ (event.composedPath()[0]);
    if (from.matches?.("textarea, select, summary, input:not([type=radio], [type=checkbox]), [contenteditable=true]"))
      return;
    if (from.matches?.("input[type=radio]") && event.key.startsWith("Arrow")) return; // from word to word of a switch
    if (event.key === "?") help.showModal();
    else {
      const page = state.get().page === "run" && pages.run ? pages.run : pages.text;
      if (!page.key(event)) return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  // A page of its own hears every key; in a notebook only those that are meant for it.
  const ear = whole ? document : root;
  ear.addEventListener("keydown", /** @type {EventListener} */ (key));
  // There, a key that stays unused would insert, cut or convert a cell: only those with a modifier go on.
  if (!whole) {
    root.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
    });
  }
  void showPage(); // which tells what goes wrong by itself; whoever mounts this need not wait for it
  return {
    state,
    close: () => {
      ear.removeEventListener("keydown", /** @type {EventListener} */ (key));
      dark.removeEventListener("change", repaint);
      around.disconnect();
      clearTimeout(later);
      pages.text.close();
      pages.run?.close();
    },
  };
}

// On its own page, whether served or a file. In a notebook there is no such element.
const home = document.getElementById("headscope");
if (home && (home.dataset.token || home.dataset.single)) {
  const source = home.dataset.single ? fileSource(document) : serverSource(home.dataset.token ?? "");
  void mount(home, source, {
    state: read(location.hash.slice(1)),
    keep: (address, anew) => {
      if (location.hash === `#${address}`) return;
      if (anew) history.pushState(null, "", `#${address}`);
      else history.replaceState(null, "", `#${address}`);
    },
    whole: true,
  }).then(({ state }) => {
    // Back, forward, or an address that was edited by hand.
    addEventListener("popstate", () => state?.set({ ...beginning(), ...read(location.hash.slice(1)) }));
  });
}

export default {
  /** @param {{model: any, el: HTMLElement}} cell */
  render({ model, el }) {
    const place = document.createElement("div");
    el.append(place);
    const source = kernelSource(model);
    const [picture, waits] = [model.get("picture"), "A picture, until the kernel answers; without one run the cell."];
    const mounted = mount(place, source, {
      meanwhile: picture
        ? html("figure", {}, html("img", { src: picture, alt: "" }), html("figcaption", { class: "note" }, waits))
        : null,
      state: read(model.get("state") ?? ""),
      keep: (address) => {
        model.set("state", address);
        model.save_changes();
      },
      whole: false,
    });
    return () => {
      source.close?.();
      place.remove();
      void mounted.then(({ close }) => close());
    };
  },
};
