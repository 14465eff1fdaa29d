"""The pages' script: sorting, filtering and grouping of the table, copying, opening linked and printed sections.

The page works without it too.
"""

SCRIPT = """
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.querySelectorAll("thead th")];
  const controls = document.querySelector(`.controls[data-for="${table.id}"]`);
  const state = { column: -1, up: true, group: -1, text: "" };
  const key = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  const compare = (x, y) => x === "" || y === "" ? (x === "") - (y === "") : (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
  const order = (a, b) => {
    const group = state.group < 0 ? 0 : compare(key(a, state.group), key(b, state.group));
    if (group || state.column < 0) return group || rows.indexOf(a) - rows.indexOf(b);
    const [x, y] = [key(a, state.column), key(b, state.column)];
    return compare(x, y) * (state.up || x === "" || y === "" ? 1 : -1);
  };
  const draw = () => {
    const words = state.text.toLowerCase().split(/\\s+/).filter(Boolean);
    let shown = 0, last;
    body.replaceChildren();
    for (const row of [...rows].sort(order)) {
      row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      shown += !row.hidden;
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
    if (controls) controls.querySelector("output").textContent = `${shown} of ${rows.length} shown`;
  };
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    state.up = state.column !== column || !state.up;
    state.column = column;
    draw();
  }));
  if (controls) {
    controls.hidden = false;
    controls.querySelector("input").addEventListener("input", (event) => { state.text = event.target.value; draw(); });
    controls.querySelector("select").addEventListener("change", (event) => { state.group = Number(event.target.value); draw(); });
    draw();
  }
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
