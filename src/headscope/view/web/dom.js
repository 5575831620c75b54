// Elements made of nodes, never of markup: whatever a text holds, it stays text.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, any>} Attributes */

const SVG_SPACE = "http://www.w3.org/2000/svg";

/** Whether one points with a finger here, which hovers over nothing and has no keys. */
export function byTouch() {
  return matchMedia("(hover: none)").matches;
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 */
function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * An HTML element with attributes, listeners ("onclick") and children.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function html(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  fill(element, children);
  return element;
}

/**
 * The same for SVG.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function vector(tag, attributes = {}, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG_SPACE, tag));
  setAttributes(element, attributes);
  fill(element, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
function fill(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Put other children in place of an element's own.
 * @param {Element} element
 * @param {...Child} children
 */
export function refill(element, ...children) {
  element.replaceChildren();
  fill(element, children);
}

/**
 * Do something before the next picture is drawn, once, however often it was asked for.
 * @param {() => void} work
 */
export function onceAFrame(work) {
  let scheduled = false;
  return () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      work();
    });
  };
}

/**
 * Scroll to what was asked for where it stands above or below what was pressed, as on a phone; beside it it is in view.
 * @param {Element} element
 * @param {Element} from
 */
export function bringIntoView(element, from) {
  const [there, here] = [element.getBoundingClientRect(), from.getBoundingClientRect()];
  const beside = there.left >= here.right || there.right <= here.left;
  if (beside || (there.top >= 0 && there.top < innerHeight / 2)) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  element.scrollIntoView({ block: "start", behavior: still ? "auto" : "smooth" });
}

/**
 * A table that may be wider than its place: it scrolls by itself, and a line above says so while there is more to see.
 * @param {string} label
 * @param {HTMLElement} table
 */
export function scrolling(label, table) {
  const place = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
  const tell = onceAFrame(() => place.classList.toggle("wider", place.scrollWidth > place.clientWidth + 1));
  const measure = new ResizeObserver(tell);
  measure.observe(place);
  measure.observe(table);
  return place;
}

/**
 * A bar that fills while something is worked out, with words beside it; at `of` 0 nobody knows how long it takes.
 */
export function progressView() {
  const bar = html("progress", { "aria-label": "progress" });
  const words = html("span", {});
  const root = html("p", { class: "note progress", role: "status", hidden: true }, bar, words);
  let later = 0;
  return {
    root,
    /**
     * Say what is being worked out, unless it is there at once.
     * @param {string} what
     * @param {number} [done]
     * @param {number} [of]
     */
    show: (what, done = 0, of = 0) => {
      if (of) [bar.max, bar.value] = [of, done];
      else bar.removeAttribute("value");
      if (words.textContent !== what) words.textContent = what;
      if (!later && root.hidden) later = window.setTimeout(() => (root.hidden = false), 250);
    },
    hide: () => {
      clearTimeout(later);
      [later, root.hidden] = [0, true];
    },
  };
}

/**
 * @param {number | null | undefined} value
 * @param {number} [digits]
 */
export function shown(value, digits = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  const written = Number.isInteger(value) && digits === 0 ? value.toLocaleString("en") : value.toFixed(digits);
  return /^-0(\.0*)?$/.test(written) ? written.slice(1) : written;
}

/**
 * A number with what is counted, one of it or several.
 * @param {number} number
 * @param {string} noun
 */
export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/**
 * A head by its short name, as the report and the figures have it: "7.5" would be read as a number.
 * @param {number} layer
 * @param {number} head
 */
export function headName(layer, head) {
  return `L${layer}H${head}`;
}

/**
 * A head in full, with its short name, so that whoever met one finds the other.
 * @param {number} layer
 * @param {number} head
 */
export function headTitle(layer, head) {
  return `Layer ${layer}, head ${head} (${headName(layer, head)})`;
}

/**
 * @param {number} low
 * @param {number} value
 * @param {number} high
 */
export function clamp(low, value, high) {
  return Math.min(Math.max(low, value), high);
}
