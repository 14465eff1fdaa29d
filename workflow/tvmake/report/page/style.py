"""The pages' style sheet; a Python module, so that code fingerprints include it."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --muted: #59636e; --paper: #ffffff; --panel: #f6f8fa; --grid: #d1d9e0;
  --accent: #0b5cad; --good: #1a7f37; --bad: #c4232e; --weak: #8a5a00; --bar: #9cc4ee; --bar-tuned: #8fd3a4; --bar-fail: #f2b3b0; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --muted: #9aa4af; --paper: #0d1117; --panel: #161b22;
  --grid: #3a424c; --accent: #6cb0ff; --good: #56d364; --bad: #ff7b72; --weak: #e3b341; --bar: #1f4b7d; --bar-tuned: #1d5c34;
  --bar-fail: #7a2a2a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(.75rem, 3vw, 2.5rem); max-width: 160rem; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin: 2.25rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .35rem; overflow-wrap: anywhere; } h4 { font-size: .92rem; margin: .75rem 0 .2rem; }
p, ul, ol, dl { margin: .25rem 0; overflow-wrap: anywhere; } p, li { max-width: 75rem; } ul { padding-left: 1.25rem; }
a { color: var(--accent); } .note { color: var(--muted); }
.pass, .faster { color: var(--good); } .fail, .failed, .slower { color: var(--bad); font-weight: 600; } .weak { color: var(--weak); }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.lead { font-size: .88rem; } .lead li { margin: .15rem 0; max-width: none; } [hidden] { display: none !important; }
.scroll { position: relative; overflow: auto; max-height: 50vh; border: 1px solid var(--grid); border-radius: 6px; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding: .3rem .5rem; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid var(--grid); text-align: left; vertical-align: baseline; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { background: var(--panel); white-space: nowrap; position: sticky; top: 0; z-index: 1; }
td.n, th.n { text-align: right; white-space: nowrap; } td.k { white-space: nowrap; }
.sortable { font-size: .88rem; } .sortable th, .sortable td { padding: .2rem .45rem; } #results td { white-space: nowrap; }
.sortable td:first-child { position: sticky; left: 0; background: var(--paper); } tr.group th { background: var(--panel); }
th button { all: unset; cursor: pointer; font-weight: 600; } th button:focus-visible, .scroll:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort=ascending] button::after { content: " ▲"; } th[aria-sort=descending] button::after { content: " ▼"; }
.controls { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; margin: .5rem 0; } .controls > label { max-width: 100%; }
.filter { position: sticky; top: 0; z-index: 3; background: var(--paper); padding: .4rem 0; margin: 0; } html { scroll-padding-top: 3.5rem; }
input, select, .copy { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--muted); border-radius: 4px; padding: .2rem .5rem; max-width: 100%; }
.noisy { color: var(--weak); font-weight: 600; text-decoration: none; }
figure { margin: 0; } svg { display: block; } svg text { fill: var(--ink); font-size: 12px; } svg text.tick { fill: var(--muted); font-size: 11px; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 23rem), 1fr)); gap: .5rem 2rem; } .panels h3 { margin: .5rem 0 .2rem; }
.bars { overflow: hidden; } .bar-row { display: grid; grid-template-columns: minmax(6rem, 11.3rem) minmax(5rem, 1fr) minmax(5.2rem, max-content); gap: 0 .6rem; align-items: center; font-size: .88rem; line-height: 1.45; }
.bar-row > * { overflow-wrap: anywhere; min-width: 0; } .bar-row a, .plots li a { color: inherit; } .bar-row a:not(:hover, :focus), .plots li a:not(:hover, :focus) { text-decoration: none; }  .bar-row .value { white-space: nowrap; font-variant-numeric: tabular-nums; text-align: right; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem 2rem; }
.curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 15rem), 1fr)); gap: .75rem 1.5rem; }
.curves figcaption { display: flex; justify-content: space-between; gap: .75rem; font-size: .85rem; } .curves figcaption > * { overflow-wrap: anywhere; min-width: 0; }
.curves figcaption > :last-child { flex: none; max-width: 60%; text-align: right; }
.plots ol { columns: 17rem; column-gap: 1.5rem; font-size: .85rem; padding-left: 1.75rem; } #runs .curve { width: 7rem; height: 1.5rem; } .network svg { width: 8rem; }
rect.bar { fill: var(--bar); } rect.bar.tuned { fill: var(--bar-tuned); } rect.bar.fail { fill: var(--bar-fail); }
.whisker { stroke: var(--ink); stroke-width: 1.25; } .beyond { fill: none; stroke-width: 1.5; } .beyond.baseline { stroke: var(--bad); } .beyond.previous { stroke: var(--ink); } line.previous { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 3 3; } line.baseline { stroke: var(--bad); stroke-width: 2; }
.grid { stroke: var(--grid); stroke-width: 1; } .front { stroke: var(--muted); stroke-width: 1.5; stroke-dasharray: 5 4; }
.mark { fill: var(--paper); stroke: var(--accent); stroke-width: 2; } .mark.best { fill: var(--accent); } .mark.fail { stroke: var(--bad); } .mark.fail.best { fill: var(--bad); }
.curve { overflow: visible; } .curve path { fill: none; } .curve .line { stroke: var(--accent); stroke-width: 2; } .curve .level { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 5 4; }
details { border: 1px solid var(--grid); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) minmax(0, 1fr); gap: .1rem 1rem; } dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--grid); border-radius: 6px; padding: .5rem .75rem; margin: .2rem 0; white-space: pre-wrap; }
.usage { display: flex; gap: .75rem; align-items: baseline; justify-content: space-between; }
@media print { @page { size: A4 landscape; margin: 12mm; } .sortable { font-size: 7pt; } .sortable th, .sortable td { padding: .15rem .2rem; } #results td { white-space: normal; } .sortable td:first-child { position: static; }
  body { max-width: none; padding: 0; font-size: 10pt; } .controls, .copy { display: none; } .scroll { max-height: none; overflow: visible; border: 0; }
  thead th { position: static; } a { color: inherit; text-decoration: none; } figure, .bar-row, tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  table { font-size: 8pt; } details, table { break-inside: auto; } .panels, .plots { grid-template-columns: repeat(2, 1fr); } rect { print-color-adjust: exact; } }
"""
