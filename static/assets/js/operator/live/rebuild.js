// Rebuilds the Redis state of a sale from the ledger.

import { count } from "../../shared/format.js";
import { confirm } from "../dialog.js";
import { activityPath, finishRebuild, runAction, send } from "../requests.js";
import { t } from "../words.js";

/** Asks, and rebuilds the activity. */
export async function rebuild(button, id) {
  if (!(await confirm({ title: t("rebuild.ask"), text: t("rebuild.follows"), yes: t("rebuild") }))) return;
  const action = async () => finishRebuild(id, await send("POST", activityPath(id, "/rebuild"), {}));
  await runAction(button, action, ({ orders }) => t("rebuild.done", { orders: count(orders) }));
}
