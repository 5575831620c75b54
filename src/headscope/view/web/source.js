// Where answers come from: a server, the page itself, or a notebook's kernel. All are asked by path.

/**
 * Numbers with a shape, as they came over the wire.
 * @typedef {{data: Float32Array | Float64Array | Uint8Array | Int32Array, shape: number[]}} Tensor
 * @typedef {Record<string, Tensor>} Tensors
 * @typedef {{
 *   home: "server" | "file" | "notebook",
 *   get: (path: string) => Promise<any>,
 *   inspect: ((asked: Record<string, unknown>) => Promise<any>) | null,
 *   download: ((path: string) => Promise<Blob>) | null,
 *   save: ((asked: Record<string, unknown>, tell: (done: number, of: number) => void) => Promise<Blob>) | null,
 *   phone: ((address: string) => Promise<{address: string, picture: string}>) | null,
 *   close?: () => void,
 * }} Source
 */

const MOST_BYTES = 256e6; // of answers kept
const TRIES = 8;
const AGAIN = 500; // milliseconds until a file that is being written is asked for again

/**
 * Read the safetensors format: a length, a description in JSON, then the numbers.
 * @param {ArrayBuffer} buffer
 * @returns {Tensors}
 */
export function tensors(buffer) {
  const size = Number(new DataView(buffer).getBigUint64(0, true));
  const about = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
  const kinds = { F64: Float64Array, F32: Float32Array, U8: Uint8Array, I32: Int32Array };
  /** @type {Tensors} */
  const byName = {};
  for (const [name, each] of Object.entries(about)) {
    if (name === "__metadata__") continue;
    const kind = kinds[/** @type {keyof typeof kinds} */ (each.dtype)];
    const [begin, end] = each.data_offsets;
    const from = 8 + size + begin;
    // Numbers must begin at a multiple of their size; where they do not, they are moved.
    const aligned = from % kind.BYTES_PER_ELEMENT === 0;
    const length = (end - begin) / kind.BYTES_PER_ELEMENT;
    const data = aligned ? new kind(buffer, from, length) : new kind(buffer.slice(from, 8 + size + end));
    byName[name] = { data, shape: each.shape };
  }
  return byName;
}

/** A request that was refused, with its status. */
export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {string} why
   */
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

/**
 * Keep answers by path, the oldest going first; the same question twice is asked once.
 * @param {(path: string) => Promise<{value: any, bytes: number}>} ask
 */
function remembering(ask) {
  /** @type {Map<string, {promise: Promise<any>, bytes: number}>} */
  const kept = new Map();
  return (/** @type {string} */ path) => {
    const known = kept.get(path);
    if (known) {
      kept.delete(path);
      kept.set(path, known);
      return known.promise;
    }
    const entry = {
      bytes: 0,
      promise: ask(path).then(
        ({ value, bytes }) => {
          if (value?.ready === false) kept.delete(path); // it is still being worked out
          entry.bytes = bytes;
          let total = 0;
          for (const each of kept.values()) total += each.bytes;
          for (const [other, each] of kept) {
            if (total <= MOST_BYTES || other === path) break;
            total -= each.bytes;
            kept.delete(other);
          }
          return value;
        },
        (error) => {
          kept.delete(path);
          throw error;
        },
      ),
    };
    kept.set(path, entry);
    return entry.promise;
  };
}

/**
 * The server that the page came from.
 * @param {string} token
 * @returns {Source}
 */
