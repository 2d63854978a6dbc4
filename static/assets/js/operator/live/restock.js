// Changes the stock of a SKU.

import { count } from "../../shared/format.js";
import { ask } from "../dialog.js";
import { activityPath, runAction, send } from "../requests.js";
import { t } from "../words.js";

/** Asks by how many units the SKU grows, shows what it will have then, and sends it with the total that the operator saw. */
export async function restock(button, id, { sku, total: from }) {
  const read = ({ by }) => (by === "" ? "" : t("restock.outcome", { from: count(from), to: count(from + Number(by)) }));
  const answer = await ask({
    title: t("restock.ask", { sku }), yes: t("restock"), read,
    fields: [{ name: "by", label: t("restock.by"), hint: t("restock.hint"), type: "number", step: 1, min: -from, required: true }],
  });
  if (!answer) return;
  const by = Number(answer.by);
  const path = activityPath(id, `/skus/${encodeURIComponent(sku)}/restock`);
  await runAction(button, () => send("POST", path, { by, from }), t("restock.done", { sku, from: count(from), to: count(from + by) }));
}
