"use strict";
// Everything here is convenience: the page says the same without it.
(() => {
  const root = document.documentElement;
  const theme = document.createElement("button");
  const dark = () =>
    root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.type = "button";
  theme.title = "Switch between light and dark";
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  name();
  document.querySelector(".eyebrow").append(theme);

  const valueOf = (row, index) => {
    const cell = row.cells[index];
    const number = Number(cell.dataset.value ?? cell.textContent.replaceAll(",", ""));
    return cell.textContent.trim() === "" || Number.isNaN(number)
      ? cell.textContent
      : number;
  };
  for (const head of document.querySelectorAll("thead th")) {
    if (head.dataset.sort === "no") continue;
    head.classList.add("sortable");
    head.tabIndex = 0;
    const sort = () => {
      const body = head.closest("table").tBodies[0];
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((one, two) => {
        const a = valueOf(one, head.cellIndex);
        const b = valueOf(two, head.cellIndex);
        const order = typeof a === "number" && typeof b === "number"
          ? a - b
          : String(a).localeCompare(String(b));
        return down ? -order : order;
      });
      body.append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort();
    });
  }

  for (const table of document.querySelectorAll("table.discordant")) {
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = "Filter units and answers";
    field.setAttribute("aria-label", field.placeholder);
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      }
    });
    table.parentElement.before(field);
  }
})();