export function serverSource(token) {
  /**
   * @param {string} path
   * @param {RequestInit} [options]
   * @returns {Promise<Response>}
   */
  async function ask(path, options = {}) {
    for (let attempt = 1; ; attempt++) {
      let response;
      try {
        response = await fetch(`api/${path}`, {
          ...options,
          headers: { "x-headscope-token": token, ...(options.body ? { "content-type": "application/json" } : {}) },
        });
      } catch {
        throw new Refusal(0, "The server does not answer. Is headscope view still running?");
      }
      if (response.ok) return response;
      if (response.status === 503 && attempt < TRIES) {
        await new Promise((resolve) => setTimeout(resolve, 150 * 2 ** Math.min(attempt, 4) * (0.5 + Math.random())));
        continue;
      }
      const answer = await response.json().catch(() => ({}));
      throw new Refusal(response.status, answer.error ?? `The server answered ${response.status}.`);
    }
  }
  /**
   * @param {string} path
   * @param {Record<string, unknown>} asked
   */
  const post = (path, asked) => ask(path, { method: "POST", body: JSON.stringify(asked) });
  return {
    home: "server",
    get: remembering(async (path) => {
      const response = await ask(path);
      if ((response.headers.get("content-type") ?? "").includes("json")) {
        return { value: await response.json(), bytes: 0 };
      }
      const buffer = await response.arrayBuffer();
      return { value: tensors(buffer), bytes: buffer.byteLength };
    }),
    inspect: async (asked) => (await post("texts", asked)).json(),
    download: async (path) => (await ask(path)).blob(),
    save: async (asked, tell) => {
      let answer = await (await post("files", asked)).json();
      while (!answer.ready) {
        tell(answer.done, answer.of);
        await new Promise((resolve) => setTimeout(resolve, AGAIN));
        answer = await (await ask(`files/${answer.name}`)).json();
      }
      return (await ask(`files/${answer.name}/view.html`)).blob();
    },
    phone: async (address) => (await post("phone", { address })).json(),
  };
}

/**
 * Answers that lie in the page itself, compressed.
 * @param {Document} page
 * @returns {Source}
 */
export function fileSource(page) {
  /** @type {Map<string, HTMLElement>} */
  const held = new Map();
  for (const each of /** @type {NodeListOf<HTMLElement>} */ (page.querySelectorAll("script[data-path]"))) {
    held.set(each.dataset.path ?? "", each);
  }
  return {
    home: "file",
    get: remembering(async (path) => {
      const element = held.get(path);
      if (!element) throw new Refusal(404, "This file does not hold that; the viewer itself can work it out.");
      const packed = Uint8Array.from(atob(element.textContent ?? ""), (character) => character.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      const response = new Response(stream);
      if (element.dataset.kind === "j") return { value: await response.json(), bytes: 0 };
      const buffer = await response.arrayBuffer();
      return { value: tensors(buffer), bytes: buffer.byteLength };
    }),
    inspect: null,
    download: null,
    save: null,
    phone: null,
  };
}

/**
 * A notebook's kernel, asked through the widget's messages.
 * @param {any} model anywidget's
 * @returns {Source}
 */
export function kernelSource(model) {
  /** @type {Map<number, {resolve: (value: any) => void, reject: (error: Error) => void}>} */
  const waiting = new Map();
  // Every view of a widget hears every answer, so each begins to count somewhere else.
  let last = Math.floor(Math.random() * 2 ** 50);
  const hear = (/** @type {any} */ message, /** @type {any[]} */ buffers) => {
    const waits = waiting.get(message.number);
    if (!waits) return;
    waiting.delete(message.number);
    if (message.error) return waits.reject(new Refusal(message.status, message.error));
    if (!message.binary) return waits.resolve({ value: message.value, bytes: 0 });
    const view = buffers[0];
    const whole =
      view instanceof ArrayBuffer
        ? new Uint8Array(view)
        : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    const buffer = whole.slice().buffer;
    waits.resolve({ value: tensors(buffer), bytes: buffer.byteLength });
  };
  model.on("msg:custom", hear);
  /** @param {Record<string, unknown>} question */
  const ask = (question) =>
    new Promise((resolve, reject) => {
      const number = ++last;
      waiting.set(number, { resolve, reject });
      try {
        model.send({ number, ...question });
      } catch {
        waiting.delete(number);
        reject(new Refusal(0, "The kernel does not answer. Run the cell again."));
      }
    });
  return {
    home: "notebook",
    get: remembering((path) => /** @type {Promise<any>} */ (ask({ path }))),
    inspect: model.get("can_inspect")
      ? async (asked) => /** @type {any} */ (await ask({ inspect: asked })).value
      : null,
    download: null,
    save: null,
    phone: null,
    close: () => model.off("msg:custom", hear),
  };
}
