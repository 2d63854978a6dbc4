// Live figures of one sale, every second.

import { ask, byId, el, say, show as reveal } from "../shared/dom.js";
import { count } from "../shared/format.js";
import { repeat } from "../shared/poll.js";
import { doing, explain, sale, send } from "./desk.js";
import { sparkline } from "./sparkline.js";

let watch = null;
let current = null;

byId("audit").addEventListener("click", (event) => void audit(event.target));
byId("rebuild").addEventListener("click", (event) => void rebuild(event.target));
byId("rotate").addEventListener("click", (event) => void rotate(event.target));

/** Shows a sale's figures from now on. */
export function show(activity) {
  hide();
  current = activity.id;
  say(byId("live-title"), activity.title);
  reveal(byId("live"), true);
  const tiles = makeTiles();
  byId("tiles").replaceChildren(...tiles.nodes);
  watch = repeat(async () => {
    try {
      const stats = await send("GET", sale(activity.id, "/stats"));
      if (current !== activity.id) return null;
      tiles.update(stats);
      byId("stock").replaceChildren(...stats.skus.map(stockRow));
      figures("orders-by-status", stats.orders);
      figures("refusals", stats.refusals);
      say(byId("live-trouble"), "");
    } catch (error) {
      if (error.code === "unauthenticated") return null;
      say(byId("live-trouble"), explain(error));
    }
    return 1_000;
  });
  byId("live").scrollIntoView({ block: "nearest" });
}

/** Stops and hides the figures. */
export function hide() {
  watch?.stop();
  current = null;
  reveal(byId("live"), false);
  byId("audit-result").replaceChildren();
}

function makeTiles() {
  const rate = sparkline("Reservations per second");
  const queue = sparkline("Orders in the queue");
  const tile = (label, spark) => {
    const value = el("b", {}, "–");
    return { value, node: el("div", { class: "card tile" }, el("span", {}, label), value, spark?.node) };
  };
  const [left, held, sold] = [tile("Left"), tile("Held"), tile("Sold")];
  const perSecond = tile("Reservations per second", rate);
  const length = tile("Queue", queue);
  const drain = tile("Orders written per second");
  let before = null;

  function update({ skus, queue: waiting, drain_rate: speed }) {
    const sum = (name) => skus.reduce((total, sku) => total + Math.max(0, sku[name] ?? 0), 0);
    say(left.value, skus.some((sku) => sku.total < 0) ? "∞" : count(sum("left")));
    say(held.value, count(sum("held")));
    say(sold.value, count(sum("sold")));
    say(length.value, count(waiting));
    queue.push(waiting);
    say(drain.value, count(speed));
    const now = { taken: sum("held") + sum("sold"), at: performance.now() };
    if (before) {
      const taken = Math.max(0, ((now.taken - before.taken) * 1000) / (now.at - before.at));
      say(perSecond.value, count(Math.round(taken)));
      rate.push(taken);
    }
    before = now;
  }

  return { nodes: [left, held, sold, perSecond, length, drain].map(({ node }) => node), update };
}

function stockRow(sku) {
  const cell = (label, value) =>
    el("td", { class: "number", "data-label": label }, value === null ? "not ready" : value < 0 ? "∞" : count(value));
  return el(
    "tr",
    { testid: `stock-${sku.sku}` },
    el("td", {}, sku.sku),
    cell("Total", sku.total),
    cell("Left", sku.left),
    cell("Held", sku.held),
    cell("Sold", sku.sold),
    el(
      "td",
      { class: "row-actions" },
      sku.total < 0
        ? null
        : el("button", { type: "button", class: "button", testid: `restock-${sku.sku}`, onclick: (event) => void restock(event.target, sku) }, "Restock"),
    ),
  );
}

async function restock(button, { sku, total: from }) {
  const by = await askNumber(`By how many units does ${sku} grow? Less than zero takes units away.`);
  if (by === null) return;
  await doing(button, () => send("POST", sale(current, `/skus/${encodeURIComponent(sku)}/restock`), { by, from }), `The stock of ${sku} has changed by ${by}.`);
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

function figures(id, values = {}) {
  const rows = Object.entries(values).filter(([, value]) => value);
  byId(id).replaceChildren(
    ...(rows.length ? rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, count(value))]) : [el("dt", {}, "none"), el("dd", {}, "0")]),
  );
}

async function audit(button) {
  const report = await doing(button, () => send("GET", sale(current, "/audit")));
  if (report) byId("audit-result").replaceChildren(auditTable(report));
}

const INVARIANTS = [
  ["i1", "left + held + sold = total"],
  ["i2", "the ledger holds no more than the total"],
  ["i3", "nobody holds more than the limit"],
];

function auditTable(report) {
  const heads = ["SKU", "Total", "Left", "Held", "Sold", "In the ledger", ...INVARIANTS.map(([, text]) => text), "Drift"];
  const rows = report.skus.map(({ redis, ledger, drift, ...holds }) =>
    el(
      "tr",
      {},
      [redis.sku, redis.total, redis.left ?? "not ready", redis.held, redis.sold, ledger?.counted ?? "none"].map(
        (value) => el("td", {}, String(value)),
      ),
      INVARIANTS.map(([name]) => el("td", { class: holds[name] ? "verdict-good" : "verdict-bad" }, holds[name] ? "yes" : "no")),
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
    el("table", {}, el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows)),
  );
}

async function rebuild(button) {
  const question = "Build Redis anew from the ledger? The sale must be paused or closed.";
  if (!(await ask(question, "Rebuild", "Leave it"))) return;
  await doing(button, () => send("POST", sale(current, "/rebuild"), {}), "Redis is rebuilt from the ledger.");
}

async function rotate(button) {
  const question = "Make a new start key? Pages take it from the gate; whoever kept the old one is refused.";
  if (!(await ask(question, "New start key", "Leave it"))) return;
  await doing(button, () => send("POST", sale(current, "/rotate-start-key"), {}), "The start key is new.");
}
