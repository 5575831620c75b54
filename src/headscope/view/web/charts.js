// Small charts as SVG: what was found, compared with what was there to be found.

import { shown, vector } from "./dom.js";

/** @typedef {{value: (number | null)[], low: (number | null)[], high: (number | null)[]}} Line */

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
 * A frame with axes; returns the picture and how values become places.
 * @param {{width: number, height: number, x: [number, number], y: [number, number], xlabel: string, label: string, percent?: boolean}} spec
 */
export function axes({ width, height, x, y, xlabel, label, percent }) {
  const [left, right, top, bottom] = [42, 8, 8, 30];
  const place = {
    x: (/** @type {number} */ value) => left + ((value - x[0]) / (x[1] - x[0] || 1)) * (width - left - right),
    y: (/** @type {number} */ value) =>
      height - bottom - ((value - y[0]) / (y[1] - y[0] || 1)) * (height - top - bottom),
  };
  const picture = vector("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    class: "chart",
    role: "img",
    "aria-label": label,
  });
  for (const at of ticks(y[0], y[1], 3)) {
    const text = percent ? `${Number((100 * at).toPrecision(3))} %` : String(at);
    picture.append(
      vector("line", { x1: left, x2: width - right, y1: place.y(at), y2: place.y(at), class: "grid" }),
      vector("text", { x: left - 5, y: place.y(at) + 3.5, "text-anchor": "end" }, text),
    );
  }
  for (const at of ticks(x[0], x[1], 5)) {
    picture.append(vector("text", { x: place.x(at), y: height - bottom + 13, "text-anchor": "middle" }, at));
  }
  picture.append(
    vector("text", { x: (left + width - right) / 2, y: height - 3, "text-anchor": "middle", class: "title" }, xlabel),
  );
  return { picture, place };
}

/**
 * Shares of similar pairs by distance as bars; dashed, those of all pairs.
 * @param {{edges: number[], share: (number | null)[], base: (number | null)[], low?: (number | null)[], high?: (number | null)[], width: number, height: number}} spec
 */
export function distances({ edges, share, base, low, high, width, height }) {
  const top = Math.max(0.001, ...share.map(Number), ...base.map(Number), ...(high ?? []).map((each) => Number(each)));
  const { picture, place } = axes({
    width,
    height,
    x: [edges[0], edges[edges.length - 1]],
    y: [0, top],
    xlabel: "distance in tokens",
    percent: true,
    label: "How far apart similar tokens lie, as shares of all similar pairs; dashed: of all pairs",
  });
  share.forEach((value, k) => {
    if (value === null || Number.isNaN(value)) return;
    const [x1, x2] = [place.x(edges[k]), place.x(edges[k + 1])];
    picture.append(
      vector(
        "rect",
        {
          x: x1 + 0.5,
          y: place.y(value),
          width: Math.max(x2 - x1 - 1, 0.5),
          height: place.y(0) - place.y(value),
          class: "bar",
        },
        vector(
          "title",
          {},
          `distance ${edges[k]}${edges[k + 1] - edges[k] > 1 ? ` to ${edges[k + 1] - 1}` : ""}: ${shown(100 * value, 1)} % (of all pairs ${shown(100 * Number(base[k]), 1)} %)`,
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
 * Lines over distance, each with a band for its interval.
 * @param {{edges: number[], lines: {name: string, line: Line, kind: string}[], xlabel: string, label: string, width: number, height: number}} spec
 */
export function lines({ edges, lines: drawn, xlabel, label, width, height }) {
  const middles = edges.slice(0, -1).map((edge, k) => (edge + edges[k + 1] - 1) / 2);
  const known = drawn
    .flatMap(({ line }) => [...line.value, ...line.high])
    .filter((each) => each !== null)
    .map(Number);
  const top = Math.max(1e-6, quantile(known, 0.98));
  const { picture, place } = axes({
    width,
    height,
    x: [edges[0], edges[edges.length - 1]],
    y: [0, top],
    xlabel,
    label,
    percent: true,
  });
  drawn.forEach(({ name, line, kind }, order) => {
    const there = middles.map((_, k) => k).filter((k) => line.value[k] !== null);
    const bound = there.filter((k) => line.low[k] !== null && line.high[k] !== null);
    const y = (/** @type {number | null} */ value) => place.y(Math.min(Number(value), top));
    const upper = bound.map((k) => `${place.x(middles[k])} ${y(line.high[k])}`);
    const lower = bound.map((k) => `${place.x(middles[k])} ${y(line.low[k])}`).reverse();
    if (bound.length > 1)
      picture.append(vector("path", { d: `M${[...upper, ...lower].join("L")}Z`, class: `band ${kind}` }));
    const path = there.map((k) => `${place.x(middles[k])} ${y(line.value[k])}`).join("L");
    if (there.length) picture.append(vector("path", { d: `M${path}`, class: `line ${kind}` }));
    picture.append(
      vector("path", { d: `M${width - 150} ${16 + 15 * order}h16`, class: `line ${kind}` }),
      vector("text", { x: width - 128, y: 20 + 15 * order }, name),
    );
  });
  return picture;
}

/**
 * @param {number[]} values
 * @param {number} share
 */
function quantile(values, share) {
  const ordered = [...values].sort((a, b) => a - b);
  return ordered.length ? ordered[Math.min(ordered.length - 1, Math.floor(share * ordered.length))] : 1;
}

/**
 * A number with its interval on a short axis, with no effect and the smallest effect that matters marked. Ratios may
 * be drawn by their logarithms.
 * @param {{
 *   value: number | null, low: number | null, high: number | null, none: number, bound: number | null,
 *   range: [number, number], width: number, kind: string, label: string, ratio?: boolean,
 * }} spec
 */
export function interval({ value, low, high, none, bound, range, width, kind, label, ratio = false }) {
  const height = 26;
  const picture = vector("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    class: `chart intervals ${kind}`,
    role: "img",
    "aria-label": label,
  });
  const scaled = (/** @type {number} */ at) => (ratio ? Math.log(Math.max(at, 0.05)) : at);
  const [from, to] = range.map(scaled);
  const x = (/** @type {number} */ at) =>
    6 + ((Math.min(Math.max(scaled(at), from), to) - from) / (to - from || 1)) * (width - 12);
  picture.append(
    vector("line", { x1: 6, x2: width - 6, y1: 13, y2: 13, class: "grid" }),
    vector("line", { x1: x(none), x2: x(none), y1: 5, y2: 21, class: "none" }),
  );
  if (bound !== null) {
    picture.append(
      vector("rect", { x: x(bound), y: 3, width: Math.max(0, width - 6 - x(bound)), height: 20, class: "beyond" }),
      vector("line", { x1: x(bound), x2: x(bound), y1: 3, y2: 23, class: "bound" }),
    );
  }
  if (value === null) return picture;
  if (low !== null && high !== null)
    picture.append(vector("line", { x1: x(low), x2: x(high), y1: 13, y2: 13, class: "interval wide" }));
  picture.append(vector("circle", { cx: x(value), cy: 13, r: 4, class: "dot" }));
  return picture;
}
