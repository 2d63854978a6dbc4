// Live statistics of one activity, polled every second, with restock, audit, rebuild and a new start key.

import { client, clock } from "../shared/client.js";
import { byId, confirmDialog, el, setText, setVisible } from "../shared/dom.js";
import { count, countdown } from "../shared/format.js";
import { poll } from "../shared/poll.js";
import { activityPath, explain, finishRebuild, runAction, send } from "./requests.js";
import { sparkline } from "./sparkline.js";

let poller = null;
let currentId = null;

byId("audit").addEventListener("click", (event) => void audit(event.target));
byId("rebuild").addEventListener("click", (event) => void rebuild(event.target));
byId("rotate").addEventListener("click", (event) => void rotate(event.target));

/** Shows the statistics of an activity and starts polling them. */
export function show(activity) {
  hide();
  currentId = activity.id;
  setText(byId("live-title"), activity.title);
  setVisible(byId("live"), true);
  const [tiles, stock] = [makeTiles(), makeStockTable()];
  byId("tiles").replaceChildren(...tiles.nodes);
  poller = poll(async () => {
    try {
      const [stats, phase] = await Promise.all([send("GET", activityPath(activity.id, "/stats")), loadPhase(activity.id)]);
      if (currentId !== activity.id) return null;
      setText(byId("live-phase"), phase);
      tiles.update(stats);
      stock.update(stats.skus);
      renderCounts("orders-by-status", stats.orders);
      renderCounts("refusals", stats.refusals);
      setText(byId("live-trouble"), "");
    } catch (error) {
      if (error.code === "unauthenticated") return null;
      setText(byId("live-trouble"), explain(error));
    }
    return 1_000;
  });
  byId("live").scrollIntoView({ block: "nearest" });
}

/** The phase as buyers see it, with the time that is left by the server's clock; empty if the gate cannot be loaded. */
async function loadPhase(id) {
  try {
    const data = await client.gate(id);
    const until = (time) => countdown(clock.millisecondsUntil(time));
    if (data.phase === "scheduled") return `Starts in ${until(data.starts_at)}`;
    if (data.phase === "ended") return "Ended";
    return `${data.phase === "paused" ? "Paused" : "Open"}, ends in ${until(data.ends_at)}`;
  } catch {
    return "";
  }
}

/** Stops polling and hides the statistics. */
export function hide() {
  poller?.stop();
  currentId = null;
  setVisible(byId("live"), false);
  byId("audit-result").replaceChildren();
}

function makeTiles() {
  const rate = sparkline("Reservations per second");
  const queue = sparkline("Orders in the queue");
  const makeTile = (label, line, testid) => {
    const value = el("b", { testid }, "–");
    return { value, node: el("div", { class: "card tile" }, el("span", {}, label), value, line?.node) };
  };
  const [left, held, sold] = [makeTile("Left"), makeTile("Held"), makeTile("Sold")];
  const perSecond = makeTile("Reservations per second", rate, "reservations-per-second");
  const length = makeTile("Queue", queue);
  const drain = makeTile("Orders written per second");
  let previous = null;

  function update({ skus, enqueued, queue: queued, drain_rate: drainRate }) {
    const sum = (name) => skus.reduce((total, sku) => total + Math.max(0, sku[name] ?? 0), 0);
    setText(left.value, skus.some((sku) => sku.total < 0) ? "∞" : count(sum("left")));
    setText(held.value, count(sum("held")));
    setText(sold.value, count(sum("sold")));
    setText(length.value, count(queued));
    queue.push(queued);
    setText(drain.value, count(drainRate));
    const current = { enqueued, at: performance.now() };
    if (previous) {
      // A rebuild of Redis begins the counter anew.
      const reserved = Math.max(0, ((current.enqueued - previous.enqueued) * 1000) / (current.at - previous.at));
      setText(perSecond.value, count(Math.round(reserved)));
      rate.push(reserved);
    }
    previous = current;
  }

  return { nodes: [left, held, sold, perSecond, length, drain].map(({ node }) => node), update };
}

/** The rows of the stock table. They stay when figures change, so that a button keeps the focus. */
function makeStockTable() {
  const rows = new Map();
  byId("stock").replaceChildren();

  function update(skus) {
    for (const sku of skus) {
      if (!rows.has(sku.sku)) {
        rows.set(sku.sku, stockRow(sku.sku));
        byId("stock").append(rows.get(sku.sku).node);
      }
      rows.get(sku.sku).update(sku);
    }
    for (const [name, { node }] of rows) {
      if (!skus.some(({ sku }) => sku === name)) node.remove(), rows.delete(name);
    }
  }

  return { update };
}

