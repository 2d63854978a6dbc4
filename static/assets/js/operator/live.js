// Live statistics of one activity, polled every second.

import { byId, setText, setVisible } from "../shared/dom.js";
import { poll } from "../shared/poll.js";
import { audit, clearAudit } from "./live/audit.js";
import { makeCharts } from "./live/charts.js";
import { showCounts } from "./live/counts.js";
import { createHistory } from "./live/history.js";
import { loadPhase } from "./live/phase.js";
import { rebuild } from "./live/rebuild.js";
import { rotateStartKey } from "./live/start-key.js";
import { makeStockTable } from "./live/stock-table.js";
import { makeTiles } from "./live/tiles.js";
import { activityPath, explain, send } from "./requests.js";

const POLL_INTERVAL = 1_000;

let poller = null;
let currentId = null;
let charts = null;

byId("audit").addEventListener("click", ({ target }) => void audit(target, currentId));
byId("rebuild").addEventListener("click", ({ target }) => void rebuild(target, currentId));
byId("rotate").addEventListener("click", ({ target }) => void rotateStartKey(target, currentId));

/** Shows the statistics of an activity and starts polling them. */
export function show({ id, title }) {
  hide();
  currentId = id;
  setText(byId("live-title"), title);
  setVisible(byId("live"), true);
  const [history, tiles, stock] = [createHistory(), makeTiles(), makeStockTable(id)];
  const thisCharts = (charts = makeCharts());
  poller = poll(async () => {
    try {
      const [stats, phase] = await Promise.all([send("GET", activityPath(id, "/stats")), loadPhase(id)]);
      // The operator has left, or opened another sale or this one again.
      if (charts !== thisCharts) return null;
      setText(byId("live-phase"), phase);
      const samples = history.add(stats);
      tiles.update(samples[samples.length - 1]);
      charts.update(samples);
      stock.update(stats.skus);
      showCounts("orders-by-status", stats.orders);
      showCounts("refusals", stats.refusals);
      setText(byId("live-trouble"), "");
    } catch (error) {
      if (error.code === "unauthenticated") return null;
      setText(byId("live-trouble"), explain(error));
    }
    return POLL_INTERVAL;
  });
  byId("live").scrollIntoView({ block: "nearest" });
}

/** Stops polling and hides the statistics. */
export function hide() {
  poller?.stop();
  charts?.remove();
  charts = null;
  currentId = null;
  setVisible(byId("live"), false);
  clearAudit();
}
