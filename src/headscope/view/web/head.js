// One head and one text: the numbers behind everything that is drawn of it. Levels and bins come from Python; here they
// are only counted, and a threshold is a sum over bins.

/** @typedef {import("./source.js").Tensors} Tensors */

/**
 * A text as the desk describes it.
 * @typedef {{
 *   label: string[], category: string[], sentence: number[], word: number[], part: number[],
 *   start: number[], end: number[], unknown: boolean[], counting?: boolean[], same?: number[],
 * }} Tokens
 * @typedef {{name: string, label: string, base: number | null, meaning: string, examples?: string}} Score
 * @typedef {{
 *   id: string, model: string, stack: string, shown: string, layers: number[], heads: number,
 *   options: Record<string, any>, texts: string[], first: number, total: number, tokens: Tokens, keys: Tokens | null,
 *   same_labels: string[], scores: Score[], relations: string[], readings: string[], bands: number[],
 *   maps_kept: boolean, unfamiliar: string, stacks?: string[],
 * }} Text
 */

export const BINS = 21;
const ORDER_BINS = 16; // of all pairs by their order, about as many in each
const FIRST = 64; // the strongest pairs, which are asked for again and again

/**
 * Where the pair i < j stands among the pairs of so many, row by row.
 * @param {number} i
 * @param {number} j
 * @param {number} size
 */
export function pairPlace(i, j, size) {
  return (i * (2 * size - i - 1)) / 2 + (j - i - 1);
}

/**
 * The reading that is asked for, where the text has it, else its main one.
 * @param {Text} text
 * @param {string} asked
 */
export function readingOf({ readings }, asked) {
  return readings.includes(asked) ? asked : readings[0];
}

/** The pairs of a text: which tokens count, how pairs are related. The same for all heads. */
export class Pairs {
  /**
   * @param {Text} text
   * @param {Tensors} tensors
   */
  constructor(text, tensors) {
    const counting = text.tokens.counting ?? [];
    this.size = counting.length;
    this.relation = /** @type {Uint8Array} */ (tensors.relation.data);
    /** The tokens that count, in their order. @type {number[]} */
    this.places = [];
    /** Each token's place among them, or -1. */
    this.rank = new Int32Array(this.size).fill(-1);
    counting.forEach((counts, place) => {
      if (!counts) return;
      this.rank[place] = this.places.length;
      this.places.push(place);
    });
    this.number = this.relation.length;
    this.same = text.tokens.same ?? [];
    this.kinds = text.same_labels.length;
    /** The band of each distance; bands are named by the last distance of each. */
    this.band = new Uint8Array(this.size);
    for (let distance = 1, band = 0; distance < this.size; distance++) {
      if (distance > text.bands[band]) band++;
      this.band[distance] = band;
    }
    this.bands = text.bands.length;
    /** How many pairs lie at each distance: the base rate. */
    this.base = new Float64Array(this.size);
    /** And how many of each relation. */
    this.related = new Float64Array(text.relations.length);
    this.each((i, j, p) => {
      this.base[j - i]++;
      this.related[this.relation[p]]++;
    });
  }

  /** @param {(i: number, j: number, p: number) => void} visit */
  each(visit) {
    const { places } = this;
    let p = 0;
    for (let a = 0; a < places.length; a++)
      for (let b = a + 1; b < places.length; b++) visit(places[a], places[b], p++);
  }

  /**
   * The number of a pair of tokens, in any order; -1 where it is none.
   * @param {number} i
   * @param {number} j
   */
  place(i, j) {
    const [a, b] = [this.rank[i], this.rank[j]];
    if (a < 0 || b < 0 || a === b) return -1;
    return a < b ? pairPlace(a, b, this.places.length) : pairPlace(b, a, this.places.length);
  }
}

/**
 * @param {Float64Array} received
 * @param {Float64Array} among NaN for tokens that do not count
 */
function receivedShare(received, among) {
  let largest = 0;
  received.forEach((value, k) => {
    if (!Number.isNaN(among[k]) && value > largest) largest = value;
  });
  return received.map((value) => (largest ? value / largest : value));
}

