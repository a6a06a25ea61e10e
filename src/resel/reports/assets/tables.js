const tables = (() => {
  "use strict";

  const ROWS = 8; // of a long table that a phone shows before one asks for all

  function sortKey(cell) {
    const marked = cell.querySelector("[data-value]");
    const text = marked ? marked.dataset.value : cell.textContent.trim();
    const number = text === "" ? NaN : Number(text);
    return { text, number, missing: text === "" || text === "–" };
  }

  function compare(a, b) {
    if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return a.number - b.number;
    return a.text.localeCompare(b.text, "en", { numeric: true });
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: sortKey(row.cells[column]) }));
        rows.sort((a, b) => a.key.missing - b.key.missing || (down ? -1 : 1) * compare(a.key, b.key));
        table.tBodies[0].append(...rows.map(({ row }) => row));
      });
    });
  }

  // Only a phone shows these buttons: see page.css.
  function unfolding(parent, target, words) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "unfold";
    button.textContent = words;
    button.addEventListener("click", () => {
      target.classList.remove("folded");
      button.remove();
    });
    parent.append(button);
    target.classList.add("folded");
  }

  function foldable(table) {
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) {
      if (row.querySelector(".more")) unfolding(row.cells[0], row, "more");
    }
    if (rows.length <= ROWS) return;
    table.classList.add("long");
    unfolding(table.parentElement, table, `all ${rows.length} rows`);
  }

  return {
    prepare(page) {
      for (const table of page.querySelectorAll("table.sortable")) {
        sortable(table);
        foldable(table);
      }
    },
  };
})();
