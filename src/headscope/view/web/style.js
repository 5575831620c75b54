// How it looks. It lives in a shadow root, so that neither a notebook's style nor ours touches the other.

export const STYLE = `
:host { display: block; }
* { box-sizing: border-box; }
.headscope {
  --paper: #ffffff; --raised: #f6f7f9; --ink: #1c2024; --soft: #5a636d; --line: #d9dee4; --blue: #0062a8; --mask: #0072b2;
  --holds: #1b6e3c; --fails: #a8321f; --open: #8a6100; --none: #5a636d; --bar: #e8590c; --second: #0072b2; --hover: #00000010;
  color: var(--ink); background: var(--paper); font: 14px/1.45 system-ui, "Segoe UI", "Noto Sans", sans-serif; color-scheme: light;
  container: headscope / inline-size; outline: none;
}
.headscope[data-theme=dark] {
  --paper: #15171c; --raised: #1d2027; --ink: #e8eaed; --soft: #a3abb5; --line: #333a43; --blue: #7cc0ff; --mask: #5db4f0;
  --holds: #7ed89b; --fails: #ff9c8a; --open: #f0c661; --none: #a3abb5; --bar: #f98e09; --second: #5db4f0; --hover: #ffffff14; color-scheme: dark;
}
.headscope.whole { min-height: 100vh; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 14px; padding: 8px 16px; border-bottom: 1px solid var(--line); }
.name { font-size: 17px; letter-spacing: -.01em; }
.telling { margin: 0; color: var(--soft); flex: 1 1 240px; min-width: 0; overflow-wrap: anywhere; font-size: 13px; }
.telling.busy::after { content: " ⏳"; }
.problem { margin: 10px 16px; padding: 8px 12px; border-left: 4px solid var(--fails); background: var(--raised); overflow-wrap: anywhere; }
main { padding: 10px 16px 32px; }
h2 { font-size: 16px; margin: 0; } h3 { font-size: 13px; margin: 0 0 4px; color: var(--soft); font-weight: 600; }
button, select, input, textarea { font: inherit; color: inherit; }
button, summary, select, textarea, input[type=number], input:not([type]) { background: var(--raised); border: 1px solid var(--line); border-radius: 6px; padding: 4px 10px; }
button, summary, select, label, input[type=range] { cursor: pointer; }
button:hover, summary:hover { background: var(--line); } button:disabled { opacity: .5; cursor: progress; }
button.small { padding: 1px 8px; font-size: 13px; } button.primary { background: var(--blue); border-color: var(--blue); color: var(--paper); font-weight: 600; padding: 6px 18px; }
:focus-visible { outline: 3px solid var(--blue); outline-offset: 2px; border-radius: 4px; }
.buttons { display: flex; gap: 6px; align-items: center; flex-wrap: wrap; }
.tabs { display: flex; gap: 2px; } .tabs button { border-radius: 6px 6px 0 0; border-bottom-width: 3px; } .tabs [aria-selected=true] { border-bottom-color: var(--blue); font-weight: 600; }
.asking { display: flex; gap: 10px; align-items: flex-start; margin-bottom: 8px; } .asking[hidden] { display: none; }
.asking textarea { flex: 1; min-width: 0; resize: vertical; background: var(--paper); unicode-bidi: plaintext; }
.options, .menu { position: relative; } .options > div, .menu > div {
  position: absolute; right: 0; z-index: 9; margin-top: 4px; padding: 10px; display: grid; gap: 8px; min-width: 230px; background: var(--paper);
  border: 1px solid var(--line); border-radius: 8px; box-shadow: 0 6px 24px #0003; }
.options label { display: flex; justify-content: space-between; gap: 10px; align-items: center; } .options input[type=number] { width: 90px; }
summary { list-style: none; } summary::-webkit-details-marker { display: none; }
.controls { position: sticky; top: 0; z-index: 5; display: flex; flex-wrap: wrap; gap: 6px 18px; align-items: center; padding: 6px 0; margin-bottom: 8px; background: var(--paper); border-bottom: 1px solid var(--line); }
.controls .menu { margin-left: auto; }
.switch { border: 0; margin: 0; padding: 0; display: flex; } .switch legend { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.switch label span { display: block; padding: 3px 10px; border: 1px solid var(--line); margin-left: -1px; background: var(--raised); }
.switch label:first-of-type span { border-radius: 6px 0 0 6px; } .switch label:last-of-type span { border-radius: 0 6px 6px 0; }
.switch input { position: absolute; opacity: 0; } .switch input:checked + span { background: var(--blue); border-color: var(--blue); color: var(--paper); font-weight: 600; }
.switch input:focus-visible + span { outline: 3px solid var(--blue); outline-offset: 2px; }
.slider { display: inline-flex; align-items: center; gap: 8px; } .slider input { width: 130px; accent-color: var(--blue); } .slider output { min-width: 2.4em; font-variant-numeric: tabular-nums; }
.toggle { display: inline-flex; gap: 5px; align-items: center; }
.columns { display: grid; grid-template-columns: minmax(0, 360px) minmax(0, 1fr); gap: 20px; align-items: start; }
aside > select { width: 100%; margin: 6px 0 4px; }
.note { color: var(--soft); font-size: 12px; margin: 2px 0 8px; }
.atlas { --columns: 12; } .atlas .row { display: grid; grid-template-columns: 1.6em repeat(var(--columns), minmax(0, 1fr)); gap: 2px; margin-bottom: 2px; align-items: center; }
.atlas.ranked .row { grid-template-columns: repeat(var(--columns), minmax(0, 1fr)); }
.atlas .layer { color: var(--soft); font-size: 11px; text-align: right; padding-right: 3px; }
.tile { position: relative; padding: 0; border: 2px solid transparent; border-radius: 3px; background: none; line-height: 1.1; overflow: hidden; }
.tile canvas { display: block; width: 100%; aspect-ratio: 1; image-rendering: pixelated; } .tile.waiting canvas { background: var(--raised); }
.tile .score { display: block; height: 2px; background: var(--blue); } .tile .caption { display: none; font-size: 10px; color: var(--soft); } .ranked .tile .caption { display: flex; justify-content: space-between; gap: 2px; } .tile b { color: var(--ink); }
.tile.chosen { border-color: var(--blue); box-shadow: 0 0 0 1px var(--blue); } .tile:hover { border-color: var(--soft); background: none; }
.panels { display: grid; gap: 20px; grid-template-columns: minmax(0, 1fr); } .panels.two { grid-template-columns: repeat(2, minmax(0, 1fr)); }
.panel { container: panel / inline-size; min-width: 0; } .panel.loading .matrix { opacity: .5; } .panel.pinned { border-left: 3px solid var(--line); padding-left: 14px; }
.panel > * { margin-bottom: 10px; } .panel-header { display: flex; flex-wrap: wrap; gap: 4px 12px; justify-content: space-between; align-items: center; }
.focal-line { margin: 0 0 10px; } .focal-name { border-bottom: 3px double var(--bar); }
.left { float: left; width: calc(100% - 474px); padding-right: 20px; } .right { float: right; width: 468px; max-width: 100%; } .figures { clear: both; }
.text { position: relative; padding-top: 22px; isolation: isolate; } .tokens { line-height: 2.15; overflow-wrap: anywhere; }
.sentence { border-bottom: 2px solid transparent; padding-bottom: 2px; } .sentence.even { border-bottom-color: color-mix(in srgb, var(--soft) 55%, transparent); } .sentence.odd { border-bottom-color: color-mix(in srgb, var(--soft) 22%, transparent); }
.number { font-size: 9px; color: var(--soft); vertical-align: super; margin: 0 1px 0 4px; user-select: none; }
.token { display: inline-block; line-height: 1.35; padding: 1px 3px; margin: 0 1px; border-radius: 4px; cursor: pointer; position: relative; border: 1px solid transparent; unicode-bidi: isolate; max-width: 100%; }
.word { white-space: nowrap; } .token.piece { margin-left: -4px; padding-left: 1px; border-left: 1px dotted var(--line); border-radius: 0 4px 4px 0; } .token.start, .token.end { color: var(--soft); font-size: 12px; }
.token:hover, .token.looked { border-color: var(--ink); } .token.kept { outline: 2px solid var(--blue); } .token.high { border-color: color-mix(in srgb, var(--ink) 55%, transparent); }
.token.attended { box-shadow: 0 3px 0 -1px var(--mask); } .token.focal::before { content: "★"; position: absolute; top: -11px; left: 50%; translate: -50% 0; font-size: 9px; line-height: 1; color: var(--bar); }
.arcs { position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none; overflow: visible; z-index: -1; } .arcs path { fill: none; opacity: .55; stroke-linecap: round; }
.matrix { position: relative; } .matrix canvas { position: absolute; inset: 0; width: 100%; height: 100%; } .matrix .over { pointer-events: none; } .matrix .picture { touch-action: pan-y; cursor: crosshair; }
.tools { display: flex; justify-content: space-between; gap: 12px; align-items: end; margin-top: 4px; } .legend { flex: 1; max-width: 280px; font-size: 12px; color: var(--soft); } .ramp { position: relative; height: 10px; border-radius: 2px; border: 1px solid var(--line); }
.ends { display: flex; justify-content: space-between; font-variant-numeric: tabular-nums; } .tau { position: absolute; top: -3px; bottom: -3px; width: 2px; background: var(--blue); }
.readout { min-height: 3.9em; margin: 6px 0 0; font-size: 13px; overflow-wrap: anywhere; } .quoted { background: var(--raised); border-radius: 3px; padding: 0 3px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 16px 24px; padding-top: 8px; border-top: 1px solid var(--line); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } td, th { padding: 2px 10px 2px 0; text-align: left; vertical-align: top; } .relations td, .relations thead th { text-align: right; } .relations th { font-weight: 400; }
.scores th { font-weight: 400; } .scores td { white-space: nowrap; } .pairs tr:hover, .pairs tr:focus { background: var(--hover); } .pairs { width: 100%; table-layout: fixed; } .pairs td { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } .pair { cursor: pointer; } .pairs td:nth-child(3) { color: var(--soft); }
.numbers { display: grid; grid-template-columns: 1fr auto; gap: 2px 12px; margin: 0; max-width: 300px; } .numbers dd { margin: 0; font-variant-numeric: tabular-nums; text-align: right; }
.figures section, .matrix, .focal-line, .readout, aside { contain: layout; } .chart { max-width: 100%; height: auto; font-size: 11px; fill: var(--soft); overflow: visible; } .grid { stroke: var(--line); } .bar { fill: var(--bar); opacity: .85; } .base { fill: none; stroke: var(--ink); stroke-dasharray: 4 3; stroke-width: 1.3; }
.interval { stroke: var(--ink); stroke-width: 1; } .interval.wide { stroke-width: 3; opacity: .6; } .dot { fill: var(--ink); } .none { stroke: var(--soft); stroke-dasharray: 2 2; } .bound { stroke: var(--soft); } .beyond { fill: var(--soft); opacity: .13; }
.holds .dot, .holds .wide { fill: var(--holds); stroke: var(--holds); } .does-not-hold .dot, .does-not-hold .wide { fill: var(--fails); stroke: var(--fails); } .open .dot, .open .wide { fill: var(--open); stroke: var(--open); }
.line { fill: none; stroke-width: 2; } .line.first, .band.first { stroke: var(--bar); } .line.second, .band.second { stroke: var(--second); } .line.second { stroke-dasharray: 6 3; } .band { stroke: none !important; opacity: .2; } .band.first { fill: var(--bar); } .band.second { fill: var(--second); }
.block { margin-bottom: 20px; overflow-x: auto; } .findings { width: 100%; } .findings td, .findings th { padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); vertical-align: middle; } .findings thead th { font-size: 12px; color: var(--soft); }
.findings summary { border: 0; background: none; padding: 0; color: var(--soft); font-size: 12px; } .findings summary::after { content: " ▾"; } .findings p { margin: 4px 0; max-width: 62em; } .findings .number { font-size: 14px; color: inherit; vertical-align: middle; white-space: nowrap; }
.verdict { font-weight: 600; white-space: nowrap; } .verdict.holds { color: var(--holds); } .verdict.does-not-hold { color: var(--fails); } .verdict.open { color: var(--open); } .verdict.no-verdict { color: var(--none); }
.warnings { margin: 6px 0; padding-left: 18px; color: var(--open); } .warnings:empty { display: none; }
.ranking { display: grid; gap: 1px; } .ranked-head { display: grid; grid-template-columns: 3.2em 1fr 3.5em; align-items: center; gap: 6px; padding: 0 6px; background: none; border-color: transparent; text-align: left; } .ranked-head b { text-align: right; font-variant-numeric: tabular-nums; } .gap { text-align: center; color: var(--soft); }
.head-detail h2 { margin-bottom: 10px; } .head-detail .figures { border: 0; padding: 0; } .empty { color: var(--soft); padding: 30px 0; max-width: 34em; } .example { border-top: 1px solid var(--line); padding: 6px 0; } .example p { margin: 2px 0; overflow-wrap: anywhere; }
.help { color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 10px; } .help dl { display: grid; grid-template-columns: auto 1fr; gap: 4px 18px; } .help dd { margin: 0; } .help dt { font-weight: 600; } .help::backdrop { background: #0006; }
@container panel (max-width: 820px) { .left, .right { float: none; width: 100%; padding-right: 0; } .right { max-width: 560px; margin: 0 auto 10px; } }
@container headscope (max-width: 860px) {
  .columns, .panels.two { grid-template-columns: minmax(0, 1fr); } .text-page .columns { display: flex; flex-direction: column; align-items: stretch; } .text-page aside { order: 2; } .panel.pinned { border-left: 0; padding-left: 0; border-top: 3px solid var(--line); padding-top: 10px; }
  .asking { flex-direction: column; align-items: stretch; } .controls { gap: 4px 12px; position: static; } .slider input { width: 110px; } .switch label span { padding: 3px 7px; font-size: 13px; } .controls .menu { margin-left: 0; }
  main { padding: 8px 12px 24px; } .findings td:nth-child(3), .findings th:nth-child(3) { display: none; } .options > div { left: 0; right: auto; } .menu > div { left: auto; right: 0; }
}
@media print { .controls, .asking, .buttons { display: none; } }
`;
