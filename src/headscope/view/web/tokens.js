// The text itself, token by token, sentence by sentence; arcs between the tokens that a head finds most alike.

import { byTouch, headName, html, vector } from "./dom.js";
import { css, ink, palette, paletteOf, signed } from "./colours.js";
import { strongestOf } from "./shades.js";

/** @typedef {import("./head.js").Head} Head */
/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./state.js").State} State */
/**
 * A boundary between two sentences: the token before it, how strong it is, and the heads that say so with their shares.
 * @typedef {{token: number, sentence: number, strength: number, chosen: boolean, heads: number[][]}} Boundary
 */

const ARCS = 24; // pairs of a token that are drawn at once
const ARCS_OF_ALL = 12; // … of all tokens
const LONGEST_WORD = 8; // pieces that are kept in one line
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const LETTER = /\p{L}/u;

/**
 * @param {Text} text
 * @param {{onhover: (token: number) => void, onpick: (token: number) => void}} events
 */
export function tokensView(text, events) {
  const { label, category, sentence, part, word, start, end } = text.tokens;
  /** @type {HTMLElement[]} */
  const tokens = [];
  const first = label.find((each, k) => part[k] >= 0 && LETTER.test(each)) ?? "";
  const list = html("div", {
    class: "tokens",
    role: "listbox",
    "aria-label": "Tokens of the text",
    dir: RIGHT_TO_LEFT.test(first) ? "rtl" : "ltr",
  });
  const arcs = vector("svg", { class: "arcs", "aria-hidden": "true" });
  const frame = html("div", { class: "text" }, list, arcs);
  /** @type {HTMLElement | null} */
  let group = null;
  /** The pieces of a word, kept in one line. @type {HTMLElement | null} */
  let whole = null;
  let before = NaN;
  label.forEach((each, k) => {
    if (sentence[k] !== before || !group) {
      before = sentence[k];
      group = html("span", { class: before >= 0 ? `sentence ${before % 2 ? "odd" : "even"}` : "sentence special" });
      if (before >= 0) group.append(html("span", { class: "number", "aria-hidden": "true" }, before + 1));
      list.append(group);
    }
    // A piece that goes on with a word; WordPiece marks it, and the mark is left out here.
    const glued = k > 0 && word[k] >= 0 && word[k] === word[k - 1] && start[k] === end[k - 1] ? " piece" : "";
    const marked = glued && each.startsWith("##") && each.length > 2;
    const token = html(
      "span",
      {
        class: `token ${category[k]}${glued}`,
        role: "option",
        title: each,
        "data-place": k,
        tabindex: k ? -1 : 0,
        "aria-selected": "false",
        "aria-label": `${each}, token ${k}, ${category[k]}${before >= 0 ? `, sentence ${before + 1}` : ""}`,
      },
      html("bdi", {}, marked ? each.slice(2) : each),
    );
    tokens.push(token);
    if (!glued || !whole || whole.childElementCount >= LONGEST_WORD) {
      whole = html("span", { class: "word" });
      group.append(whole);
    }
    whole.append(token);
  });

  /** @param {Event} event */
  const which = (event) => {
    const token = /** @type {Element} */ (event.target).closest?.(".token");
    return token ? Number(token.getAttribute("data-place")) : -1;
  };
  list.addEventListener("pointerover", (event) => {
    // On a phone whatever comes to lie under a finger that has scrolled is not pointed at.
    if (event.pointerType !== "touch" && !byTouch()) events.onhover(which(event));
  });
  list.addEventListener("pointerleave", () => events.onhover(-1));
  list.addEventListener("click", (event) => events.onpick(which(event)));
  list.addEventListener("focusin", (event) => events.onhover(which(event)));
  list.addEventListener("focusout", () => events.onhover(-1));
  list.addEventListener("keydown", (event) => {
    const at = which(event);
    const back = list.dir === "rtl" ? "ArrowRight" : "ArrowLeft";
    const on = list.dir === "rtl" ? "ArrowLeft" : "ArrowRight";
    /** @type {Record<string, number>} */
    const to = { [back]: at - 1, [on]: at + 1, ArrowUp: at - 8, ArrowDown: at + 8, Home: 0, End: tokens.length - 1 };
    if (event.key === "Enter" || event.key === " ") events.onpick(at);
    else if (event.key in to) focusToken(to[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  /** @param {number} place */
  function focusToken(place) {
    const at = Math.min(Math.max(place, 0), tokens.length - 1);
    for (const each of tokens) each.tabIndex = -1;
    tokens[at].tabIndex = 0;
    tokens[at].focus({ preventScroll: false });
  }

  /**
   * Colour every token: by its likeness to the one that is looked at, else by what is shown of all of them.
   * @param {Head} head
   * @param {State} state
   * @param {"light" | "dark"} theme
   * @param {number} token
   * @param {number} other
   * @param {boolean[] | null} inside
   * @param {number} [source] the token of cross-attention's source that is pointed at
   */
  function draw(head, state, theme, token, other, inside, source = -1) {
    const counts = head.counts(state.tau);
    const attends = state.show === "attention" || state.show === "received" || (token < 0 && source >= 0);
    const colours = paletteOf(theme, attends ? "attention" : state.show);
    const busiest = Math.max(1, ...counts.times);
    const longest = head.norms.reduce((most, each) => Math.max(most, each), 1e-12);
    const keys = text.keys?.label.length ?? head.size;
    for (let k = 0; k < tokens.length; k++) {
      /** Where on the scale, and how strongly. */
      let [at, part] = [0, 0];
      const same = head.pairs.same[k];
      if (token < 0 && source >= 0 && head.attention) {
        [at, part] = [Math.sqrt(head.attention[k * keys + source] / strongestOf(head.attention)), 1];
      } else if (token >= 0 && token !== k && (state.show === "similarity" || state.show === "level")) {
        const level = head.level(token, k);
        if (!Number.isNaN(level)) [at, part] = [signed(level), head.high(token, k, state.tau) ? 1 : 0.25];
      } else if (token >= 0 && state.show === "attention" && head.attention && k < keys) {
        [at, part] = [Math.sqrt(head.attention[token * keys + k] / strongestOf(head.attention)), 1];
      } else if (state.show === "received" && !text.keys) {
        [at, part] = [Math.min(head.receivedShare[k], 1), 1];
      } else if (state.show === "norms") {
        [at, part] = [head.norms[k] / longest, 1];
      } else if (token < 0 && same >= 0 && !attends) {
        [at, part] = [signed(0.85 * (counts.times[same] / busiest)), counts.times[same] ? 0.75 : 0];
      }
      const lit = part > 0.01 && Math.abs(at - (attends || state.show === "norms" ? 0 : 0.5)) > 0.02;
      const background = lit ? (part === 1 ? css(colours, at) : opaque(colours, at, part, theme)) : "";
      const colour = lit && part > 0.5 ? ink(colours, part === 1 ? at : 0.5 + (at - 0.5) * part) : "";
      const marks =
        (token >= 0 && token !== k && head.high(token, k, state.tau) ? " high" : "") +
        (k === token || k === other ? " looked" : "") +
        (k === state.token ? " kept" : "") +
        (counts.focal >= 0 && same === counts.focal ? " focal" : "") +
        (inside?.[k] ? " attended" : "");
      look(k, background, colour, marks);
    }
    frame.classList.toggle("pointed", token >= 0);
    drawArcs(head, state, theme, token);
  }

  /** How each token looks now: only what differs is written, for a browser lays out again whatever is. */
  const looks = tokens.map((token) => ({ own: token.className, background: "", colour: "", marks: "" }));

  /**
   * @param {number} k
   * @param {string} background
   * @param {string} colour
   * @param {string} marks
   */
  function look(k, background, colour, marks) {
    const now = looks[k];
    if (now.background !== background) tokens[k].style.background = now.background = background;
    if (now.colour !== colour) tokens[k].style.color = now.colour = colour;
    if (now.marks === marks) return;
    now.marks = marks;
    tokens[k].className = now.own + marks;
    tokens[k].setAttribute("aria-selected", String(marks.includes("kept")));
  }

  /** What is known of the boundary after a token, in words. @type {Map<number, string>} */
  const known = new Map();

  /**
   * Mark boundaries, once: a bar between two sentences, as high as the boundary is strong. It takes no room of its own.
   * @param {Boundary[]} boundaries
   */
  function mark(boundaries) {
    if (known.size || !boundaries.length) return;
    for (const each of boundaries) {
      const told = boundaryWords(each);
      const bar = html("span", {});
      bar.style.height = `${Math.max(4, 100 * each.strength)}%`;
      // Of those who listen, the token says it: a list of tokens may hold nothing else.
      const name = each.chosen ? "boundary chosen" : "boundary";
      const tick = html("span", { class: name, title: told, "aria-hidden": "true", "data-after": each.sentence }, bar);
      const token = tokens[each.token];
      token.closest(".sentence")?.after(tick);
      token.setAttribute("aria-label", `${token.getAttribute("aria-label")}; ${told}`);
      known.set(each.token, told);
    }
    const sign = html("span", { class: "sign", "aria-hidden": "true" }, html("span", {}), html("span", {}));
    const meaning = " between sentences: how strong a boundary is there; in colour where the text would be cut";
    frame.append(html("p", { class: "note boundaries" }, sign, meaning));
  }

  /** @type {Map<number, DOMRect> | null} */
  let boxes = null;
  let moved = true;

  /** @param {number} place */
  function box(place) {
    boxes ??= new Map();
    let rect = boxes.get(place);
    if (!rect) {
      const [own, whole] = [tokens[place].getBoundingClientRect(), frame.getBoundingClientRect()];
      rect = new DOMRect(own.left - whole.left, own.top - whole.top, own.width, own.height);
      boxes.set(place, rect);
    }
    return rect;
  }

  /**
   * @param {Head} head
   * @param {State} state
   * @param {"light" | "dark"} theme
   * @param {number} token
   */
  function drawArcs(head, state, theme, token) {
    const drawn = state.arcs && (state.show === "similarity" || state.show === "level");
    const colours = palette(theme, "similarity");
    const pairs = drawn ? head.strongest(state.tau, token < 0 ? ARCS_OF_ALL : ARCS, token) : [];
    while (arcs.childElementCount > pairs.length) arcs.lastElementChild?.remove();
    while (arcs.childElementCount < pairs.length) arcs.append(vector("path"));
    pairs.forEach(({ i, j }, place) => {
      const [a, b] = [box(i), box(j)];
      const [x1, x2] = [a.x + a.width / 2, b.x + b.width / 2];
      const [y1, y2] = [a.y + 2, b.y + 2];
      const wanted = Math.min(8 + Math.abs(x2 - x1) * 0.22 + Math.abs(y2 - y1) * 0.1, 58);
      const lift = Math.min(wanted, (4 / 3) * Math.max(Math.min(y1, y2) - 2, 4)); // its top is at 3/4: within the frame
      const level = head.level(i, j);
      const path = arcs.children[place];
      if (path.getAttribute("data-pair") !== `${i},${j}` || moved) {
        path.setAttribute("d", `M${x1} ${y1}C${x1} ${y1 - lift} ${x2} ${y2 - lift} ${x2} ${y2}`);
        path.setAttribute("data-pair", `${i},${j}`);
      }
      path.setAttribute("stroke", css(colours, signed(0.35 + 0.6 * level)));
      path.setAttribute("stroke-width", (0.6 + 1.9 * level).toFixed(2));
    });
    moved = false;
  }

  return {
    frame,
    tokens,
    draw,
    mark,
    /** @param {number} token */
    boundaryAfter: (token) => known.get(token) ?? "",
    /** Places of tokens must be measured again. */
    moved: () => {
      boxes = null;
      moved = true;
    },
    box,
  };
}

/** @param {Boundary} boundary */
function boundaryWords({ sentence, strength, heads }) {
  const named = heads.map(([layer, head, share]) => `${headName(layer, head)} ${Math.round(100 * share)} %`);
  const by = named.length ? `, by head${named.length > 1 ? "s" : ""} ${named.join(", ")}` : "";
  return `boundary after sentence ${sentence}: ${strength.toFixed(2)}${by}`;
}

const PAPER = { light: [255, 255, 255], dark: [21, 23, 28] };

/**
 * A part of a colour on the page's paper, opaque, so that arcs pass behind the words.
 * @param {Uint8ClampedArray} colours
 * @param {number} share
 * @param {number} part
 * @param {"light" | "dark"} theme
 */
function opaque(colours, share, part, theme) {
  const k = 3 * Math.round(255 * Math.min(Math.max(share, 0), 1));
  return `rgb(${PAPER[theme].map((paper, c) => Math.round(part * colours[k + c] + (1 - part) * paper)).join(", ")})`;
}
