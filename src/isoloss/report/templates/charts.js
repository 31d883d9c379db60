// Draws each chart when it comes near the window, and all of them before printing.
document.addEventListener("DOMContentLoaded", () => {
  const charts = document.querySelectorAll(".chart");
  const draw = (chart) => {
    const specification = chart.querySelector("script[type='application/json']");
    if (!specification) return;
    const options = { actions: false, renderer: "svg" };
    vegaEmbed(chart, JSON.parse(specification.textContent), options).catch(console.error);
  };
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      near.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "300px" });
  charts.forEach((chart) => near.observe(chart));
  addEventListener("beforeprint", () => charts.forEach(draw));
});
