// Compares Redis, the ledger and the invariants of a sale, and shows the verdict.

import { byId, el } from "../../shared/dom.js";
import { activityPath, runAction, send } from "../requests.js";

/** Audits the activity and shows the report. */
export async function audit(button, id) {
  const report = await runAction(button, () => send("GET", activityPath(id, "/audit")));
  if (report) byId("audit-result").replaceChildren(auditTable(report));
}

/** Removes the report. */
export const clearAudit = () => byId("audit-result").replaceChildren();

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
