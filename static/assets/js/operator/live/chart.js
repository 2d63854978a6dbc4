// One chart with axes and a legend, drawn by uPlot in the colours of the page.

import { el, setText } from "../../shared/dom.js";
import { clockTime, count, locale, minuteTime } from "../../shared/format.js";
import { t } from "../words.js";

const HEIGHT = 200;
/** The least that the time axis spans, in seconds. */
const MIN_SPAN = 60;
const FONT = "12px system-ui, sans-serif";
/** The steps of the value axis: whole numbers. */
const STEPS = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
let loading = null;

/** Loads uPlot, once. A call after one that failed tries again. */
export function loadUPlot() {
  return (loading ??= appendScript().catch((error) => {
    loading = null;
    throw error;
  }));
}

async function appendScript() {
  const script = el("script", { src: new URL("../../../vendor/uplot/uplot.js", import.meta.url).href });
  // While it is loaded, uPlot makes a number format of this language, which may be none that `Intl` knows.
  Object.defineProperty(navigator, "language", { value: locale, configurable: true });
  try {
    await new Promise((resolve, reject) => {
      script.addEventListener("load", resolve);
      script.addEventListener("error", reject);
      document.head.append(script);
    });
  } finally {
    delete navigator.language;
  }
  return globalThis.uPlot;
}

/**
 * Creates an empty chart with uPlot; `format(value)` writes a value into the legend.
 *
 * `update(times, lines, marks)` draws lines `{name, label, values}`: times are in seconds, values may be null or Infinity. A
 * later update may add lines, not remove any. Each mark `{at, text}` is a line at a time; what it is stands below the chart.
 */
export function createChart(uPlot, { id, title, format }) {
  const plot = el("div", { class: "plot", role: "img", "aria-label": t("chart.description") });
  const legend = el("ul", { class: "legend" });
  const moment = el("span", { class: "quiet" });
  const listed = el("p", { class: "quiet marks", testid: "marks" });
  const node = el(
    "figure",
    { class: "card chart", testid: `chart-${id}` },
    el("figcaption", {}, el("h2", {}, title), moment),
    legend,
    plot,
    listed,
  );
  let [times, lines, marks] = [[], [], []];
  /** The element of each line's value in the legend. */
  const entries = [];
  const chart = new uPlot(makeOptions(showValues, () => marks), [[]], plot);
  const resizer = new ResizeObserver(() => chart.setSize({ width: plot.clientWidth, height: HEIGHT }));
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const redraw = () => chart.redraw();
  resizer.observe(plot);
  scheme.addEventListener("change", redraw);

  function update(newTimes, newLines, newMarks) {
    [times, lines, marks] = [newTimes, newLines, newMarks];
    for (const line of lines.slice(entries.length)) addLine(line);
    setText(listed, marks.map(markText).join(" · "));
    chart.setData([times, ...lines.map(({ values }) => values.map((value) => (value === Infinity ? null : value)))]);
    showValues(chart);
  }

  function addLine({ name, label }) {
    const number = entries.length + 1;
    const value = el("b", { testid: `${id}-${name}` }, "–");
    entries.push(value);
    const swatch = el("span", { class: "swatch", "data-line": number });
    const toggle = el("button", { type: "button", class: "plain", "aria-pressed": "true" }, swatch, label, " ", value);
    toggle.addEventListener("click", () => {
      const isShown = toggle.getAttribute("aria-pressed") === "false";
      toggle.setAttribute("aria-pressed", String(isShown));
      chart.setSeries(number, { show: isShown });
    });
    legend.append(el("li", {}, toggle));
    chart.addSeries(makeSeries(number), number);
  }

  /** Shows the values at the pointer, else the latest. */
  function showValues({ cursor }) {
    const isPointed = typeof cursor.idx === "number" && cursor.idx < times.length;
    const index = isPointed ? cursor.idx : times.length - 1;
    entries.forEach((entry, line) => setText(entry, format(lines[line]?.values[index] ?? null)));
    setText(moment, isPointed ? clockTime(times[index] * 1_000) : "");
  }

  return { node, update };
}

/** A mark with its time: `10:04:00 paused by ada`. */
const markText = ({ at, text }) => `${clockTime(at * 1_000)} ${text}`;

/** The value of a colour of the style sheet. */
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function makeSeries(number) {
  const name = `line-${number}`;
  return {
    stroke: () => color(name),
    fill: () => `${color(name)}18`,
    width: 2,
    points: { show: false },
  };
}

/** The times of the axis, from the first one drawn, but at least a minute. */
const timesShown = (to, from) => [Math.min(from ?? to, to - MIN_SPAN), to];

function makeOptions(onCursor, marks) {
  const axis = { stroke: () => color("quiet"), font: FONT };
  const rule = { stroke: () => color("line"), width: 1 };
  const formatTime = (times, step) => times.map((time) => (step < 60 ? clockTime : minuteTime)(time * 1_000));
  // A character takes 7.5 pixels at most. Four, so that the charts of a column begin at the same place.
  const widthOf = (texts) => 14 + 7.5 * Math.max(4, ...texts.map(({ length }) => length));
  return {
    width: 300,
    height: HEIGHT,
    padding: [10, 12, 0, 0],
    legend: { show: false },
    series: [{}],
    scales: {
      x: { range: (_, from, to) => timesShown(to === null ? Date.now() / 1_000 : to, from) },
      y: { range: (_, __, to) => [0, Math.max(1, (to ?? 0) * 1.08)] },
    },
    axes: [
      {
        ...axis, size: 26, space: 90, grid: { show: false }, ticks: { ...rule, size: 5 },
        values: (_, times, __, ___, step) => formatTime(times, step),
      },
      {
        ...axis, size: (_, texts) => widthOf(texts ?? []), space: 36, incrs: STEPS, grid: rule, ticks: { show: false },
        values: (_, steps) => steps.map(count),
      },
    ],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 8 } },
    hooks: { setCursor: [onCursor], draw: [(chart) => drawMarks(chart, marks())] },
  };
}

/** Draws a line at the time of each mark. */
function drawMarks({ ctx, bbox, valToPos }, marks) {
  ctx.save();
  ctx.strokeStyle = color("quiet");
  ctx.setLineDash([4, 4]);
  for (const { at } of marks) {
    const x = Math.round(valToPos(at, "x", true));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
