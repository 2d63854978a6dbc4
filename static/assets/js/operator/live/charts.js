// The charts of a sale: orders per second, units, queue and refusals per second.

import { byId, el } from "../../shared/dom.js";
import { createChart, loadUPlot } from "./chart.js";
import { formatRate, formatUnits } from "./figures.js";

/**
 * Each chart, with the members of the samples that are its lines, and their labels. An order is written soon after it is
 * reserved: a dashed line shows the one below it.
 */
const CHARTS = [
  { id: "orders", title: "Orders per second", format: formatRate, lines: { reserved: "Reserved", written: "Written", paid: "Paid" }, dashed: "written" },
  { id: "stock", title: "Units", format: formatUnits, lines: { left: "Left", held: "Held", sold: "Sold" } },
  { id: "queue", title: "Orders in the queue", format: formatUnits, lines: { queue: "Queue" } },
];

const REFUSALS = { id: "refusals", title: "Refusals per second", format: formatRate };

/**
 * Fills the charts anew, as soon as uPlot is loaded. `update(samples)` draws the samples of the history; `remove()` ends
 * the charts.
 */
export function makeCharts() {
  let [charts, samples, isRemoved] = [null, null, false];
  const start = (uPlot) => {
    if (isRemoved) return;
    charts = drawCharts(uPlot);
    if (samples) charts.update(samples);
  };
  const explain = () => isRemoved || byId("charts").replaceChildren(el("p", { class: "trouble" }, "The charts did not load."));
  loadUPlot().then(start, explain);
  return {
    update(newSamples) {
      samples = newSamples;
      charts?.update(samples);
    },
    remove() {
      isRemoved = true;
      charts?.remove();
      byId("charts").replaceChildren();
    },
  };
}

function drawCharts(uPlot) {
  const charts = CHARTS.map((chart) => createChart(uPlot, chart));
  const refusals = createChart(uPlot, REFUSALS);
  /** The codes of refusals that have come since the charts were made, in this order. */
  const codes = new Set();
  byId("charts").replaceChildren(...[...charts, refusals].map(({ node }) => node));

  function update(samples) {
    const times = samples.map(({ at }) => at);
    charts.forEach((chart, index) => {
      const { lines, dashed } = CHARTS[index];
      const toLine = ([name, label]) => ({ label, values: samples.map((sample) => sample[name]), dashed: name === dashed });
      chart.update(times, Object.entries(lines).map(toLine));
    });
    for (const [code, rate] of Object.entries(samples[samples.length - 1].refused ?? {})) if (rate) codes.add(code);
    const valuesOf = (code) => samples.map(({ refused }) => refused && (refused[code] ?? 0));
    refusals.update(times, [...codes].map((code) => ({ label: code, values: valuesOf(code) })));
  }

  function remove() {
    for (const chart of [...charts, refusals]) chart.remove();
  }

  return { update, remove };
}
