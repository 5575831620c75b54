"""How fast the viewer is, measured in Chromium: first paint, a typed text, and a frame while a slider is dragged.

Goal: 16 ms of script for 95 of 100 frames at 128 tokens, so that dragging keeps up with a screen of 60 Hz. The server
and the browser share the machine. Each number is repeated and given with its spread.

    python benchmarks/viewer.py [--rounds 5] [--tokens 128 512 2048]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import headscope
from browser import chromium
from headscope.view.desk import Desk
from viewing import Tab, served

FRAMES = 120
# Every frame of a drag: one event of input, then the work that it asks for. Script time is what lies between the start
# of the frame's callbacks and their end; the whole frame also holds style, layout and paint.
DRAG = """async ([which, frames]) => {
  const root = document.querySelector("#headscope").shadowRoot;
  const slider = root.querySelectorAll("main input[type=range]")[which];
  const [low, high, step] = [Number(slider.min), Number(slider.max), Number(slider.step)];
  const script = [], whole = [];
  for (let k = 0; k < frames; k++) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const begun = performance.now();
    slider.value = low + ((k * 7) % Math.floor((high - low) / step)) * step;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    const asked = performance.now() - begun;
    await new Promise((resolve) => requestAnimationFrame((at) => {
      // Callbacks of one frame run in the order of their asking: those of the viewer came first.
      script.push(asked + performance.now() - at);
      const channel = new MessageChannel();
      channel.port1.onmessage = () => { whole.push(asked + performance.now() - at); resolve(); };
      channel.port2.postMessage(0);
    }));
  }
  return [script, whole];
}"""


def spread(values: list[float], digits: int = 1) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, round(share * len(values)))]


def first_paint(page: Any) -> float:
    return float(page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"))


def text_of(tokens: int) -> str:
    words = " ".join(p["text"] for p in headscope.passages())
    return words if tokens > 128 else " ".join(words.split()[:tokens])


def measure(model: headscope.Model, window: int, rounds: int) -> None:
    desk = Desk(lambda: model, defaults={"window": window})
    desk.inspect(text_of(window))
    paints, readies, typed, drags = [], [], [], {"τ": ([], []), "θ": ([], [])}
    with served(desk) as server, chromium() as browser:
        for number in range(rounds):
            tab = Tab(browser)
            page = tab.page
            page.goto(server.address)
            page.wait_for_selector(".panel[data-head]", timeout=120_000)
            readies.append(float(page.evaluate("() => performance.now()")))
            paints.append(first_paint(page))
            page.wait_for_selector(".text-page[data-ready]:not([aria-busy])", timeout=300_000)
            for place, name in enumerate(drags):
                script, whole = page.evaluate(DRAG, [place, FRAMES])
                drags[name][0].append(quantile(script, 0.95))
                drags[name][1].append(quantile(whole, 0.95))
            page.fill("textarea", f"Round {number}. " + text_of(window))
            before = page.evaluate("() => performance.now()")
            shown = page.get_attribute(".text-page", "data-ready")
            page.click("button.primary")
            page.wait_for_function(
                "old => !document.querySelector('#headscope').shadowRoot.querySelector('.panel.loading')"
                " && !location.hash.includes(old) && location.hash.includes('id=t')",
                arg=shown, polling=20, timeout=120_000,
            )  # fmt: skip
            typed.append((float(page.evaluate("() => performance.now()")) - before) / 1000)
            tab.close()
    print(f"{window} tokens, {model.name}, {rounds} rounds; median (smallest to largest)")
    print(f"  first paint                        {spread(paints, 0)} ms")
    print(f"  text and matrix shown              {spread(readies, 0)} ms after the page was asked for")
    print(f"  a new text typed, until it is shown {spread(typed, 2)} s (the address waits 0.15 s more)")
    for name, (script, whole) in drags.items():
        print(f"  dragging {name}, 95th percentile of {FRAMES} frames: script {spread(script)} ms")
        print(f"                              with style, layout and paint {spread(whole)} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, nargs="+", default=[128])
    args = parser.parse_args()
    for window in args.tokens:
        if window <= 128:
            model = headscope.load()
        else:
            from tempfile import mkdtemp

            from folders import make_folder

            model = headscope.load(make_folder("long", Path(mkdtemp())))
        measure(model, window, args.rounds)


if __name__ == "__main__":
    main()
