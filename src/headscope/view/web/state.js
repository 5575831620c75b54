// What is being looked at. It lives in the address, so that a view can be shared and found again.

/**
 * @typedef {"similarity" | "level" | "attention" | "received" | "norms"} Shown
 * @typedef {"median" | "share" | "pooled"} Summing
 * @typedef {{id: string, text: string, layer: number, head: number, reading: string}} Pin
 * @typedef {{
 *   page: "text" | "run",
 *   text: string, id: string, options: Record<string, any>,
 *   layer: number, head: number, reading: string, tau: number, theta: number,
 *   show: Shown, mask: boolean, arcs: boolean, top: boolean,
 *   token: number, x: number, y: number, n: number,
 *   score: string, ranked: boolean, pin: Pin | null,
 *   runLayer: number, runHead: number, runScore: string, runRanked: boolean, runTau: number, runTheta: number,
 *   runWay: string, runSum: Summing, runOpen: string, runStack: string,
 *   theme: "auto" | "light" | "dark", asked: number,
 * }} State
 * @typedef {{get: () => State, set: (patch: Partial<State>) => void, on: (listener: Listener) => void}} Store
 * @typedef {(state: State, before: State) => void} Listener
 */

export const SHOWN = /** @type {Shown[]} */ (["similarity", "level", "attention", "received", "norms"]);
export const SUMMING = /** @type {Summing[]} */ (["median", "share", "pooled"]);
const LONGEST_IN_ADDRESS = 6000;
const ALWAYS = ["layer", "head", "reading", "tau", "theta"]; // a viewer may have been started with others than the usual ones

/** @returns {State} */
export function beginning() {
  return {
    page: "text",
    text: "",
    id: "",
    options: {},
    layer: -1,
    head: 0,
    reading: "", // the text's main one
    tau: 10,
    theta: 0.3,
    show: "level",
    mask: false,
    arcs: true,
    top: false, // the pairs that stand highest, instead of those from τ on
    token: -1,
    x: 0,
    y: 0,
    n: 0,
    score: "separator_focus_stop",
    ranked: false,
    pin: null,
    runLayer: -1,
    runHead: -1,
    runScore: "",
    runRanked: false,
    runTau: 0,
    runTheta: 0,
    runWay: "tau", // how S is read: as the paper does, or through the top pairs of a reading
    runSum: "median", // what stands for the heads of a layer
    runOpen: "", // claims whose rows are open, with commas between
    runStack: "", // the stack of the model; as the viewer was started
    theme: "auto",
    asked: 0, // how often a text was sent
  };
}

/** @type {Record<string, keyof State>} */
const NUMBERS = {
  layer: "layer",
  head: "head",
  tau: "tau",
  theta: "theta",
  token: "token",
  x: "x",
  y: "y",
  n: "n",
  rlayer: "runLayer",
  rhead: "runHead",
  rtau: "runTau",
  rtheta: "runTheta",
};
/** @type {Record<string, keyof State>} */
const WORDS = {
  text: "text",
  id: "id",
  reading: "reading",
  score: "score",
  rscore: "runScore",
  rway: "runWay",
  ropen: "runOpen",
  rstack: "runStack",
};
/** @type {Record<string, keyof State>} */
const SWITCHES = { mask: "mask", arcs: "arcs", top: "top", ranked: "ranked", rranked: "runRanked" };

/**
 * The state as it stands in an address; only what differs from the beginning. τ is written as a share.
 * @param {State} state
 */
export function written(state) {
  const usual = beginning();
  const params = new URLSearchParams();
  for (const names of [NUMBERS, WORDS, SWITCHES]) {
    for (const [name, key] of Object.entries(names)) {
      const value = /** @type {any} */ (state[key]);
      if (value === usual[key] && !ALWAYS.includes(name)) continue;
      if (name === "text" && value.length > LONGEST_IN_ADDRESS) continue;
      if (name === "tau" || name === "rtau") params.set(name, String(value / 20));
      else params.set(name, typeof value === "boolean" ? (value ? "1" : "0") : String(value));
    }
  }
  params.set("page", state.page);
  if (state.show !== usual.show) params.set("show", state.show);
  if (state.runSum !== usual.runSum) params.set("rsum", state.runSum);
  if (state.theme !== usual.theme) params.set("theme", state.theme);
  for (const [name, value] of Object.entries(state.options)) params.set(`o.${name}`, String(value));
  if (state.pin) {
    params.set("pin", `${state.pin.id}.${state.pin.layer}.${state.pin.head}.${state.pin.reading}`);
    if (state.pin.text !== state.text && state.pin.text.length <= LONGEST_IN_ADDRESS)
      params.set("ptext", state.pin.text);
  }
  return params.toString();
}