/** What one head made of a text: pairs are high from a level on, or, in `byOrder`, where they are top pairs. */
export class Head {
  /**
   * @param {Text} text
   * @param {Pairs} pairs
   * @param {Tensors} tensors
   * @param {number} layer
   * @param {number} head
   * @param {string} reading
   * @param {boolean} [top] whether the top pairs are the high ones, at any τ
   */
  constructor(text, pairs, tensors, layer, head, reading, top = false) {
    this.text = text;
    this.pairs = pairs;
    this.layer = layer;
    this.head = head;
    this.reading = reading;
    this.top = top;
    this.size = pairs.size;
    this.similarity = /** @type {Float32Array} */ (tensors.similarity.data);
    this.order = /** @type {Uint8Array} */ (tensors.order.data);
    const last = tensors.has_top.data[0] ? ORDER_BINS - 1 : ORDER_BINS; // a window may be too small to have top pairs
    this.bin = top
      ? this.order.map((bin) => (bin === last ? BINS - 1 : 0))
      : /** @type {Uint8Array} */ (tensors.bin.data);
    /** The same head by its top pairs, made when it is first asked for. */
    this.byOrder = () => (this.ordered ??= new Head(text, pairs, tensors, layer, head, reading, true));
    /** @type {Head | null} */
    this.ordered = null;
    this.norms = /** @type {Float32Array} */ (tensors.norms.data);
    this.received = /** @type {Float64Array} */ (tensors.received.data);
    this.receivedText = /** @type {Float64Array} */ (tensors.received_text.data);
    /** The attention received as a share of the largest among the tokens that count; special tokens may pass 1. */
    this.receivedShare = receivedShare(this.received, this.receivedText);
    this.flat = tensors.flat.data[0] === 1;
    this.ranks = tensors.level ? /** @type {Float64Array} */ (tensors.level.data) : null;
    this.attention = /** @type {Float32Array | null} */ (null);
    this.largest = -Infinity;
    this.widest = 0; // the largest |S| of a pair
    const kinds = Math.max(pairs.kinds, 1);
    /** Pairs by bin and distance, by bin and relation, by bin and token; and those of a token with itself. */
    this.byDistance = new Float64Array(BINS * this.size);
    this.byRelation = new Float64Array(BINS * text.relations.length);
    this.byToken = new Float64Array(BINS * kinds);
    this.withItself = new Float64Array(BINS * kinds);
    this.inBin = new Float64Array(BINS);
    /** @type {{i: number, j: number, p: number}[] | null} */
    this.first = null;
    /** @type {{theta: number, mask: {inside: boolean[], number: number, auc: number}} | null} */
    this.masked = null;
    pairs.each((i, j, p) => {
      const value = this.similarity[pairPlace(i, j, this.size)];
      if (value > this.largest) this.largest = value;
      if (Math.abs(value) > this.widest) this.widest = Math.abs(value);
      const bin = this.bin[p];
      this.inBin[bin]++;
      this.byDistance[bin * this.size + j - i]++;
      this.byRelation[bin * text.relations.length + pairs.relation[p]]++;
      const [a, b] = [pairs.same[i], pairs.same[j]];
      this.byToken[bin * kinds + a]++;
      this.byToken[bin * kinds + b]++;
      if (a === b) this.withItself[bin * kinds + a]++;
    });
  }

  /**
   * S of two tokens.
   * @param {number} i
   * @param {number} j
   */
  value(i, j) {
    if (i === j) return 0;
    return this.similarity[i < j ? pairPlace(i, j, this.size) : pairPlace(j, i, this.size)];
  }

  /**
   * The level of a pair, NaN where two tokens are none or the head is flat.
   * @param {number} i
   * @param {number} j
   */
  level(i, j) {
    const p = this.pairs.place(i, j);
    if (p < 0 || this.flat) return NaN;
    return this.ranks ? this.ranks[p] : this.value(i, j) / this.largest;
  }

  /**
   * Whether a pair is high at τ = step/20.
   * @param {number} i
   * @param {number} j
   * @param {number} step
   */
  high(i, j, step) {
    const p = this.pairs.place(i, j);
    return p >= 0 && this.bin[p] >= step + 1;
  }

