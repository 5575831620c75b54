// Texts as they are asked for: by name where they are still in memory, else by their words; and the same text again in
// another window or stack.

import { Refusal } from "./source.js";

/** @typedef {import("./head.js").Text} Text */
/** @typedef {import("./source.js").Source} Source */
/** @typedef {import("./state.js").Store} Store */

/**
 * @param {Source} source
 * @param {Store} store
 */
export function textsOf(source, store) {
  /** A text that is read again for another window or stack: the server may hold more of it than can be sent. */
  let again = { id: "", text: "" };

  /**
   * Have a text read. A new one begins with its whole matrix, and no token kept.
   * @param {string} words
   * @param {Record<string, any>} options
   */
  function want(words, options) {
    const asked = store.get().asked + 1; // the same text may be sent again
    store.set({ text: words, id: "", options, asked, token: -1, x: 0, y: 0, n: 0 });
  }

  return {
    /**
     * A text that was typed, in the stack that is looked at.
     * @param {string} words
     * @param {Record<string, any>} options
     */
    ask: (words, options) => {
      const { stack } = store.get().options;
      again = { id: "", text: "" };
      want(words, stack ? { ...options, stack } : options);
    },
    /**
     * The same text read in another way.
     * @param {Text} text
     * @param {Record<string, any>} options those that change
     */
    askAgain: (text, options) => {
      again = { id: text.id, text: text.texts[0] ?? "" };
      want(again.text, { ...store.get().options, ...options });
    },
    /**
     * A text by its name; a text that is not in memory any more is read again.
     * @param {string} id
     * @param {string} words
     * @param {Record<string, any>} options
     * @returns {Promise<Text>}
     */
    fetch: async (id, words, options) => {
      if (!id && again.id && again.text === words && source.inspect) {
        try {
          return await source.inspect({ again: again.id, ...options });
        } catch (error) {
          if (!(error instanceof Refusal) || error.status !== 404) throw error;
        }
      }
      if (id) {
        try {
          return await source.get(`texts/${id}`);
        } catch (error) {
          if (!(error instanceof Refusal) || error.status !== 404 || !source.inspect || !words) throw error;
        }
      }
      if (!source.inspect) throw new Error("This text is not in the file.");
      return await source.inspect({ text: words, ...options });
    },
  };
}
