"use strict";
// Tables: a click on a heading sorts by its column, largest number or first word first; a second click reverses.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const number = (row) => parseFloat(key(row).replaceAll(",", ""));
    button.addEventListener("click", () => {
      const rows = [...body.rows], numeric = rows.every((row) => key(row) === "" || !isNaN(number(row)));
      const before = head.getAttribute("aria-sort");
      const order = before ? (before === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
      const sign = order === "ascending" ? 1 : -1, last = (row) => key(row) === "";
      rows.sort((a, b) => last(a) - last(b) || sign * (numeric ? number(a) - number(b) : key(a).localeCompare(key(b))));
      body.append(...rows);
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
    });
  });
}

const hint = document.createElement("p");
hint.className = "hint";
hint.textContent = "Point at a chart to read its values; click a heading of a table to sort by its column.";
document.querySelector("header").append(hint);