  /**
   * A table by bin, summed over the bins that are high.
   * @param {Float64Array} table
   * @param {number} step
   */
  above(table, step) {
    const width = table.length / BINS;
    const sums = new Float64Array(width);
    for (let bin = step + 1; bin < BINS; bin++) {
      for (let k = 0; k < width; k++) sums[k] += table[bin * width + k];
    }
    return sums;
  }

  /**
   * All counts at one τ.
   * @param {number} step
   */
  counts(step) {
    const distance = this.above(this.byDistance, step);
    const relation = this.above(this.byRelation, step);
    const times = this.above(this.byToken, step);
    const itself = this.above(this.withItself, step);
    const high = relation.reduce((sum, n) => sum + n, 0);
    let focal = -1;
    if (high > 0) {
      focal = 0;
      for (let t = 1; t < times.length; t++) if (times[t] > times[focal]) focal = t; // the first of equals
    }
    const share = focal < 0 ? NaN : (times[focal] - itself[focal]) / high;
    return { high, distance, relation, times, focal, share };
  }

  /**
   * The tokens with high attention among those that count, and how often a pair of two such tokens stands above a pair
   * of two others of the same band of distances; ties half.
   * @param {number} theta
   */
  mask(theta) {
    if (this.masked?.theta === theta) return this.masked.mask;
    const { pairs, order } = this;
    const inside = Array.from(this.receivedText, (a) => a > theta);
    const [both, none] = [0, 1].map(() => new Float64Array(pairs.bands * ORDER_BINS));
    if (!this.text.keys) {
      pairs.each((i, j, p) => {
        if (inside[i] !== inside[j]) return;
        (inside[i] ? both : none)[pairs.band[j - i] * ORDER_BINS + order[p]]++;
      });
    }
    const mask = { inside, number: inside.filter(Boolean).length, auc: above(both, none) };
    this.masked = { theta, mask };
    return mask;
  }

  /**
   * The strongest pairs that are high, those of one token where one is named.
   * @param {number} step
   * @param {number} most
   * @param {number} [token]
   * @returns {{i: number, j: number, p: number}[]}
   */
  strongest(step, most, token = -1) {
    /** @type {{i: number, j: number, p: number}[]} */
    const pairs = [];
    if (this.flat) return pairs;
    if (token < 0 && most <= FIRST) {
      this.first ??= this.strongest(0, FIRST + 1).slice(0, FIRST); // at any τ the strongest are the first of these
      return this.first.filter(({ p }) => this.bin[p] >= step + 1).slice(0, most);
    }
    let least = step + 1;
    for (let bin = BINS - 1, number = 0; token < 0 && bin > least; bin--) {
      number += this.inBin[bin];
      if (number >= most) least = bin; // those of higher bins are enough
    }
    if (token >= 0) {
      for (const other of this.pairs.places) {
        if (other !== token && this.high(token, other, step)) {
          const [i, j] = [Math.min(token, other), Math.max(token, other)];
          pairs.push({ i, j, p: this.pairs.place(i, j) });
        }
      }
    } else {
      this.pairs.each((i, j, p) => {
        if (this.bin[p] >= least) pairs.push({ i, j, p });
      });
    }
    pairs.sort((a, b) => this.value(b.i, b.j) - this.value(a.i, a.j));
    return pairs.slice(0, most);
  }
}

/**
 * How often one kind of pairs stands above another, band by band: counts by band and bin of order. A band weighs no more
 * than the smaller of its two kinds; NaN where no band has both.
 * @param {Float64Array} ones
 * @param {Float64Array} zeros
 */
function above(ones, zeros) {
  let [wins, weights] = [0, 0];
  for (let band = 0; band < ones.length; band += ORDER_BINS) {
    let [one, zero, won] = [0, 0, 0];
    for (let bin = band; bin < band + ORDER_BINS; bin++) {
      won += ones[bin] * (zero + zeros[bin] / 2);
      one += ones[bin];
      zero += zeros[bin];
    }
    if (!one || !zero) continue;
    wins += won / (one + zero);
    weights += (one * zero) / (one + zero);
  }
  return weights ? wins / weights : NaN;
}