function stockRow(name) {
  let current;
  const cells = { total: "Total", left: "Left", held: "Held", sold: "Sold" };
  for (const [field, label] of Object.entries(cells)) {
    cells[field] = el("td", { class: "number", "data-label": label });
  }
  const button = el("button", {
    type: "button", class: "button", testid: `restock-${name}`, onclick: () => void restock(button, current),
  }, "Restock");
  const node = el(
    "tr",
    { testid: `stock-${name}` },
    el("td", {}, name),
    Object.values(cells),
    el("td", { class: "row-actions" }, button),
  );

  function update(sku) {
    current = sku;
    for (const [field, cell] of Object.entries(cells)) {
      setText(cell, sku[field] === null ? "not ready" : sku[field] < 0 ? "∞" : count(sku[field]));
    }
    setVisible(button, sku.total >= 0);
  }

  return { node, update };
}

async function restock(button, { sku, total: from }) {
  const by = await askNumber(`By how many units does ${sku} grow? Less than zero takes units away.`);
  if (by === null) return;
  await runAction(button, () => send("POST", activityPath(currentId, `/skus/${encodeURIComponent(sku)}/restock`), { by, from }), `The stock of ${sku} has changed by ${by}.`);
}

function askNumber(question) {
  return new Promise((resolve) => {
    const field = el("input", { type: "number", step: 1, required: true, "aria-label": question, testid: "restock-by" });
    const dialog = el(
      "dialog",
      { class: "dialog" },
      el(
        "form",
        { method: "dialog", onsubmit: () => (dialog.returnValue = "yes") },
        el("p", {}, question),
        field,
        el(
          "div",
          { class: "actions" },
          el("button", { type: "button", class: "button", onclick: () => dialog.close("no") }, "Cancel"),
          el("button", { class: "button primary", value: "yes", testid: "restock-send" }, "Restock"),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? Number(field.value) : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function renderCounts(id, values = {}) {
  const rows = Object.entries(values).filter(([, value]) => value);
  byId(id).replaceChildren(
    ...(rows.length ? rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, count(value))]) : [el("dt", {}, "none"), el("dd", {}, "0")]),
  );
}

async function audit(button) {
  const report = await runAction(button, () => send("GET", activityPath(currentId, "/audit")));
  if (report) byId("audit-result").replaceChildren(auditTable(report));
}

const INVARIANTS = [
  ["i1", "left + held + sold = total"],
  ["i2", "the ledger holds no more than the total"],
  ["i3", "no user holds more than the limit"],
];

function auditTable(report) {
  const headings = ["SKU", "Total", "Left", "Held", "Sold", "In the ledger", ...INVARIANTS.map(([, text]) => text), "Drift"];
  const rows = report.skus.map(({ redis, ledger, drift, ...verdicts }) =>
    el(
      "tr",
      {},
      [redis.sku, redis.total, redis.left ?? "not ready", redis.held, redis.sold, ledger?.counted ?? "none"].map(
        (value) => el("td", {}, String(value)),
      ),
      INVARIANTS.map(([name]) => el("td", { class: verdicts[name] ? "verdict-good" : "verdict-bad" }, verdicts[name] ? "yes" : "no")),
      el("td", {}, String(drift)),
    ),
  );
  return el(
    "div",
    { class: "card scroll" },
    el(
      "p",
      { class: report.ok ? "verdict-good" : "verdict-bad", testid: "audit-verdict" },
      report.ok ? "Every invariant holds." : "An invariant is broken: pause the sale and look at the log.",
    ),
    el("table", {}, el("thead", {}, el("tr", {}, headings.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows)),
  );
}

async function rebuild(button) {
  const question = "Build Redis anew from the ledger? The sale must be paused or closed.";
  if (!(await confirmDialog(question, "Rebuild", "Leave it"))) return;
  const id = currentId;
  const action = async () => finishRebuild(id, await send("POST", activityPath(id, "/rebuild"), {}));
  await runAction(button, action, ({ orders }) => `Redis is rebuilt from the ledger: ${count(orders)} orders.`);
}

async function rotate(button) {
  const question = "Make a new start key? Pages take it from the gate; requests with the old key are refused.";
  if (!(await confirmDialog(question, "New start key", "Leave it"))) return;
  await runAction(button, () => send("POST", activityPath(currentId, "/rotate-start-key"), {}), "The start key is new.");
}
