// What is pointed at, in words: a token, two of them, or one of cross-attention's source.

import { byTouch, html, shown } from "./dom.js";
import { related } from "./numbers.js";

/** @typedef {import("./head.js").Head} Head */
/** @typedef {import("./head.js").Text} Text */

/**
 * @param {Head} head
 * @param {Text} text
 * @param {number} token
 * @param {number} other
 * @param {number} step
 * @param {boolean} crossed whether the other token is one of the source
 */
export function readoutLines(head, text, token, other, step, crossed) {
  if (crossed && token < 0 && other >= 0) return ofSource(head, text, other);
  if (token < 0) return [byTouch() ? "Tap a token or a cell." : "Point at a token or a cell; click to keep the token."];
  const ofTwo = other >= 0 && (crossed || other !== token);
  return ofTwo ? ofPair(head, text, token, other, crossed) : ofToken(head, text, token, step);
}

const NAMED = 6; // tokens in a line

/**
 * Tokens by name and place.
 * @param {string[]} label
 * @param {number[]} places
 */
function named(label, places) {
  const parts = places
    .slice(0, NAMED)
    .flatMap((k, place) => [
      place ? ", " : ": ",
      html("bdi", { class: "quoted" }, label[k]),
      html("span", { class: "place" }, k),
    ]);
  return [...parts, places.length > NAMED ? ", …" : ""];
}

/**
 * The places of the largest numbers, those of at least a tenth of the largest.
 * @param {number[]} weights
 */
function largest(weights) {
  const most = Math.max(...weights);
  const order = weights.map((_, k) => k).sort((a, b) => weights[b] - weights[a]);
  return order.filter((k) => weights[k] > most / 10).slice(0, NAMED);
}

/**
 * @param {Head} head
 * @param {Text} text
 * @param {number} source
 */
function ofSource(head, text, source) {
  const keys = text.keys ?? text.tokens;
  const { attention } = head;
  const readers = attention ? text.tokens.label.map((_, k) => attention[k * keys.label.length + source]) : [];
  return [
    html("b", {}, html("bdi", {}, keys.label[source])),
    ` (${source} of the source) is read most by`,
    ...(attention ? named(text.tokens.label, largest(readers)) : [" …"]),
  ];
}

/**
 * @param {Head} head
 * @param {Text} text
 * @param {number} token
 * @param {number} step
 */
function ofToken(head, text, token, step) {
  const { label } = text.tokens;
  const alike = head.strongest(step, Infinity, token).map(({ i, j }) => (i === token ? j : i));
  const { attention } = head;
  const from = text.keys?.label ?? [];
  const read = attention && text.keys ? largest(from.map((_, k) => attention[token * from.length + k])) : [];
  return [
    html("b", {}, html("bdi", {}, label[token])),
    ` (${token}) is similar to ${alike.length || "no"} ${alike.length === 1 ? "token" : "tokens"}`,
    ...named(label, alike),
    ...(read.length ? [" · reads most of the source", ...named(from, read)] : []),
    text.keys ? "" : ` · received ${shown(head.received[token], 3)} of the most attended`,
    ` · norm ${shown(head.norms[token], 3)}`,
  ];
}

/**
 * @param {Head} head
 * @param {Text} text
 * @param {number} i
 * @param {number} j
 * @param {boolean} crossed whether j is a token of the source
 */
function ofPair(head, text, i, j, crossed) {
  const others = crossed ? (text.keys ?? text.tokens).label : text.tokens.label;
  const parts = [
    html("b", {}, html("bdi", {}, text.tokens.label[i])),
    ` (${i}) – `,
    html("b", {}, html("bdi", {}, others[j])),
    ` (${j})`,
  ];
  if (!crossed) {
    const p = head.pairs.place(i, j);
    parts.push(`: ${head.reading} ${head.value(i, j).toPrecision(4)}`);
    if (p < 0) parts.push(" · special tokens are in no pair");
    else {
      const relation = related(text, head.pairs.relation[p]);
      parts.push(`, level ${shown(head.level(i, j), 3)}, distance ${Math.abs(j - i)}, ${relation}`);
    }
  }
  if (head.attention && (crossed || !text.keys))
    parts.push(` · A ${head.attention[i * others.length + j].toPrecision(3)}`);
  return parts;
}
