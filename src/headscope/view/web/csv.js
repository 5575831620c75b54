// Pairs as CSV. Tokens come from texts and vocabularies that nobody vouches for, and spreadsheet programs run a cell that
// begins with =, +, - or @ as a formula, quoted or not. Such a token is written as its JSON string, with those signs as
// \\u escapes: a cell that begins with a quotation mark is JSON, every other one is the token itself, so nothing is lost.

/** @typedef {import("./state.js").State} State */
/** @typedef {import("./exports.js").Current} Current */

/** A sign that begins a formula where a cell begins, or where a program that cuts at ; or tabs would begin one. */
const FORMULA = /(^|[;,|\t\r\n])["'\s]*[=+\-@＝＋－＠]/;
/** What a program may take for white space before a formula, or for JSON. */
const UNCLEAR = /^["\s]/;
const SIGNS = /[=+\-@＝＋－＠]/g;

/**
 * A token as a cell.
 * @param {string} token
 */
export function tokenCell(token) {
  if (!FORMULA.test(token) && !UNCLEAR.test(token)) return token;
  const escaped = (/** @type {string} */ sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(token).replace(SIGNS, escaped);
}

/** @param {string | number} field */
function quoted(field) {
  return typeof field === "number" ? String(field) : `"${field.replaceAll('"', '""')}"`;
}

/**
 * The high pairs of a head as CSV: the columns of `inspection.high_pairs`.
 * @param {Current} current
 * @param {State} state
 */
export function pairsAsCsv({ head, text, pairs }, state) {
  const lines = ["i,j,token_i,token_j,distance,relation,similarity,level"];
  const { label } = text.tokens;
  for (const { i, j, p } of head.strongest(state.tau, Infinity)) {
    const row = [
      i,
      j,
      tokenCell(label[i]),
      tokenCell(label[j]),
      j - i,
      text.relations[pairs.relation[p]],
      head.value(i, j),
      head.level(i, j),
    ];
    lines.push(row.map(quoted).join(","));
  }
  return lines.join("\r\n") + "\r\n";
}
