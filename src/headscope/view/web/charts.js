// Small charts as SVG: what was found, compared with what was there to be found.

import { shown, vector } from "./dom.js";
import { marker } from "./markers.js";

/**
 * `kind` is the class that gives the colour. What has no `marker` has points that only a pointer finds; `open` ones are
 * outlines. `dash` is in widths of the line, as the figures declare it.
 * @typedef {(number | null)[]} Row
 * @typedef {{kind: string, marker?: string, open?: boolean, dash?: number[]}} Look
 * @typedef {Look & {
 *   name: string, value: Row, low?: Row, high?: Row, lower?: Row, upper?: Row, strong?: boolean,
 * }} Line
 */

const WIDTH = 1.4; // of a line

/**
 * Round numbers to mark an axis with.
 * @param {number} low
 * @param {number} high
 * @param {number} most
 */
export function ticks(low, high, most = 4) {
  const span = high - low || 1;
  const raw = span / most;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * unit).find((each) => each >= raw) ?? raw;
  const values = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step)
    values.push(Number(at.toPrecision(6)));
  return values;
}

/**
 * The same for an axis of ratios.
 * @param {number} low
 * @param {number} high
 */
function ratioTicks(low, high) {
  for (const steps of [
    [1],
    [1, 3],
    [1, 2, 5],
    [1, 1.5, 2, 3, 5, 7],
    [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9],
  ]) {
    const values = [-3, -2, -1, 0, 1, 2, 3, 4].flatMap((power) => steps.map((each) => each * 10 ** power));
    const inside = values.filter((each) => each >= low && each <= high).map((each) => Number(each.toPrecision(3)));
    if (inside.length >= 3) return inside;
  }
  return ticks(low, high, 3);
}

/**
 * A frame with axes; returns the picture and how values become places. `log`: the upright axis is of ratios.
 * @param {{
 *   width: number, height: number, x: [number, number], y: [number, number], xlabel: string, label: string,
 *   percent?: boolean, log?: boolean, xticks?: [number, string][],
 * }} spec
 */
export function axes({ width, height, x, y, xlabel, label, percent = false, log = false, xticks }) {
  const [left, right, top, bottom] = [42, 8, 8, 30];
  const scaled = (/** @type {number} */ value) => (log ? Math.log(value) : value);
  const [from, to] = y.map(scaled);
  const place = {
    x: (/** @type {number} */ value) => left + ((value - x[0]) / (x[1] - x[0] || 1)) * (width - left - right),
    y: (/** @type {number} */ value) =>
      height - bottom - ((scaled(value) - from) / (to - from || 1)) * (height - top - bottom),
  };
  const picture = vector("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    class: "chart",
    role: "img",
    "aria-label": label,
  });
  for (const at of log ? ratioTicks(y[0], y[1]) : ticks(y[0], y[1], 4)) {
    const text = percent ? `${Number((100 * at).toPrecision(3))} %` : String(at);
    picture.append(
      vector("line", { x1: left, x2: width - right, y1: place.y(at), y2: place.y(at), class: "grid" }),
      vector("text", { x: left - 5, y: place.y(at) + 3.5, "text-anchor": "end" }, text),
    );
  }
  for (const [at, text] of xticks ?? ticks(x[0], x[1], 5).map((each) => [each, String(each)])) {
    picture.append(vector("text", { x: place.x(Number(at)), y: height - bottom + 13, "text-anchor": "middle" }, text));
  }
  picture.append(
    vector("text", { x: (left + width - right) / 2, y: height - 3, "text-anchor": "middle", class: "title" }, xlabel),
  );
  return { picture, place };
}

/**
 * Every so many of the names along an axis, so that none stands on another; each between two edges.
 * @param {string[]} names
 * @param {number} room pixels
 * @returns {[number, string][]}
 */
export function named(names, room) {
  const longest = Math.max(...names.map((each) => each.length), 1);
  const every = Math.max(1, Math.ceil((names.length * (6.2 * longest + 6)) / room));
  return names.flatMap((name, k) => (k % every ? [] : [/** @type {[number, string]} */ ([k + 0.5, name])]));
}

/**
 * Shares of similar pairs by distance as bars; dashed, those of all pairs. Bars of bands, which have names, are of one
 * width. `kind`: the class that colours the bars.
 * @param {{
 *   edges: number[], share: Row, base: Row, low?: Row, high?: Row, names?: string[], width: number, height: number,
 *   kind?: string,
 * }} spec
 */
