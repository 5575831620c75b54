// The paper's claims with their verdicts: a mark for each reading and control, and, on demand, the sentence and the numbers
// behind it. At another threshold than the run's there are numbers and no verdicts. Nothing is computed here.

import { interval } from "./charts.js";
import { html, refill, shown } from "./dom.js";
import { findingDetails, mark, stated } from "./checks.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Store} Store */

const VERDICTS = /** @type {Record<string, string>} */ ({
  holds: "✓",
  qualified: "(✓)",
  "does not hold": "✗",
  open: "?",
  "no verdict": "–",
});
const OWN = "statistic"; // the column of the claim's own number
const UNPASSED = ["cannot tell", "fails", "not run"]; // states of a check, what leaves a claim open first
const WORKING = "Working out intervals and controls; the heads below are ready meanwhile …";
const NO_VERDICTS = "Verdicts are given at τ = 0.5 and the run's θ alone; here each number is compared with its bound.";
const OVER_TAU = "Matched counts are pooled over windows, for τ is not the run's own.";
const OVER_THETA = "Over θ claims 1a, 1b and 6 are read off the tokens with high attention.";

/**
 * @param {{run: any, store: Store}} spec
 */
export function findingsView({ run, store }) {
  /** @type {any} */
  let found = null;
  /** @type {any} */
  let swept = null;
  const status = html("p", { class: "note", role: "status" });
  const warnings = html("ul", { class: "warnings" });
  /** The claim's own number first, then its controls. @type {{name: string, heading: string, meaning: string}[]} */
  const kinds = run.kinds;
  const columns = ["claim", "measured", "95 % interval", "heads beyond", "pooled"];
  const titles = [
    "",
    "grey: short of the smallest effect that matters",
    "",
    "share of the heads beyond the bound",
    "what a typical pair does",
  ];
  const heading = (/** @type {string} */ label, /** @type {string} */ title) =>
    html("th", { scope: "col", class: "mark", title }, html("span", {}, label));
  const top = html(
    "tr",
    {},
    html("td", {}),
    ...columns.map((each, k) => html("th", { scope: "col", title: titles[k] || null }, each)),
    ...kinds.map((each) => heading(each.heading, each.meaning)),
    html("th", { scope: "col", class: "judged" }, "verdict"),
  );
  const body = html("tbody", {});
  const root = html(
    "section",
    { class: "block", "aria-label": "Findings" },
    html("h2", {}, "Findings"),
    status,
    warnings,
    html("table", { class: "findings" }, html("thead", {}, top), body),
    html(
      "p",
      { class: "note" },
      "✓ passes · ✗ fails · ? cannot tell · – not run · grey: short of the smallest effect that matters; open a claim for the sentence and every number",
    ),
  );
  const width = kinds.length + 7; // columns

  const isOpen = (/** @type {string} */ key) => store.get().runOpen.split(",").includes(key);
  const toggle = (/** @type {string} */ key) => {
    const open = store.get().runOpen.split(",").filter(Boolean);
    store.set({ runOpen: (open.includes(key) ? open.filter((each) => each !== key) : [...open, key]).join(",") });
  };

  /**
   * Which of the swept thresholds a claim is to be shown at; -1 for the run's own.
   * @param {any} claim
   * @param {State} state
   */
  function placeOf(claim, state) {
    const own = claim.over === "theta" ? run.theta : run.tau;
    const threshold = claim.over === "theta" ? state.runTheta : claim.over === "tau" ? state.runTau / 20 : 0;
    if (!threshold || Math.abs(threshold - own) < 1e-9) return -1;
    return run.thresholds.findIndex((/** @type {number} */ each) => Math.abs(each - threshold) < 1e-9);
  }

  /**
   * What is shown of a claim: its statistics with their state, and whatever else is known at this threshold.
   * @param {any} claim
   * @param {State} state
   */
  function rowOf(claim, state) {
    const place = placeOf(claim, state);
    const finding = found?.claims[claim.key] ?? null;
    if (place < 0) {
      const state = finding?.marks[OWN];
      return { finding, at: "", checks: finding?.statistics ?? [], state, verdict: finding?.verdict };
    }
    const sign = claim.over === "theta" ? "θ" : "τ";
    const at = `${sign} = ${run.thresholds[place].toFixed(2)}`;
    const checks = (swept?.claims[claim.key] ?? []).map((/** @type {any} */ each) => ({
      ...Object.fromEntries(["value", "low", "high", "state"].map((name) => [name, each[name][place]])),
      why: each.reason[place],
      label: each.statistic,
      bound: each.bound,
      none: each.none,
      above: true,
    }));
    const worst = ["fails", "not run", "cannot tell", "passes"].find((name) =>
      checks.some((/** @type {any} */ each) => each.state === name),
    );
    return { finding, at, checks, state: worst, verdict: checks.length ? "no verdict" : undefined };
  }

  /**
   * @param {any} claim
   * @param {State} state
   */
  function claimRow(claim, state) {
    const row = rowOf(claim, state);
    const first = row.checks[0] ?? null;
    const known = first !== null;
    const kind = (row.verdict ?? "").replaceAll(" ", "-");
    const digits = (/** @type {number | null} */ value) => shown(value, claim.digits);
    const number = (/** @type {any} */ each) =>
      each.value === null
        ? "–"
        : digits(each.value) + (each.low === null ? "" : ` [${digits(each.low)}, ${digits(each.high)}]`);
    const numbers = row.checks.map((/** @type {any} */ each) => html("div", {}, number(each)));
    const open = isOpen(claim.key);
    const more = `more-${claim.key}`;
    const button = html(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-expanded": String(open),
        "aria-controls": open ? more : null,
        onclick: () => toggle(claim.key),
      },
      claim.claim,
    );
    const cell = (/** @type {string} */ label, /** @type {any[]} */ ...children) =>
      html("td", { class: "tight", "data-label": label }, ...children);
    const empty = html("span", { class: "waiting", "aria-hidden": "true" }, "…");
    const marks = kinds.map((each) => {
      const itself = each.name === OWN;
      const state_ = itself ? row.state : row.finding?.marks[each.name];
      const title = () => (itself ? first?.why || number(first) : stated(row.finding, each.name));
      return html(
        "td",
        {
          class: state_ ? "mark" : "mark without",
          "data-label": (itself && row.at) || each.heading,
          "data-kind": each.name,
          "data-state": state_ || null,
        },
        state_ ? mark(state_, title()) : null,
      );
    });
    const lines = [
      html(
        "tr",
        { "data-claim": claim.key, "data-verdict": row.verdict, "data-value": first?.value },
        html("th", { scope: "row" }, claim.key),
        html("td", { class: "claim" }, button, html("span", { class: "note" }, briefly(claim, row))),
        cell("", known ? picture(claim, first, kind, number(first)) : empty),
        html("td", { class: "number tight", "data-label": "" }, ...numbers),
        cell("heads beyond", known && !row.at ? percent(first.beyond) : ""),
        cell("pooled", known && !row.at ? shownOrNot(first.pooled, claim.digits) : ""),
        ...marks,
        html(
          "td",
          { class: "judged" },
          row.verdict
            ? html(
                "span",
                { class: `verdict ${kind}` },
                html("span", { "aria-hidden": "true" }, VERDICTS[row.verdict]),
                ` ${row.verdict}`,
              )
            : null,
        ),
      ),
    ];
    if (open && row.finding) {
      const details = findingDetails(claim, row.finding, row.at ? { at: row.at, checks: row.checks } : null);
      lines.push(html("tr", { class: "more", id: more }, html("td", {}), html("td", { colspan: width - 1 }, details)));
    }
    return lines;
  }

  /**
   * What to know before anything is opened: what a qualified claim depends on, why an open one is open. There, what
   * fails, what cannot tell and what was not run are three things, in the words of the marks.
   * @param {any} claim
   * @param {ReturnType<typeof rowOf>} row
   */
  function briefly(claim, row) {
    if (row.at)
      return row.checks.length
        ? `at ${row.at}${claim.key === "6" || claim.key[0] === "1" ? `: ${row.checks[0].label}` : ""}`
        : "";
    const finding = row.finding;
    if (!finding) return "";
    if (finding.verdict === "qualified") {
      const failed = finding.controls.filter((/** @type {any} */ each) => each.state === "fails");
      return `depends ${[...new Set(failed.map((/** @type {any} */ each) => each.without.split(":")[0]))].join("; and ")}`;
    }
    if (finding.verdict !== "open") return "";
    const checks = [...finding.statistics, ...finding.controls];
    return UNPASSED.flatMap((state) => {
      const own = checks.filter((each) => each.state === state);
      const names = own.map((each) => (each.name === OWN ? "the number itself" : each.label));
      return names.length ? [`${state}: ${[...new Set(names)].join("; ")}`] : [];
    }).join(" · ");
  }

  /**
   * @param {any} claim
   * @param {any} first
   * @param {string} kind
   * @param {string} number
   */
  function picture(claim, first, kind, number) {
    return interval({
      value: first.value,
      low: first.low,
      high: first.high,
      none: first.none,
      bound: first.bound,
      range: rangeOf(claim, first),
      width: 130,
      kind,
      label: `${number}; no effect is ${first.none}, the smallest that matters ${shown(first.bound, 3)}`,
    });
  }

  /**
   * An axis wide enough for the claim at every threshold, so that it stands still while a slider moves.
   * @param {any} claim
   * @param {any} first
   * @returns {[number, number]}
   */
  function rangeOf(claim, first) {
    const own = found?.claims[claim.key]?.statistics[0];
    const over = swept?.claims[claim.key]?.[0];
    const same = over && over.statistic === (own ?? first).label; // over θ some claims are measured otherwise
    const rows = claim.over === "tau" || same || !over ? [own ?? first, over] : [first === own ? own : over];
    const all = rows
      .flatMap((each) => (each ? [each.low, each.high, each.value] : []))
      .flat()
      .concat([first.none, 2 * first.bound - first.none, first.low, first.high])
      .filter((each) => each !== null && each !== undefined);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const room = (high - low) * 0.05 || 0.1;
    return [low - room, high + room];
  }

  /** Write the table. The row that has the focus keeps it. */
  function show() {
    const state = store.get();
    const shadow = /** @type {ShadowRoot | Document} */ (root.getRootNode());
    const focused = shadow.activeElement?.closest?.("tr[data-claim]")?.getAttribute("data-claim");
    refill(body, ...run.claims.flatMap((/** @type {any} */ claim) => claimRow(claim, state)));
    if (focused) {
      /** @type {HTMLElement | null} */ (body.querySelector(`tr[data-claim="${focused}"] button`))?.focus();
    }
    const moved = (/** @type {string} */ over) =>
      run.claims.some((/** @type {any} */ claim) => claim.over === over && placeOf(claim, state) >= 0);
    const elsewhere = moved("tau") || moved("theta");
    const said = [NO_VERDICTS, moved("tau") && OVER_TAU, moved("theta") && OVER_THETA].filter(Boolean).join(" ");
    const waits = !found ? WORKING : !elsewhere ? found.unread : swept ? said : "Working out the other thresholds …";
    refill(status, waits);
    status.classList.toggle("busy", !found || (elsewhere && !swept));
  }

  show();
  return {
    root,
    show,
    /** Whether a threshold is asked for that only the sweep knows. */
    needsSweep: () => swept === null && run.claims.some((/** @type {any} */ claim) => placeOf(claim, store.get()) >= 0),
    /** @param {any} answer */
    take: (answer) => {
      found = answer;
      refill(
        warnings,
        ...answer.warnings.map((/** @type {string} */ each) =>
          html("li", {}, `${each[0].toUpperCase()}${each.slice(1)}.`),
        ),
      );
      show();
    },
    /** @param {any} answer */
    takeSweep: (answer) => {
      swept = answer;
      show();
    },
  };
}

/** @param {number | null} value */
function percent(value) {
  return value === null || value === undefined ? "" : `${Math.round(100 * value)} %`;
}

/**
 * @param {number | null} value
 * @param {number} digits
 */
function shownOrNot(value, digits) {
  return value === null || value === undefined ? "" : shown(value, digits);
}
