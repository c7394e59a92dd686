// Draws every figure into the element of the same id, and redraws for paper.
(function () {
  "use strict";
  const PAPER_WIDTH = 696; // CSS pixels between the margins of an A4 page
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const config = {
    responsive: true,
    displaylogo: false,
    // Plotly 4 offers to upload a chart unless it is told not to: this file talks to nobody.
    showSendToCloud: false,
    plotlyServerURL: "",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    toImageButtonOptions: { scale: 2 },
  };
  const nodes = Object.keys(figures).map(function (name) {
    const node = document.getElementById("chart-" + name);
    Plotly.newPlot(node, figures[name].data, figures[name].layout, config);
    return node;
  });
  function resize(size) {
    nodes.forEach(function (node) {
      Plotly.relayout(node, size);
    });
  }
  window.addEventListener("beforeprint", function () {
    resize({ autosize: false, width: PAPER_WIDTH });
  });
  window.addEventListener("afterprint", function () {
    resize({ autosize: true, width: null });
  });
})();
