// The chart of a sale: units left, held and sold since its start, with marks for what operators did.

import { byId, el } from "../../shared/dom.js";
import { t } from "../words.js";
import { createChart, loadUPlot } from "./chart.js";
import { formatUnits } from "./figures.js";

const LINES = ["left", "held", "sold"];

/**
 * Fills the chart anew, as soon as uPlot is loaded. `update(samples, marks)` draws the samples, and the marks
 * `{at, text}`, with their times in seconds.
 */
export function makeCharts() {
  let [chart, latest] = [null, null];
  const draw = (samples, marks) => {
    const times = samples.map(({ at }) => at);
    const shown = marks.filter(({ at }) => at >= times[0] && at <= times[times.length - 1]);
    chart.update(times, LINES.map((name) => ({ name, label: t(`units.${name}`), values: samples.map((sample) => sample[name]) })), shown);
  };
  const start = (uPlot) => {
    chart = createChart(uPlot, { id: "stock", title: t("chart"), format: formatUnits });
    byId("charts").replaceChildren(chart.node);
    if (latest) draw(...latest);
  };
  loadUPlot().then(start, () => byId("charts").replaceChildren(el("p", { class: "trouble" }, t("chart.failed"))));
  return {
    update(samples, marks) {
      latest = [samples, marks];
      if (chart) draw(samples, marks);
    },
  };
}

/** The marks of an activity: its start, and its operators' changes that the chart names, oldest first. */
export function marksOf({ starts_at: start }, changes) {
  const marks = changes.flatMap(({ changed_at: time, action, operator }) => {
    const [, verb] = /\/(pause|resume|close|restock)$/.exec(action) ?? [];
    return verb ? [{ at: Date.parse(time) / 1_000, text: t(`mark.${verb}`, { operator }) }] : [];
  });
  return [{ at: Date.parse(start) / 1_000, text: t("mark.start") }, ...marks.reverse()];
}
