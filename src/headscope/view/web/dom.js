// Elements made of nodes, never of markup: whatever a text holds, it stays text.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, any>} Attributes */

const SVG_SPACE = "http://www.w3.org/2000/svg";

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
 * @param {number} low
 * @param {number} value
 * @param {number} high
 */
export function clamp(low, value, high) {
  return Math.min(Math.max(low, value), high);
}
