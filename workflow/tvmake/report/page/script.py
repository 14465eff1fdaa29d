"""The pages' script: sorting and grouping of the tables, the filter of variants, the choice of runs, copying, opening linked and
printed sections.

The page works without it too.
"""

SCRIPT = """
"use strict";
const redraws = [];
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.querySelectorAll("thead th")];
  const controls = document.querySelector(`.controls[data-for="${table.id}"]`);
  const state = { column: -1, up: true, group: -1 };
  const key = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  const compare = (x, y) => x === "" || y === "" ? (x === "") - (y === "") : (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
  const order = (a, b) => {
    const group = state.group < 0 ? 0 : compare(key(a, state.group), key(b, state.group));
    if (group || state.column < 0) return group || rows.indexOf(a) - rows.indexOf(b);
    const [x, y] = [key(a, state.column), key(b, state.column)];
    return compare(x, y) * (state.up || x === "" || y === "" ? 1 : -1);
  };
  const draw = () => {
    let last;
    body.replaceChildren();
    for (const row of [...rows].sort(order)) {
      if (state.group >= 0 && !row.hidden && key(row, state.group) !== last) {
        last = key(row, state.group);
        const head = document.createElement("th");
        head.colSpan = heads.length;
        head.scope = "rowgroup";
        head.textContent = last || "–";
        const line = document.createElement("tr");
        line.className = "group";
        line.append(head);
        body.append(line);
      }
      body.append(row);
    }
    heads.forEach((head, column) => {
      head.removeAttribute("aria-sort");
      if (column === state.column) head.setAttribute("aria-sort", state.up ? "ascending" : "descending");
    });
  };
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    state.up = state.column !== column || !state.up;
    state.column = column;
    draw();
  }));
  redraws.push(draw);
  if (controls) {
    controls.querySelector("select").addEventListener("change", (event) => { state.group = Number(event.target.value); draw(); });
  }
}
const filter = document.querySelector(".filter");
if (filter) {
  const parts = [...document.querySelectorAll("[data-variant]")];
  const rows = parts.filter((part) => part.matches("table.sortable tr"));
  const apply = () => {
    const words = filter.querySelector("input").value.toLowerCase().split(/\\s+/).filter(Boolean);
    const shown = new Set(rows
      .filter((row) => words.every((word) => row.textContent.toLowerCase().includes(word)))
      .map((row) => row.dataset.variant));
    for (const part of parts) part.toggleAttribute("hidden", !shown.has(part.dataset.variant));
    for (const group of document.querySelectorAll("[data-group]")) group.hidden = !group.querySelector("[data-variant]:not([hidden])");
    redraws.forEach((draw) => draw());
    filter.querySelector("output").textContent = `${shown.size} of ${rows.length} shown`;
  };
  filter.hidden = false;
  filter.querySelector("input").addEventListener("input", apply);
  apply();
}
const runs = document.getElementById("runs");
if (runs) {
  const choices = [...document.querySelectorAll(".controls[data-for=runs] select")];
  const show = () => {
    const [from, to] = choices.map((choice) => Number(choice.value)).sort((a, b) => a - b);
    for (const row of runs.tBodies[0].rows) {
      const { ms, changes } = JSON.parse(row.dataset.runs);
      const [words, kind] = changes[`${from} ${to}`] ?? ["the same run", "note"];
      row.cells[2].textContent = ms[from];
      row.cells[3].textContent = ms[to];
      row.cells[4].textContent = words;
      row.cells[4].className = kind;
    }
  };
  for (const choice of choices) choice.addEventListener("change", show);
  choices[0].closest(".controls").hidden = false;
}
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.of);
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) target.open = true;
};
addEventListener("hashchange", reveal);
addEventListener("beforeprint", () => {
  for (const section of document.querySelectorAll("details:not([open])")) { section.open = true; section.dataset.printed = ""; }
});
addEventListener("afterprint", () => {
  for (const section of document.querySelectorAll("details[data-printed]")) { section.open = false; delete section.dataset.printed; }
});
reveal();
"""
