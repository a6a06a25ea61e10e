// Formulas are drawn by the copy of KaTeX beside this file, on pages that have some.
(() => {
  const here = document.currentScript.src.replace(/[^/]*$/, "");
  const formulas = document.querySelectorAll(".arithmatex");
  if (!formulas.length) return;
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = `${here}katex/katex.min.css`;
  const script = document.createElement("script");
  script.src = `${here}katex/katex.min.js`;
  script.onload = () => {
    for (const formula of formulas) {
      const text = formula.textContent.trim();
      katex.render(text.slice(2, -2), formula, {
        displayMode: text.startsWith("\\["),
        throwOnError: false,
      });
    }
  };
  document.head.append(style, script);
})();
