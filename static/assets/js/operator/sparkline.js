// A small line chart of the last values.

import { svg } from "../shared/dom.js";

const POINTS = 120;
const [WIDTH, HEIGHT] = [POINTS - 1, 30];

/** Creates a chart. `push(value)` adds a value and drops the oldest beyond `POINTS`. */
export function sparkline(label) {
  const values = [];
  const line = svg("path");
  const area = svg("path", { class: "area" });
  const node = svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    area,
    line,
  );

  function push(value) {
    values.push(value);
    if (values.length > POINTS) values.shift();
    const maximum = Math.max(1, ...values);
    const toPoint = (point, index) =>
      `${WIDTH - (values.length - 1 - index)} ${(HEIGHT - 1 - (point / maximum) * (HEIGHT - 2)).toFixed(2)}`;
    const path = `M${values.map(toPoint).join("L")}`;
    line.setAttribute("d", path);
    area.setAttribute("d", `${path}L${WIDTH} ${HEIGHT}L${WIDTH - values.length + 1} ${HEIGHT}Z`);
  }

  return { node, push };
}
