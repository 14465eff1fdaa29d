"""The page's template; a Python module, so that the workflow sees when it changes."""

SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = head.querySelector("button");
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const body = table.tBodies[0];
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });
}
const reveal = () => {
  const place = document.getElementById(location.hash.slice(1));
  if (place instanceof HTMLDetailsElement) place.open = true;
};
addEventListener("hashchange", reveal);
reveal();
"""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --muted: #59636e; --paper: #ffffff; --panel: #f6f8fa; --grid: #d1d9e0;
  --accent: #0b5cad; --good: #1a7f37; --bad: #c4232e; --weak: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --muted: #9aa4af; --paper: #0d1117; --panel: #161b22;
  --grid: #3a424c; --accent: #6cb0ff; --good: #56d364; --bad: #ff7b72; --weak: #e3b341; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 84rem; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p, ul, dl { margin: .25rem 0; } ul { padding-left: 1.25rem; }
a { color: var(--accent); } .note { color: var(--muted); }
.pass { color: var(--good); } .fail, .failed { color: var(--bad); font-weight: 600; } .weak { color: var(--weak); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); }
th, td { padding: .3rem .4rem; border-bottom: 1px solid var(--grid); text-align: left; vertical-align: baseline; }
thead th { background: var(--panel); white-space: nowrap; } td.n, th.n { text-align: right; white-space: nowrap; } td.k { white-space: nowrap; }
th button { all: unset; cursor: pointer; font-weight: 600; } th button:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort=ascending] button::after { content: " ▲"; } th[aria-sort=descending] button::after { content: " ▼"; }
figure { margin: 0; } figure svg { max-width: 100%; height: auto; overflow: visible; }
details { border: 1px solid var(--grid); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
code { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
"""

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{{ script_digest }}'">
<title>tvmake results</title>
<style>{{ style }}</style>
</head>
<body>
<header>
<h1>Results</h1>
<p>
{%- for verdict, count in counts %}<span class="{{ verdict }}">{{ count }} {{ verdict }}</span>{{ ", " if not loop.last }}{% endfor %}
<span class="note">· {{ summary.created_at }} · tvmake {{ summary.tvmake_version }} · TVM {{ summary.tvm_version }}
· on {{ summary.machine.soc }}, {{ summary.machine.cores }} cores, {{ summary.machine.os }}</span></p>
<p class="note"><a href="summary.json">summary.json</a> <a href="summary.csv">summary.csv</a> <a href="config.resolved.yaml">config</a></p>
{% if cache %}<p class="note">Cache: {{ cache }}</p>
{% endif %}{% for warning in summary.warnings %}<p class="weak">Warning: {{ warning }}</p>{% endfor %}
</header>
<main>
<section aria-labelledby="variants">
<h2 id="variants">Variants</h2>
<div class="scroll"><table class="sortable">
<thead><tr>{% for name, numeric in columns %}<th scope="col"{% if numeric %} class="n"{% endif %}><button type="button">{{ name }}</button></th>{% endfor %}</tr></thead>
<tbody>
{% for entry in entries %}<tr>
{%- for cell in entry.cells %}<td{% if cell.numeric %} class="n" data-value="{{ cell.value }}"{% elif cell.kind %} class="k"{% endif %}>
{%- if cell.link %}<a{% if cell.kind %} class="{{ cell.kind }}"{% endif %} href="{{ cell.link }}">{{ cell.text }}</a>{% else %}{{ cell.text }}{% endif %}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
</section>
{% if failed %}<section aria-labelledby="missed">
<h2 id="missed">Failed, or goals missed</h2>
<ul>{% for entry in failed %}{% for line in entry.missed %}<li><a href="#{{ entry.anchor }}">{{ entry.row.variant }}</a>: <span class="fail">{{ line }}</span></li>{% endfor %}{% endfor %}</ul>
</section>{% endif %}
{% if chart %}<section aria-labelledby="latency">
<h2 id="latency">Latency</h2>
<figure role="group" aria-label="Latency of every variant; the table above holds the figures">
{{ chart }}
<figcaption class="note">Thin ticks: samples up to the 99th percentile, at most {{ drawn }} a variant. Thick tick and figure: median. Dot: p90. Each model has its own scale, which need not start at 0.</figcaption>
</figure>
</section>{% endif %}
{% if tuning %}<section aria-labelledby="tuning">
<h2 id="tuning">Tuning</h2>
<figure role="group" aria-label="Tuning curves; the tables below hold the figures">
{{ tuning }}
<figcaption class="note">The best rate found after so many trials, for the {{ curves }} kernels with most work.</figcaption>
</figure>
</section>{% endif %}
<section aria-labelledby="details">
<h2 id="details">Variant by variant</h2>
{% for entry in entries %}{% set row = entry.row %}
<details id="{{ entry.anchor }}"{% if entry.missed %} open{% endif %}>
<summary>{{ row.variant }} <span class="{{ row.verdict }}">{{ row.verdict }}</span></summary>
{% for line in entry.missed %}<p class="fail">{{ line }}</p>{% endfor %}
{% for line in row.warnings %}<p class="weak">Warning: {{ line }}</p>{% endfor %}
{% for title, facts in entry.facts %}<h3>{{ title }}</h3>
<dl>{% for name, value in facts %}<dt>{{ name }}</dt><dd>{{ value }}</dd>{% endfor %}</dl>{% endfor %}
{% for table in entry.tables %}<h3>{{ table.title }}</h3>
<div class="scroll"><table>{% if table.note %}<caption>{{ table.note }}</caption>{% endif %}
<thead><tr>{% for name in table.columns %}<th scope="col"{% if not loop.first %} class="n"{% endif %}>{{ name }}</th>{% endfor %}</tr></thead>
<tbody>{% for line in table.rows %}<tr>{% for cell in line %}{% if loop.first %}<th scope="row"><code>{{ cell }}</code></th>{% else %}<td class="n">{{ cell }}</td>{% endif %}{% endfor %}</tr>{% endfor %}</tbody></table></div>{% endfor %}
</details>
{% endfor %}
</section>
{% if devices %}<section aria-labelledby="devices">
<h2 id="devices">Devices</h2>
{% for title, facts in devices %}<h3>{{ title }}</h3>
<dl>{% for name, value in facts %}<dt>{{ name }}</dt><dd>{{ value }}</dd>{% endfor %}</dl>{% endfor %}
</section>{% endif %}
</main>
<script>{{ script }}</script>
</body>
</html>
"""
