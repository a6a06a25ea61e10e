(() => {
  "use strict";

  const root = document.documentElement;
  const all = document.querySelector(".page");
  const title = document.title;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const PRINTED = { ink: "#000", faint: "#444", rule: "#bbb", width: 640, height: 290 };
  let plots = []; // of the page that is shown
  const plotsOfAll = prepare(all);
  let left = 0; // how far down the reader was before opening a run

  function theme() {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    return { ink: colour("--ink"), faint: colour("--faint"), rule: colour("--rule") };
  }

  function layoutOf(plot, colours) {
    const layout = plot.figure.layout;
    const axis = { gridcolor: colours.rule, linecolor: colours.rule, tickcolor: colours.rule };
    const whole = plot.whole || plot.figure.data.some((t) => t.visible && t.meta.group.startsWith("reference"));
    return {
      ...layout,
      xaxis: { ...layout.xaxis, ...axis },
      yaxis: { ...layout.yaxis, ...axis, ...(whole ? { range: undefined, autorange: true } : {}) },
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

  function draw(plot, colours) {
    // A copy: plotly.js writes the range that it finds into what it is given.
    Plotly.react(plot.box, plot.figure.data, structuredClone(layoutOf(plot, colours)), {
      responsive: true,
      displaylogo: false,
      displayModeBar: touch ? false : "hover",
      // Only these: among plotly.js's own are some that send the figure to a server.
      modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
      plotlyServerURL: "",
      toImageButtonOptions: { format: "svg", filename: plot.name },
    });
  }

  function drawAll(colours) {
    for (const plot of plots) draw(plot, colours);
  }

  function showChosen(plot) {
    for (const trace of plot.figure.data) {
      const inView = trace.meta.view === "" || trace.meta.view === plot.view;
      trace.visible = inView && !plot.hidden.has(trace.meta.group);
    }
    draw(plot, theme());
  }

  function prepareLegend(buttons, controlled) {
    for (const button of buttons) {
      const group = button.dataset.group;
      if (button.getAttribute("aria-pressed") === "false") controlled.forEach((plot) => plot.hidden.add(group));
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", shown);
        for (const plot of controlled) {
          plot.hidden[shown ? "delete" : "add"](group);
          showChosen(plot);
        }
      });
    }
  }

  function prepareCard(card, figure) {
    const plot = { name: card.dataset.figure, box: card.querySelector(".plot"), figure, hidden: new Set(), whole: false };
    plot.view = figure.data.map((trace) => trace.meta.view).find(Boolean) ?? "";
    prepareLegend(card.querySelectorAll("[data-group]"), [plot]);
    card.querySelector(".whole")?.addEventListener("click", (event) => {
      plot.whole = !plot.whole;
      event.currentTarget.setAttribute("aria-pressed", plot.whole);
      draw(plot, theme());
    });
    return plot;
  }

  function prepareFigures(block, figures) {
    const here = [...block.querySelectorAll(".card")].map((card) => prepareCard(card, figures[card.dataset.figure]));
    prepareLegend(block.querySelectorAll(":scope > .legend [data-group]"), here);
    const views = [...block.querySelectorAll("[data-view]")];
    for (const button of views) {
      button.addEventListener("click", () => {
        views.forEach((other) => other.setAttribute("aria-pressed", other === button));
        for (const plot of here) {
          plot.view = button.dataset.view;
          showChosen(plot);
        }
      });
    }
    return here;
  }

  function prepare(page) {
    const figures = JSON.parse(page.querySelector("script.figures").textContent);
    tables.prepare(page);
    return [...page.querySelectorAll(".figures:not(script)")].flatMap((block) => prepareFigures(block, figures));
  }

  // The address says which page is shown: #run-NAME a run, everything else the first one.
  function route() {
    const target = location.hash.slice(1);
    const template = document.getElementById(target.split("/")[0]);
    const opened = document.querySelector(".page.run");
    if (template instanceof HTMLTemplateElement) {
      if (opened?.dataset.name !== template.id) open(template, opened);
    } else if (opened || !plots.length) {
      close(opened);
    }
    document.getElementById(target)?.scrollIntoView();
  }

  function open(template, opened) {
    if (!opened) left = scrollY;
    remove(opened);
    const page = template.content.querySelector(".page").cloneNode(true);
    page.classList.add("run");
    page.dataset.name = template.id;
    all.hidden = true;
    all.after(page);
    document.title = page.querySelector("h1").textContent;
    plots = prepare(page);
    drawAll(theme());
    scrollTo(0, 0);
  }

  function close(opened) {
    remove(opened);
    all.hidden = false;
    document.title = title;
    plots = plotsOfAll;
    drawAll(theme());
    if (opened) scrollTo(0, left);
  }

  function remove(opened) {
    if (!opened) return;
    plots.forEach((plot) => Plotly.purge(plot.box));
    opened.remove();
  }

  route();
  addEventListener("hashchange", route);
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
