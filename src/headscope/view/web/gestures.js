// Mouse, pen and fingers on the matrix: pointing, keeping, dragging, zooming.

import { clamp } from "./dom.js";

/**
 * @typedef {{whole: number, n: number, x: number, y: number, cell: number}} Box
 * @param {HTMLCanvasElement} canvas
 * @param {{
 *   layout: () => Box | null,
 *   under: (event: PointerEvent | MouseEvent | WheelEvent) => {i: number, j: number, fx: number, fy: number} | null,
 *   zoom: (factor: number, fx?: number, fy?: number) => void,
 *   onhover: (i: number, j: number) => void,
 *   onpick: (i: number, j: number) => void,
 *   onmove: (x: number, y: number, n: number) => void,
 * }} events
 */
export function gestures(canvas, { layout, under, zoom, ...events }) {
  /** @type {Map<number, PointerEvent>} */
  const fingers = new Map();
  /** @type {{clientX: number, clientY: number, x: number, y: number, moved: boolean} | null} */
  let dragged = null;
  let spread = 0;
  canvas.addEventListener("pointerdown", (event) => {
    const box = layout();
    if (!box) return;
    fingers.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    dragged = { clientX: event.clientX, clientY: event.clientY, x: box.x, y: box.y, moved: false };
    spread = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
    const box = layout();
    if (!box) return;
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()];
      const apart = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      if (spread && Math.abs(apart - spread) > 24) {
        zoom(spread / apart);
        spread = apart;
      } else if (!spread) spread = apart;
      return;
    }
    if (dragged && fingers.size === 1) {
      const [dx, dy] = [event.clientX - dragged.clientX, event.clientY - dragged.clientY];
      if (Math.hypot(dx, dy) > 4) dragged.moved = true;
      if (dragged.moved && box.n < box.whole) {
        const bound = box.whole - box.n;
        const x = clamp(0, Math.round(dragged.x - dx / box.cell), bound);
        events.onmove(x, clamp(0, Math.round(dragged.y - dy / box.cell), bound), box.n);
        return;
      }
    }
    const spot = under(event);
    if (spot) events.onhover(spot.i, spot.j);
    else events.onhover(-1, -1);
  });
  const lifted = (/** @type {PointerEvent} */ event) => {
    fingers.delete(event.pointerId);
    const spot = under(event);
    if (dragged && !dragged.moved && spot && event.type === "pointerup") events.onpick(spot.i, spot.j);
    if (!fingers.size) dragged = null;
  };
  canvas.addEventListener("pointerup", lifted);
  canvas.addEventListener("pointercancel", lifted);
  canvas.addEventListener("pointerleave", () => events.onhover(-1, -1));
  canvas.addEventListener("dblclick", (event) => {
    const spot = under(event);
    if (spot) zoom(event.shiftKey ? 2 : 0.5, spot.fx, spot.fy);
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      const spot = under(event);
      zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, spot?.fx, spot?.fy);
    },
    { passive: false },
  );
}