export function distances({ edges, share, base, low, high, names, width, height, kind = "neutral" }) {
  const top = Math.max(0.001, ...share.map(Number), ...base.map(Number), ...(high ?? []).map((each) => Number(each)));
  const { picture, place } = axes({
    width,
    height,
    x: [edges[0], edges[edges.length - 1]],
    y: [0, top],
    xlabel: "distance in tokens",
    percent: true,
    label: "How far apart similar tokens lie, as shares of all similar pairs; dashed: of all pairs",
    xticks: names && named(names, width - 50),
  });
  share.forEach((value, k) => {
    if (value === null || Number.isNaN(value)) return;
    const [x1, x2] = [place.x(edges[k]), place.x(edges[k + 1])];
    const range = names
      ? names[k].replace("-", " to ")
      : edges[k] + 1 < edges[k + 1]
        ? `${edges[k]} to ${edges[k + 1] - 1}`
        : edges[k];
    picture.append(
      vector(
        "rect",
        {
          x: x1 + 0.5,
          y: place.y(value),
          width: Math.max(x2 - x1 - 1, 0.5),
          height: place.y(0) - place.y(value),
          class: `bar ${kind}`,
        },
        vector(
          "title",
          {},
          `distance ${range}: ${shown(100 * value, 1)} % (of all pairs ${shown(100 * Number(base[k]), 1)} %)`,
        ),
      ),
    );
    if (low && high && low[k] !== null && high[k] !== null) {
      const middle = (x1 + x2) / 2;
      picture.append(
        vector("line", {
          x1: middle,
          x2: middle,
          y1: place.y(Number(low[k])),
          y2: place.y(Number(high[k])),
          class: "interval",
        }),
      );
    }
  });
  const steps = base.map(
    (value, k) => `${k ? "L" : "M"}${place.x(edges[k])} ${place.y(Number(value))}H${place.x(edges[k + 1])}`,
  );
  picture.append(vector("path", { d: steps.join(""), class: "base" }));
  return picture;
}

/**
 * Lines over layers or bands of distance, a point for each name. Of a strong line the interval is drawn as a band and
 * the middle half of the heads by thin lines. Dashed: no effect; grey: short of the smallest effect that matters.
 * @param {{
 *   names: string[], each: string, lines: Line[], none?: number | null, bound?: number | null,
 *   range?: [number, number], xlabel: string, label: string, percent?: boolean, log?: boolean, digits?: number,
 *   width: number, height: number,
 * }} spec
 */
export function lines(spec) {
  const { names, each, lines: drawn, none = null, bound = null, percent = false, log = false, width, height } = spec;
  const [least, most] = spec.range ?? rangeOf(drawn, [none, bound], log);
  const { picture, place } = axes({
    width,
    height,
    x: [0, names.length],
    y: [least, most],
    xlabel: spec.xlabel,
    label: spec.label,
    percent,
    log,
    xticks: named(names, width - 50),
  });
  const x = (/** @type {number} */ k) => place.x(k + 0.5);
  const y = (/** @type {number | null} */ value) => place.y(Math.min(Math.max(Number(value), least), most));
  const number = (/** @type {number | null} */ value) =>
    percent ? `${shown(value === null ? null : 100 * value, 1)} %` : shown(value, spec.digits ?? 2);
  const across = { x1: place.x(0), x2: place.x(names.length) };
  if (bound !== null && bound > least) {
    const [x, width] = [across.x1, across.x2 - across.x1];
    picture.prepend(vector("rect", { x, width, y: y(bound), height: y(least) - y(bound), class: "too-small" }));
  }
  if (none !== null && none >= least && none <= most)
    picture.append(vector("line", { ...across, y1: y(none), y2: y(none), class: "none" }));
  for (const line of drawn) {
    const { name, kind, value, low, high, lower, upper } = line;
    const dashed = dashOf(line);
    const path = (/** @type {Row} */ row) => {
      let pen = "M";
      return row
        .map((at, k) => {
          const part = at === null ? "" : `${pen}${x(k).toFixed(1)} ${y(at).toFixed(1)}`;
          pen = at === null ? "M" : "L";
          return part;
        })
        .join("");
    };
    if (line.strong && low && high) {
      const there = value.map((_, k) => k).filter((k) => low[k] !== null && high[k] !== null);
      const above = there.map((k) => `${x(k)} ${y(high[k])}`);
      const below = there.map((k) => `${x(k)} ${y(low[k])}`).reverse();
      if (there.length > 1)
        picture.append(vector("path", { d: `M${[...above, ...below].join("L")}Z`, class: `band ${kind}` }));
    }
    for (const row of line.strong ? [lower, upper] : []) {
      if (row) picture.append(vector("path", { d: path(row), class: `line quartile ${kind}` }));
    }
    const whole = { d: path(value), class: `line ${kind}${line.strong ? " strong" : ""}`, "stroke-dasharray": dashed };
    picture.append(vector("path", whole));
    value.forEach((at, k) => {
      if (at === null) return;
      const about = [
        `${each} ${names[k].replace("-", " to ")}, ${name}: ${number(at)}`,
        low && low[k] !== null ? `95 %: ${number(low[k])} to ${number(high?.[k] ?? null)}` : "",
        lower && lower[k] !== null
          ? `middle half of the heads: ${number(lower[k])} to ${number(upper?.[k] ?? null)}`
          : "",
      ];
      const title = vector("title", {}, about.filter(Boolean).join("\n"));
      const size = line.strong ? 2.8 : 2.2;
      picture.append(marker(line.marker ?? "", x(k), y(at), size, `${kind}${line.open ? " open" : ""}`, title));
    });
  }
  return picture;
}

