// The paper's claims with their verdicts, at whatever threshold the reader chooses. Nothing is computed here: every
// number comes from Python, for each of the thresholds.

import { interval } from "./charts.js";
import { html, shown } from "./dom.js";

const VERDICTS = { holds: "✓", "does not hold": "✗", open: "?", "no verdict": "–" };
const NUMBERS = ["value", "low", "high", "verdict", "reason"];
const OVER_THETA =
  "Over θ this claim is read off the tokens with high attention: their share of the category over that of all tokens.";

/**
 * Which of the swept thresholds a claim is to be shown at; -1 for the run's own.
 * @param {any} run
 * @param {any} claim
 * @param {{runTau: number, runTheta: number}} state
 */
function placeOf(run, claim, state) {
  const asked = claim.over === "theta" ? state.runTheta : claim.over === "tau" ? state.runTau / 20 : 0;
  if (!asked || (claim.over === "tau" && Math.abs(asked - run.tau) < 1e-9)) return -1;
  return run.thresholds.findIndex((/** @type {number} */ each) => Math.abs(each - asked) < 1e-9);
}

/**
 * An axis wide enough for the claim at every threshold, so that it stands still while a slider moves.
 * @param {any} claim
 * @returns {[number, number]}
 */
function rangeOf(claim) {
  const { swept, own, none, bound } = claim;
  const all = [...swept.low, ...swept.high, own.low, own.high, none, 2 * bound - none].filter((each) => each !== null);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const room = (high - low) * 0.05 || 0.1;
  return [low - room, high + room];
}

/**
 * @param {any} run
 * @param {any} claim
 * @param {{runTau: number, runTheta: number}} state
 */
function claimRow(run, claim, state) {
  const place = placeOf(run, claim, state);
  const finding = place < 0 ? claim.own : Object.fromEntries(NUMBERS.map((name) => [name, claim.swept[name][place]]));
  const kind = finding.verdict.replaceAll(" ", "-");
  const digits = (/** @type {number | null} */ value) => shown(value, claim.digits);
  const limits = finding.low === null ? "" : ` [${digits(finding.low)}, ${digits(finding.high)}]`;
  const number = finding.value === null ? "–" : digits(finding.value) + limits;
  const sign = claim.over === "theta" ? "θ" : "τ";
  const at = place < 0 ? "at the run's own thresholds" : `at ${sign} = ${run.thresholds[place].toFixed(2)}`;
  const among = claim.over === "theta" && place >= 0 && claim.key.startsWith("1");
  const picture = interval({
    ...finding,
    none: claim.none,
    bound: claim.bound,
    range: rangeOf(claim),
    width: 190,
    kind,
    label: `${number}; no effect is ${claim.none}, the smallest that matters ${claim.bound}`,
  });
  const mark = VERDICTS[/** @type {keyof typeof VERDICTS} */ (finding.verdict)];
  return html(
    "tr",
    { "data-claim": claim.key, "data-verdict": finding.verdict, "data-value": finding.value },
    html("th", { scope: "row" }, claim.key),
    html(
      "td",
      { class: "claim" },
      html("b", {}, claim.claim),
      html(
        "details",
        {},
        html("summary", {}, `${claim.statistic}, ${at}`),
        html("p", {}, `The paper: ${claim.says}`),
        html("p", {}, claim.own.sentence),
        among ? html("p", { class: "note" }, OVER_THETA) : null,
        finding.reason ? html("p", { class: "note" }, finding.reason) : null,
      ),
    ),
    html("td", {}, picture),
    html("td", { class: "number" }, number),
    html(
      "td",
      {},
      html("span", { class: `verdict ${kind}` }, html("span", { "aria-hidden": "true" }, mark), ` ${finding.verdict}`),
    ),
  );
}

/**
 * The table of all claims. Rows that are open stay open.
 * @param {any} run
 * @param {{runTau: number, runTheta: number}} state
 * @param {HTMLElement} table
 */
export function showFindings(run, state, table) {
  const open = new Set(
    [...table.querySelectorAll("details[open]")].map((each) => each.closest("tr")?.getAttribute("data-claim")),
  );
  const rows = run.claims.map((/** @type {any} */ claim) => claimRow(run, claim, state));
  for (const row of rows) {
    if (open.has(row.getAttribute("data-claim"))) row.querySelector("details").open = true;
  }
  const heads = ["", "the paper's claim", "measured; shaded: the effect matters", "95 % interval", "verdict"];
  table.replaceChildren(
    html("thead", {}, html("tr", {}, ...heads.map((each) => html(each ? "th" : "td", {}, each)))),
    html("tbody", {}, ...rows),
  );
}
