"""The pages' style sheet; a Python module, so that code fingerprints include it."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --muted: #59636e; --paper: #ffffff; --panel: #f6f8fa; --grid: #d1d9e0;
  --accent: #0b5cad; --good: #1a7f37; --bad: #c4232e; --weak: #8a5a00; --bar: #9cc4ee; --bar-tuned: #8fd3a4; --bar-fail: #f2b3b0; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --muted: #9aa4af; --paper: #0d1117; --panel: #161b22;
  --grid: #3a424c; --accent: #6cb0ff; --good: #56d364; --bad: #ff7b72; --weak: #e3b341; --bar: #1f4b7d; --bar-tuned: #1d5c34;
  --bar-fail: #7a2a2a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(.75rem, 3vw, 2.5rem); max-width: 100rem; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin: 2.25rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .35rem; overflow-wrap: anywhere; } h4 { font-size: .92rem; margin: .75rem 0 .2rem; }
p, ul, dl { margin: .25rem 0; overflow-wrap: anywhere; } ul { padding-left: 1.25rem; }
a { color: var(--accent); } .note { color: var(--muted); }
.pass, .faster { color: var(--good); } .fail, .failed, .slower { color: var(--bad); font-weight: 600; } .weak { color: var(--weak); }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.lead { font-size: 1.08rem; } .lead li { margin: .2rem 0; }
.scroll { position: relative; overflow: auto; max-height: 85vh; border: 1px solid var(--grid); border-radius: 6px; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding: .3rem .5rem; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid var(--grid); text-align: left; vertical-align: baseline; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { background: var(--panel); white-space: nowrap; position: sticky; top: 0; z-index: 1; }
td.n, th.n { text-align: right; white-space: nowrap; } td.k { white-space: nowrap; } tr.group th { background: var(--panel); }
th button { all: unset; cursor: pointer; font-weight: 600; } th button:focus-visible, .scroll:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort=ascending] button::after { content: " ▲"; } th[aria-sort=descending] button::after { content: " ▼"; }
.controls { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; margin: .5rem 0; } .controls[hidden] { display: none; }
input, select, .copy { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--muted); border-radius: 4px; padding: .2rem .5rem; max-width: 100%; }
.noisy { color: var(--weak); font-weight: 600; text-decoration: none; }
figure { margin: 0; } svg { display: block; } svg text { fill: var(--ink); font-size: 12px; } svg text.tick { fill: var(--muted); font-size: 11px; }
.bar-row { display: grid; grid-template-columns: minmax(7rem, 1fr) minmax(8rem, 3fr) 6.5rem minmax(9rem, 2fr); gap: 0 .75rem; align-items: center; padding: .15rem 0; }
.bar-row > * { overflow-wrap: anywhere; min-width: 0; } .bar-row .value { font-variant-numeric: tabular-nums; text-align: right; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem 2rem; }
.curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 15rem), 1fr)); gap: .75rem 1.5rem; }
.curves figcaption { display: flex; justify-content: space-between; gap: .75rem; font-size: .85rem; } .curves figcaption > * { overflow-wrap: anywhere; min-width: 0; }
.curves figcaption > :last-child { flex: none; max-width: 60%; text-align: right; }
@media (max-width: 60rem) { .bar-row { grid-template-columns: 1fr 6.5rem; } .bar-row svg, .bar-row .words { grid-column: 1 / -1; } .bar-row .value { grid-row: 1; grid-column: 2; } }
rect.bar { fill: var(--bar); } rect.bar.tuned { fill: var(--bar-tuned); } rect.bar.fail { fill: var(--bar-fail); }
.whisker { stroke: var(--ink); stroke-width: 1.25; } line.previous { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 3 3; } line.baseline { stroke: var(--bad); stroke-width: 2; }
.grid { stroke: var(--grid); stroke-width: 1; } .front { stroke: var(--muted); stroke-width: 1.5; stroke-dasharray: 5 4; }
.mark { fill: var(--paper); stroke: var(--accent); stroke-width: 2; } .mark.best { fill: var(--accent); } .mark.fail { stroke: var(--bad); } .mark.fail.best { fill: var(--bad); }
.curve { overflow: visible; } .curve path { fill: none; } .curve .line { stroke: var(--accent); stroke-width: 2; } .curve .level { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 5 4; }
details { border: 1px solid var(--grid); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) minmax(0, 1fr); gap: .1rem 1rem; } dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--grid); border-radius: 6px; padding: .5rem .75rem; margin: .2rem 0; white-space: pre-wrap; }
.usage { display: flex; gap: .75rem; align-items: baseline; justify-content: space-between; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } .controls, .copy { display: none; } .scroll { max-height: none; overflow: visible; border: 0; }
  thead th { position: static; } a { color: inherit; text-decoration: none; } details, figure, .bar-row, tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  table { font-size: 8pt; } rect { print-color-adjust: exact; } }
"""
