// The same view on a phone beside this machine: its address as a QR code, or how to make the server answer to one.

import { html, refill } from "./dom.js";

/** @typedef {import("./source.js").Source} Source */

const LONGEST = 1_200; // characters of an address that a camera still reads well

/**
 * What of an address a QR code has room for: a text that was read goes by its name, which the server knows.
 * @param {string} address
 */
function brief(address) {
  const params = new URLSearchParams(address);
  for (const name of ["text", "ptext"]) params.delete(name);
  const whole = params.toString();
  return whole.length <= LONGEST ? whole : "";
}

/** @param {Source} source */
export function phoneDialog(source) {
  const body = html("div", {});
  const root = html(
    "dialog",
    { class: "help phone", "aria-label": "On a phone" },
    html("h2", {}, "On a phone"),
    body,
    html("form", { method: "dialog" }, html("button", {}, "Close")),
  );

  /** @param {string} address what is looked at, as it stands in the address */
  async function open(address) {
    if (!source.phone) return;
    const answer = await source.phone(brief(address));
    if (answer.address) {
      refill(
        body,
        html("img", { class: "qr", src: answer.picture, alt: "QR code of the address below" }),
        html("p", {}, "Point the phone's camera here. It must be in the same network as this machine."),
        html("p", { class: "address" }, answer.address),
        html("p", { class: "note" }, "Whoever has this address can look and type here too; nothing is encrypted."),
      );
    } else {
      refill(
        body,
        html(
          "p",
          {},
          "This viewer answers on its own machine only. To open it to a phone, end it there (Ctrl-C) and add",
        ),
        html("pre", {}, "--host 0.0.0.0"),
        html(
          "p",
          {},
          "Then everybody in the same network who has the address can look and type, and nothing is encrypted. Or take " +
            "the page along: Export, One HTML file.",
        ),
      );
    }
    root.showModal();
  }

  return { root, open };
}
