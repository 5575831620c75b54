// What became of a claim's statistic and of each control, with every number, and what control runs gave.

import { html, scrolling, shown } from "./dom.js";

const MARKS = /** @type {Record<string, string>} */ ({ passes: "✓", fails: "✗", "cannot tell": "?", "not run": "–" });

/**
 * A mark for those who see it, and a word for those who do not.
 * @param {string} state
 * @param {string} [title]
 */
export function mark(state, title = "") {
  return html(
    "span",
    { class: `state ${state.replaceAll(" ", "-")}`, title: title ? `${state}: ${title}` : state },
    html("span", { "aria-hidden": "true" }, MARKS[state]),
    html("span", { class: "unseen" }, state),
  );
}

/**
 * The mark alone, where the word stands beside it.
 * @param {string} state
 */
function sign(state) {
  return html("span", { class: `state ${state.replaceAll(" ", "-")}`, "aria-hidden": "true" }, MARKS[state]);
}

/**
 * The controls of a kind, in one line each.
 * @param {any} finding
 * @param {string} kind
 */
export function stated(finding, kind) {
  return finding.controls
    .filter((/** @type {any} */ each) => each.name.split(" ")[0] === kind)
    .map((/** @type {any} */ each) => `${each.label}: ${each.why || numberOf(each, finding.digits)}`)
    .join("\n");
}

/**
 * @param {any} check
 * @param {number} digits
 */
function numberOf(check, digits) {
  if (check.value === null) return "–";
  const limits = check.low === null ? "" : ` [${shown(check.low, digits)}, ${shown(check.high, digits)}]`;
  return shown(check.value, digits) + limits;
}

/**
 * Everything about a claim. Where it is looked at from another threshold, that comes first.
 * @param {any} claim
 * @param {any} finding
 * @param {{at: string, checks: any[]} | null} elsewhere
 */
export function findingDetails(claim, finding, elsewhere) {
  const parts = [html("p", {}, `The paper: ${claim.says}`)];
  if (elsewhere) {
    const told = elsewhere.checks.map(
      (each) => `${each.label}: ${numberOf(each, claim.digits)}, ${each.state}${each.why ? ` (${each.why})` : ""}`,
    );
    parts.push(
      html(
        "p",
        {},
        html("b", {}, `At ${elsewhere.at}. `),
        told.join("; "),
        ". The rest is of the run's own thresholds.",
      ),
    );
  }
  parts.push(html("p", { class: "sentence" }, finding.sentence));
  parts.push(checksTable(claim, finding));
  if (finding.runs.length) parts.push(runsTable(claim, finding));
  return html("div", { class: "details" }, ...parts);
}

/**
 * @param {string} label
 * @param {string[]} columns
 * @param {HTMLElement[]} rows
 */
function table(label, columns, rows) {
  const heading = columns.map((each) => html("th", { scope: "col" }, each));
  const made = html(
    "table",
    { class: "checks" },
    html("thead", {}, html("tr", {}, ...heading)),
    html("tbody", {}, ...rows),
  );
  return scrolling(label, made);
}

/**
 * @param {any} claim
 * @param {any} finding
 */
function checksTable(claim, finding) {
  const rows = [...finding.statistics, ...finding.controls].map((each) => {
    const words = each.name === "statistic" ? [html("b", {}, each.label), ", as the paper reads it"] : [each.label];
    const middle =
      each.lower_quartile === null
        ? ""
        : `${shown(each.lower_quartile, claim.digits)} to ${shown(each.upper_quartile, claim.digits)}`;
    const heads = each.of_heads ? `${each.heads} of ${each.of_heads}` : "";
    return html(
      "tr",
      { "data-check": each.name },
      html("th", { scope: "row" }, ...words),
      html("td", {}, sign(each.state), ` ${each.state}`),
      html("td", {}, numberOf(each, claim.digits)),
      html("td", {}, `${each.above ? "beyond" : "under"} ${Number(each.bound.toFixed(3))}`),
      html("td", {}, each.beyond === null ? "" : `${Math.round(100 * each.beyond)} %`),
      html("td", {}, middle),
      html("td", {}, each.pooled === null ? "" : shown(each.pooled, claim.digits)),
      html("td", {}, heads),
      html("td", { class: "note" }, each.why),
    );
  });
  const columns = [
    "statistic and controls",
    "",
    "number, 95 %",
    "must lie",
    "heads there",
    "middle half of heads",
    "pooled",
    "with a number",
    "",
  ];
  return table(`Statistic and controls of claim ${claim.key}`, columns, rows);
}

/**
 * @param {any} claim
 * @param {any} finding
 */
function runsTable(claim, finding) {
  const rows = finding.runs.map((/** @type {any} */ each) =>
    html(
      "tr",
      { "data-run": each.kind },
      html("th", { scope: "row" }, each.kind),
      html("td", {}, html("bdi", {}, each.name)),
      html("td", {}, numberOf(each, claim.digits)),
      html("td", {}, each.statistic),
      html("td", { class: "note" }, each.why),
    ),
  );
  return table(`Control runs and claim ${claim.key}`, ["control run", "model", "number, 95 %", "statistic", ""], rows);
}
