// The numbers of a run's scores, fetched a few at a time: what is looked at first, the rest as there is room.

import { pathOf } from "./ways.js";

/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./source.js").Tensors} Tensors */
/** @typedef {import("./ways.js").Quantity} Quantity */
/** @typedef {(number | null)[]} Row */

const AT_ONCE = 3; // questions under way

/** What stands in the rows of a layer's numbers. */
const OF_LAYERS = /** @type {const} */ (["value", "low", "high", "lower", "upper", "share", "pooled"]);

/**
 * @param {Source} source
 * @param {string} run where the run's answers are
 */
export function runNumbers(source, run) {
  /** @type {Map<string, Tensors>} */
  const here = new Map();
  /** @type {(() => void)[]} */
  const waiting = [];
  let asking = 0;

  function next() {
    while (asking < AT_ONCE && waiting.length) {
      asking++;
      /** @type {() => void} */ (waiting.shift())();
    }
  }

  /**
   * @param {Quantity} quantity
   * @param {string} way
   * @param {number} step τ in twentieths
   * @param {boolean} [first] before everything that waits
   * @returns {Promise<Tensors>}
   */
  function get(quantity, way, step, first = false) {
    const path = pathOf(quantity, way, step);
    const known = here.get(path);
    if (known) return Promise.resolve(known);
    return new Promise((resolve, reject) => {
      const ask = () =>
        source
          .get(`${run}/${path}`)
          .then((tensors) => {
            here.set(path, tensors);
            resolve(tensors);
          }, reject)
          .finally(() => {
            asking--;
            next();
          });
      if (first) waiting.unshift(ask);
      else waiting.push(ask);
      next();
    });
  }

  return {
    get,
    /** What is here already. @type {(quantity: Quantity, way: string, step: number) => Tensors | undefined} */
    now: (quantity, way, step) => here.get(pathOf(quantity, way, step)),
  };
}

/** @typedef {ReturnType<typeof runNumbers>} RunNumbers */

/**
 * The numbers of layers by name; null where there is none.
 * @param {Tensors} tensors
 * @returns {Record<typeof OF_LAYERS[number], Row>}
 */
export function ofLayers(tensors) {
  const { data, shape } = tensors.layers;
  const rows = OF_LAYERS.map((name, k) => [name, plain(data.subarray(k * shape[1], (k + 1) * shape[1]))]);
  return Object.fromEntries(rows);
}

/**
 * The numbers of layers in each control run.
 * @param {Tensors} tensors
 * @returns {Row[]}
 */
export function ofControls(tensors) {
  if (!tensors.controls) return [];
  const { data, shape } = tensors.controls;
  return Array.from({ length: shape[0] }, (_, k) => plain(data.subarray(k * shape[1], (k + 1) * shape[1])));
}

/**
 * @param {import("./source.js").Tensor["data"]} values
 * @returns {Row}
 */
export function plain(values) {
  return Array.from(values, (each) => (Number.isNaN(each) ? null : each));
}