/**
 * The other way round. An address is anybody's: what makes no sense is left out.
 * @param {string} address
 * @returns {Partial<State>}
 */
export function read(address) {
  const params = new URLSearchParams(address);
  /** @type {Record<string, any>} */
  const state = {};
  for (const [name, key] of Object.entries(NUMBERS)) {
    const value = Number(params.get(name) ?? "x");
    if (Number.isFinite(value)) state[key] = name === "tau" || name === "rtau" ? Math.round(value * 20) : value;
  }
  for (const [name, key] of Object.entries(WORDS)) if (params.has(name)) state[key] = params.get(name);
  if (!/^t[0-9a-f]{20}$/.test(state.id ?? "")) delete state.id;
  for (const [name, key] of Object.entries(SWITCHES)) if (params.has(name)) state[key] = params.get(name) === "1";
  for (const name of ["layer", "head", "token", "runLayer", "runHead"]) {
    if (name in state && !Number.isInteger(state[name])) delete state[name];
  }
  if ("tau" in state) state.tau = Math.min(Math.max(state.tau, 1), 19);
  if ("theta" in state) state.theta = Math.min(Math.max(state.theta, 0), 0.99);
  if ("runTau" in state) state.runTau = Math.min(Math.max(state.runTau, 1), 19);
  if ("runTheta" in state) state.runTheta = Math.min(Math.max(state.runTheta, 0), 0.95);
  if (["text", "run"].includes(params.get("page") ?? "")) state.page = params.get("page");
  if (SHOWN.includes(/** @type {Shown} */ (params.get("show")))) state.show = params.get("show");
  if (SUMMING.includes(/** @type {Summing} */ (params.get("rsum")))) state.runSum = params.get("rsum");
  if (["auto", "light", "dark"].includes(params.get("theme") ?? "")) state.theme = params.get("theme");
  const options = [...params].filter(([name]) => name.startsWith("o.")).map(([name, value]) => [name.slice(2), value]);
  if (options.length) state.options = Object.fromEntries(options.map(([name, value]) => [name, typed(name, value)]));
  const pin = /^(t[0-9a-f]{20})\.(\d{1,4})\.(\d{1,4})\.([a-z]{0,16})$/.exec(params.get("pin") ?? "");
  if (pin) {
    const text = params.get("ptext") ?? state.text ?? "";
    state.pin = { id: pin[1], layer: Number(pin[2]), head: Number(pin[3]), reading: pin[4], text };
  }
  return state;
}

/**
 * @param {string} name
 * @param {string} value
 */
function typed(name, value) {
  if (name === "readings") return value.split(","); // the one option of which there may be several
  if (value === "true" || value === "false") return value === "true";
  return /^\d{1,8}$/.test(value) ? Number(value) : value;
}

/**
 * Asks whether any of some keys differs between two states.
 * @param {State} state
 * @param {State} before
 */
export function differing(state, before) {
  return (/** @type {(keyof State)[]} */ ...keys) => keys.some((each) => state[each] !== before[each]);
}

/**
 * @param {State} state
 * @returns {Store}
 */
export function store(state) {
  /** @type {Listener[]} */
  const listeners = [];
  return {
    get: () => state,
    set: (patch) => {
      const before = state;
      if (Object.entries(patch).every(([key, value]) => before[/** @type {keyof State} */ (key)] === value)) return;
      state = { ...state, ...patch };
      for (const listener of listeners) listener(state, before);
    },
    on: (listener) => listeners.push(listener),
  };
}
