"""The pages' templates; a Python module, so that code fingerprints include them."""

FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{{ style_digest }}'; script-src 'sha256-{{ script_digest }}'; base-uri 'none'; form-action 'none'">
<title>{{ title }}</title>
<style>{{ style }}</style>
</head>
<body>
{% block body %}{% endblock %}
<script>{{ script }}</script>
</body>
</html>
"""

MACROS = """
{%- macro region(label) %}<div class="scroll" tabindex="0" role="region" aria-label="{{ label }}">{{ caller() }}</div>{% endmacro %}
{%- macro sortable(id, columns) %}<table class="sortable" id="{{ id }}">
<thead><tr>{% for name, numeric in columns %}<th scope="col"{% if numeric %} class="n"{% endif %}><button type="button">{{ name }}</button></th>{% endfor %}</tr></thead>
<tbody>{{ caller() }}</tbody></table>{% endmacro %}
{%- macro noisy(why) %}{% if why %} <abbr class="noisy" title="{{ why }}">~<span class="hidden">noisy</span></abbr>{% endif %}{% endmacro %}
{%- macro cells(entry) %}<tr data-variant="{{ entry.anchor }}">
{%- for cell in entry.cells %}<td{% if cell.numeric %} class="n" data-value="{{ cell.value }}"{% elif cell.kind %} class="k"{% endif %}>
{%- if cell.link %}<a{% if cell.kind %} class="{{ cell.kind }}"{% endif %} href="{{ cell.link }}">{{ cell.text }}</a>
{%- elif cell.kind %}<span class="{{ cell.kind }}">{{ cell.text }}</span>{% else %}{{ cell.text }}{% endif %}
{{- noisy(cell.mark) }}</td>{% endfor %}</tr>
{% endmacro %}
{%- macro run_choice(label, titles, chosen) %}<label>{{ label }} <select>{% for title in titles %}<option value="{{ loop.index0 }}"{% if loop.index0 == chosen %} selected{% endif %}>{{ title }}{{ " (this run)" if loop.last }}</option>{% endfor %}</select></label>{% endmacro %}
{%- macro facts(pairs) %}<dl>{% for name, value in pairs %}<dt>{{ name }}</dt><dd>{{ value }}</dd>{% endfor %}</dl>{% endmacro %}
"""

PAGE = """{% extends "frame" %}{% from "macros" import region, sortable, cells, run_choice, facts, noisy with context %}
{% block body %}<header>
<h1>{{ title }}</h1>
<p>
{%- for verdict, count in counts %}<span class="{{ verdict }}">{{ count }} {{ verdict }}</span>{{ ", " if not loop.last }}{% endfor %}
<span class="note">· {{ axes }} · {{ made_at }} · tvmake {{ summary.tvmake_version }} · TVM {{ summary.tvm_version }}
· on {{ summary.machine.soc }}, {{ summary.machine.cores }} cores, {{ summary.machine.os }}</span></p>
<p class="note"><a href="summary.json">summary.json</a> <a href="summary.csv">summary.csv</a> <a href="config.resolved.yaml">config</a></p>
{% if cache %}<p class="note">Cache: {{ cache }}</p>
{% endif %}{% for warning in summary.warnings %}<p class="weak">Warning: {{ warning }}</p>{% endfor %}
</header>
<main>
{% if entries | length > 1 %}<search class="controls filter" data-for="results" hidden><label>Filter variants <input type="search" autocomplete="off"></label> <label>Group by <select><option value="-1">nothing</option>{% for number, name in groups %}<option value="{{ number }}">{{ name }}</option>{% endfor %}</select></label> <output class="note"></output></search>
{% endif %}{% if headlines %}<section aria-labelledby="glance">
<h2 id="glance">At a glance</h2>
<ul class="lead">{% for model, text in headlines %}<li><strong>{{ model }}</strong>: {{ text }}.</li>{% endfor %}</ul>
</section>{% endif %}
{% if measured %}<section aria-labelledby="variants">
<h2 id="variants">Variants</h2>
{% if noise %}<p class="weak">{{ noise }} (~): the samples vary or drift by more than the config's <code>noise_cv</code>.</p>
{% endif %}{% call region("Results of the variants that ran") %}{% call sortable("results", columns) %}
{% for entry in measured %}{{ cells(entry) }}{% endfor %}{% endcall %}{% endcall %}
{% if missed %}<details{% if missed | length <= 5 %} open{% endif %}><summary>Goals missed by {{ missed | length }} of {{ entries | length }} variants</summary>
<ul>{% for entry in missed %}{% for line in entry.missed %}<li data-variant="{{ entry.anchor }}"><a href="#{{ entry.anchor }}">{{ entry.row.variant }}</a>: <span class="fail">{{ line }}</span></li>{% endfor %}{% endfor %}</ul></details>{% endif %}
</section>{% endif %}
{% if packages %}<section aria-labelledby="joined">
<h2 id="joined">Packages with several functions</h2>
{% call region("Packages with several functions") %}<table>
<thead><tr><th scope="col">package</th><th scope="col">functions</th><th scope="col" class="n">size</th><th scope="col" class="n">weights</th><th scope="col" class="n">distinct weights</th><th scope="col">shared states</th><th scope="col">remarks</th></tr></thead>
<tbody>{% for entry in packages %}<tr><th scope="row">{% if entry.row.package %}<a href="{{ entry.row.package }}">{{ entry.row.variant }}</a>{% if entry.row.best %} <span class="best">best</span>{% endif %}{% else %}{{ entry.row.variant }}{% endif %}</th>
<td>{% for part in entry.functions %}{% if part.anchor %}<a href="#{{ part.anchor }}">{{ part.name }}</a>{% else %}{{ part.name }}{% endif %}{{ ", " if not loop.last }}{% endfor %}</td>
<td class="n">{{ entry.size }}</td><td class="n">{{ entry.weights }}</td><td class="n">{{ entry.distinct }}</td>
<td>{% for line in entry.shared %}{{ line }}{{ "; " if not loop.last }}{% endfor %}</td>
<td>{% if entry.row.cause %}<span class="failed">{{ entry.row.cause }}</span>{% endif %}{% for note in entry.row.notes %}<span class="weak">{{ note }}</span>{{ "; " if not loop.last }}{% endfor %}</td></tr>
{% endfor %}</tbody></table>{% endcall %}
<p class="note">Distinct weights: those of the networks, before kernels pack them.</p>
</section>{% endif %}
{% if compiled %}<section aria-labelledby="compiled" data-group>
<h2 id="compiled">Built but not run</h2>
<p class="note">Their targets have no device.</p>
{% call region("Packages that were built but not run") %}{% call sortable("packages", compiled_columns) %}
{% for entry in compiled %}{{ cells(entry) }}{% endfor %}{% endcall %}{% endcall %}
</section>{% endif %}
{% if failed %}<section aria-labelledby="failed" data-group>
<h2 id="failed">Failed and not built</h2>
{% call region("Variants that were not built") %}{% call sortable("failures", failed_columns) %}
{% for entry in failed %}{{ cells(entry) }}{% endfor %}{% endcall %}{% endcall %}
</section>{% endif %}
{% if panels %}<section aria-labelledby="latency" data-group>
<h2 id="latency">Latency</h2>
<div class="panels">{% for panel in panels %}<figure data-group><h3>{{ panel.model }}</h3>
{% for bar in panel.bars %}<div class="bar-row" data-variant="{{ bar.anchor }}"><a href="#{{ bar.anchor }}">{{ bar.label }}</a>{{ bar.svg }}<span class="value">{{ bar.value }} ms{{ noisy(bar.noise) }}</span></div>
{% endfor %}</figure>{% endfor %}</div>
<p class="note">Bar: median, from 0; green where tuned, red where goals are missed. Whisker: the interval of nine out of ten runs. Dashed: the previous run.{% if has_baseline %} Red line: the original framework.{% endif %} Arrow: beyond the scale.</p>
</section>{% endif %}
{% if plots %}<section aria-labelledby="tradeoff" data-group>
<h2 id="tradeoff">Latency against accuracy and size</h2>
<div class="plots">{% for plot in plots %}<figure data-group><h3>{{ plot.title }}</h3>{{ plot.svg }}
<ol>{% for entry in plot.entries %}<li value="{{ loop.index }}" data-variant="{{ entry.anchor }}"><a href="#{{ entry.anchor }}">{{ entry.label }}</a> <span class="note">{{ entry.values }}</span></li>{% endfor %}</ol></figure>{% endfor %}</div>
<p class="note">Filled: no other variant is better in both. Red: misses its goals. Latency increases to the right.</p>
</section>{% endif %}
{% if searches %}<section aria-labelledby="tuning" data-group>
<h2 id="tuning">Tuning</h2>
<p class="note">The best rate by number of trials, for the {{ curves }} kernels with most work. Dashed: the same kernel in the untuned variant.</p>
{% for anchor, search in searches %}<details data-variant="{{ anchor }}"{% if loop.first %} open{% endif %}><summary>{{ search.title }}</summary>
<div class="curves">{% for curve in search.curves %}<figure><figcaption><code>{{ curve.name }}</code><span>{{ curve.rate }} GFLOPS</span></figcaption>{{ curve.svg }}<figcaption class="note"><span>{{ curve.gain }}</span><span>{{ curve.trials }} trials</span></figcaption></figure>{% endfor %}</div></details>{% endfor %}
</section>{% endif %}
{% if history %}<section aria-labelledby="history" data-group>
<h2 id="history">Earlier runs</h2>
<div class="controls" data-for="runs" hidden>{{ run_choice("From", history.titles, history.titles | length - 2) }} {{ run_choice("to", history.titles, history.titles | length - 1) }}</div>
{% call region("Medians in two runs") %}<table id="runs"><thead><tr><th scope="col">variant</th><th scope="col">trend</th><th scope="col" class="n">from, ms</th><th scope="col" class="n">to, ms</th><th scope="col">change (95 % interval)</th></tr></thead>
<tbody>{% for line in history.lines %}<tr data-variant="{{ line.anchor }}" data-runs="{{ line.values }}"><th scope="row">{{ line.variant }}</th><td>{{ line.trend }}</td><td class="n">{{ line.old }}</td><td class="n">{{ line.new }}</td><td class="{{ line.kind }}">{{ line.change }}</td></tr>
{% endfor %}</tbody></table>{% endcall %}
<p class="note">{{ history.titles[-2] }} and this run, unless others are chosen. Trend: the median of each stored measurement, from 0. <code>tvmake diff {{ results }}/history/FILE {{ results }}</code> compares two runs in full.</p>
</section>{% endif %}
<section aria-labelledby="details">
<h2 id="details">Variant by variant</h2>
{% for entry in entries %}{% set row = entry.row %}
<details id="{{ entry.anchor }}" data-variant="{{ entry.anchor }}"{% if entry.missed and missed | length <= 5 %} open{% endif %}>
<summary>{{ row.variant }} <span class="{{ row.verdict }}">{{ row.verdict }}</span></summary>
{% for line in entry.missed %}<p class="fail">{{ line }}</p>{% endfor %}
{% for line in row.warnings %}<p class="weak">Warning: {{ line }}</p>{% endfor %}
{% for line in entry.compared %}<p>{{ line }}</p>{% endfor %}
{% if entry.usages %}<h3>How to run it</h3>
{% for usage in entry.usages %}<div class="usage"><h4>{{ usage.title }}</h4><button type="button" class="copy" data-of="{{ entry.anchor }}-usage-{{ loop.index }}" aria-label="Copy: {{ usage.title }}, {{ row.variant }}" hidden>Copy</button></div>
<pre id="{{ entry.anchor }}-usage-{{ loop.index }}">{{ usage.text }}</pre>{% endfor %}{% endif %}
{% for title, pairs in entry.facts %}<h3>{{ title }}</h3>
{{ facts(pairs) }}{% endfor %}
{% if entry.steps %}<h3>Time of a step by its position</h3>
<div class="curves"><figure>{{ entry.steps }}<figcaption class="note"><span>solid: the package, dashed: the baseline; from 0 upwards</span></figcaption></figure></div>
{% endif %}{% for table in entry.tables %}<h3>{{ table.title }}</h3>
{% call region(table.title ~ " of " ~ row.variant) %}<table>{% if table.note %}<caption>{{ table.note }}</caption>{% endif %}
<thead><tr>{% for name in table.columns %}<th scope="col"{% if not loop.first %} class="n"{% endif %}>{{ name }}</th>{% endfor %}</tr></thead>
<tbody>{% for line in table.rows %}<tr>{% for cell in line %}{% if loop.first %}<th scope="row"><code>{{ cell }}</code></th>{% else %}<td class="n">{{ cell }}</td>{% endif %}{% endfor %}</tr>{% endfor %}</tbody></table>{% endcall %}{% endfor %}
{% if entry.network %}<h3>Network</h3>
<p class="note">{{ entry.network.note }}</p>
{% call region("Network of " ~ row.variant) %}<table class="network"><thead><tr><th scope="col">operator</th><th scope="col">kernel</th><th scope="col">from</th><th scope="col">result</th><th scope="col">schedule</th><th scope="col" class="n">share of time</th><th scope="col"><span class="hidden">bar</span></th>{% if entry.network.has_noise %}<th scope="col" class="n">noise</th>{% endif %}</tr></thead>
<tbody>{% for node in entry.network.nodes %}<tr><th scope="row"><code>{{ node.name }}</code></th><td><code>{{ node.kernel }}</code></td><td><code>{{ node.inputs }}</code></td><td>{{ node.output }}</td><td>{{ node.schedule }}</td><td class="n">{{ node.share }}</td><td>{{ node.bar }}</td>{% if entry.network.has_noise %}<td class="n">{{ node.noise }}</td>{% endif %}</tr>
{% endfor %}</tbody></table>{% endcall %}{% endif %}
</details>
{% endfor %}
</section>
{% if devices %}<section aria-labelledby="devices">
<h2 id="devices">Devices</h2>
{% for title, pairs in devices %}<h3>{{ title }}</h3>
{{ facts(pairs) }}{% endfor %}
</section>{% endif %}
</main>{% endblock %}
"""
