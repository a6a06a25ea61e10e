(() => {
  "use strict";

  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const plots = Object.keys(figures).map((name) => ({
    name,
    card: document.getElementById(`figure-${name}`),
    box: document.querySelector(`#${CSS.escape(`figure-${name}`)} .plot`),
    figure: figures[name],
    hidden: new Set(),
    view: null,
  }));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const PRINTED = { ink: "#000", faint: "#444", rule: "#bbb", width: 640, height: 290 };

  function theme() {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    return { ink: colour("--ink"), faint: colour("--faint"), rule: colour("--rule") };
  }

  function layoutOf(figure, colours) {
    const axis = { gridcolor: colours.rule, linecolor: colours.rule, tickcolor: colours.rule };
    return {
      ...figure.layout,
      xaxis: { ...figure.layout.xaxis, ...axis },
      yaxis: { ...figure.layout.yaxis, ...axis },
      // A finger on a figure scrolls the page; the buttons of the figure still zoom.
      dragmode: touch ? false : "zoom",
      font: { color: colours.ink, size: 12, family: "system-ui, sans-serif" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colours.faint, activecolor: colours.ink },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      autosize: colours.width === undefined,
      width: colours.width,
      height: colours.height,
    };
  }

  function drawAll(colours) {
    for (const plot of plots) {
      Plotly.react(plot.box, plot.figure.data, layoutOf(plot.figure, colours), {
        responsive: true,
        displaylogo: false,
        // Only these: among plotly.js's own are some that send the figure to a server.
        modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
        plotlyServerURL: "",
        toImageButtonOptions: { format: "svg", filename: plot.name },
      });
    }
  }

  function showChosen(plot) {
    for (const trace of plot.figure.data) {
      const inView = trace.meta.view === "" || trace.meta.view === plot.view;
      trace.visible = inView && !plot.hidden.has(trace.meta.group);
    }
    Plotly.react(plot.box, plot.figure.data, layoutOf(plot.figure, theme()));
  }

  function prepare(plot) {
    const views = [...plot.card.querySelectorAll("[data-view]")];
    plot.view = views.length ? views[0].dataset.view : plot.figure.data.map((t) => t.meta.view).find(Boolean) ?? "";
    for (const button of views) {
      button.addEventListener("click", () => {
        views.forEach((other) => other.setAttribute("aria-pressed", other === button));
        plot.view = button.dataset.view;
        showChosen(plot);
      });
    }
    for (const button of plot.card.querySelectorAll("[data-group]")) {
      const group = button.dataset.group;
      if (button.getAttribute("aria-pressed") === "false") plot.hidden.add(group);
      button.addEventListener("click", () => {
        if (!plot.hidden.delete(group)) plot.hidden.add(group);
        button.setAttribute("aria-pressed", !plot.hidden.has(group));
        showChosen(plot);
      });
    }
  }

  function sortKey(cell) {
    const marked = cell.querySelector("[data-value]");
    const text = marked ? marked.dataset.value : cell.textContent.trim();
    const number = text === "" ? NaN : Number(text.replace(/%$/, ""));
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

  plots.forEach(prepare);
  drawAll(theme());
  document.querySelectorAll("table.sortable").forEach(sortable);
  dark.addEventListener("change", () => drawAll(theme()));
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
    root.dataset.theme = isDark ? "light" : "dark";
    drawAll(theme());
  });
  addEventListener("beforeprint", () => drawAll(PRINTED));
  addEventListener("afterprint", () => drawAll(theme()));
})();
