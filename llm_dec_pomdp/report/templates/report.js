// The report: sorts and filters tables, marks different words of two texts, and opens all sections for printing.

function sortKey(text) {
  const number = parseFloat(text.replace("<", ""));
  return Number.isNaN(number) ? text.toLowerCase() : number;
}

function compareKeys(a, b, descending) {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1; // missing values come last
  return (descending ? -1 : 1) * (a < b ? -1 : a > b ? 1 : 0);
}

function sortTable(table, column, descending) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows).map((row) => [sortKey(row.cells[column].textContent.trim()), row]);
  rows.sort((a, b) => compareKeys(a[0], b[0], descending));
  for (const [, row] of rows) body.append(row);
}

for (const table of document.querySelectorAll("table[data-sortable]")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const name = head.textContent;
    head.textContent = "";
    button(name, head, () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortTable(table, column, descending);
    });
  });
}

for (const input of document.querySelectorAll("input[data-filter]")) {
  const table = document.getElementById(input.dataset.filter);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}

for (const texts of document.querySelectorAll(".texts")) {
  const sides = texts.querySelectorAll("pre");
  const runs = difference(sides[0].textContent, sides[1].textContent);
  const alike = runs[0].filter((run) => run.same).reduce((sum, run) => sum + run.text.trim().length, 0);
  if (4 * alike < sides[0].textContent.length) continue; // no marks if nearly all words differ
  sides.forEach((side, place) => {
    side.textContent = "";
    for (const run of runs[place]) element(run.same ? "span" : "mark", run.text, side);
  });
}

addEventListener("beforeprint", () => { for (const folded of document.querySelectorAll("details")) folded.open = true; });