/** @param {Look} look */
function dashOf({ dash = [] }) {
  return dash.length ? dash.map((each) => (WIDTH * each).toFixed(1)).join(" ") : null;
}

/**
 * What a line looks like, for a key.
 * @param {Look} look
 */
export function swatch(look) {
  const line = vector("path", { d: "M1 5H29", class: `line strong ${look.kind}`, "stroke-dasharray": dashOf(look) });
  const mark = look.marker ? marker(look.marker, 15, 5, 3, `${look.kind}${look.open ? " open" : ""}`) : null;
  const size = { viewBox: "0 0 30 10", width: 30, height: 10 };
  return vector("svg", { ...size, class: "swatch", "aria-hidden": "true" }, line, mark);
}

/**
 * An axis that holds every line, no effect and the bound, and of strong lines as much as does not flatten the rest.
 * @param {Line[]} drawn
 * @param {(number | null)[]} marks
 * @param {boolean} log
 * @returns {[number, number]}
 */
function rangeOf(drawn, marks, log) {
  const to = (/** @type {number} */ value) => (log ? Math.log(Math.max(value, 1e-3)) : value);
  const known = (/** @type {Row} */ row) => row.flatMap((at) => (at === null ? [] : [to(at)]));
  const values = known([...drawn.flatMap((line) => line.value), ...marks]);
  if (!values.length) return log ? [0.5, 2] : [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const span = high - low || 0.1;
  const wide = known(
    drawn.flatMap(({ strong, low: a, high: b, lower, upper }) =>
      (strong ? [a, b, lower, upper] : []).flatMap((row) => row ?? []),
    ),
  );
  const least = Math.max(Math.min(low, ...wide), low - span);
  const most = Math.min(Math.max(high, ...wide), high + span);
  const room = 0.04 * (most - least || span);
  const back = (/** @type {number} */ value) => (log ? Math.exp(value) : value);
  return [back(least - room), back(most + room)];
}

/**
 * A number with its interval on a short axis, with no effect and the smallest effect that matters marked. Ratios may
 * be drawn by their logarithms.
 * @param {{
 *   value: number | null, low: number | null, high: number | null, none: number, bound: number | null,
 *   range: [number, number], width: number, kind: string, label: string, log?: boolean,
 * }} spec
 */
export function interval({ value, low, high, none, bound, range, width, kind, label, log = false }) {
  const height = 26;
  const picture = vector("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    class: `chart intervals ${kind}`,
    role: "img",
    "aria-label": label,
  });
  const scaled = (/** @type {number} */ at) => (log ? Math.log(Math.max(at, 0.05)) : at);
  const [from, to] = range.map(scaled);
  const x = (/** @type {number} */ at) =>
    6 + ((Math.min(Math.max(scaled(at), from), to) - from) / (to - from || 1)) * (width - 12);
  if (bound !== null) {
    picture.append(
      vector("rect", { x: 6, y: 3, width: Math.max(0, x(bound) - 6), height: 20, class: "too-small" }),
      vector("line", { x1: x(bound), x2: x(bound), y1: 3, y2: 23, class: "bound" }),
    );
  }
  picture.append(
    vector("line", { x1: 6, x2: width - 6, y1: 13, y2: 13, class: "grid" }),
    vector("line", { x1: x(none), x2: x(none), y1: 5, y2: 21, class: "none" }),
  );
  if (value === null) return picture;
  if (low !== null && high !== null)
    picture.append(vector("line", { x1: x(low), x2: x(high), y1: 13, y2: 13, class: "interval wide" }));
  picture.append(vector("circle", { cx: x(value), cy: 13, r: 4, class: "dot" }));
  return picture;
}
