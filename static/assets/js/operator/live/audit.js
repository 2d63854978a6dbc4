// Compares Redis, the ledger and the invariants of a sale, and shows the verdict.

import { byId, el } from "../../shared/dom.js";
import { activityPath, runAction, send } from "../requests.js";
import { t } from "../words.js";

/** Audits the activity and shows the report. */
export async function audit(button, id) {
  const report = await runAction(button, () => send("GET", activityPath(id, "/audit")));
  if (report) byId("audit-result").replaceChildren(...auditTable(report));
}

const INVARIANTS = ["i1", "i2", "i3", "i8"];

function auditTable(report) {
  const cells = (sku) => [
    ["total", sku.redis.total], ["left", sku.redis.left ?? t("not_ready")], ["held", sku.redis.held], ["sold", sku.redis.sold],
    ["ledger", sku.ledger?.counted ?? t("none")], ["drift", sku.drift],
  ];
  const verdict = (isGood) => el("span", { class: isGood ? "verdict-good" : "verdict-bad" }, t(isGood ? "audit.holds" : "audit.broken"));
  return [
    el("p", { class: report.ok ? "verdict-good" : "verdict-bad", testid: "audit-verdict" }, t(report.ok ? "audit.ok" : "audit.bad")),
    el("ul", { class: "audit" }, report.skus.map((sku) => el("li", {},
      el("strong", {}, sku.redis.sku),
      el("p", { class: "quiet" }, cells(sku).map(([name, value]) => `${t(`audit.${name}`)} ${value}`).join(" · ")),
      INVARIANTS.map((name) => el("p", {}, verdict(sku[name]), ` ${t(`audit.${name}`)}`))))),
  ];
}
