// Rebuilds the Redis state of a sale from the ledger.

import { confirmDialog } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { activityPath, finishRebuild, runAction, send } from "../requests.js";

/** Asks, and rebuilds the activity. */
export async function rebuild(button, id) {
  const question = "Build Redis anew from the ledger? The sale must be paused or closed.";
  if (!(await confirmDialog(question, "Rebuild", "Leave it"))) return;
  const action = async () => finishRebuild(id, await send("POST", activityPath(id, "/rebuild"), {}));
  await runAction(button, action, ({ orders }) => `Redis is rebuilt from the ledger: ${count(orders)} orders.`);
}
