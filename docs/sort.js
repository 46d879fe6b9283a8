// Sort the rows of a table by the first number, or else the text, of the column whose head is clicked.
for (const head of document.querySelectorAll("article th")) {
  head.style.cursor = "pointer";
  head.title = "Sort";
  head.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const value = (row) => row.cells[head.cellIndex].textContent.trim();
    const number = (row) => parseFloat(value(row));
    const factor = head.dataset.order === "down" ? -1 : 1;
    head.dataset.order = factor === 1 ? "down" : "up";
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [number(a), number(b)];
      if (isNaN(x) || isNaN(y)) return isNaN(x) && isNaN(y) ? value(a).localeCompare(value(b)) * factor : isNaN(x) - isNaN(y);
      return (y - x) * factor;
    });
    body.append(...rows);
  });
}
