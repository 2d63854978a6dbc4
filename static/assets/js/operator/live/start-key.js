// Replaces the start key of a sale.

import { confirmDialog } from "../../shared/dom.js";
import { activityPath, runAction, send } from "../requests.js";

/** Asks, and makes a new start key for the activity. */
export async function rotateStartKey(button, id) {
  const question = "Make a new start key? Pages take it from the gate; requests with the old key are refused.";
  if (!(await confirmDialog(question, "New start key", "Leave it"))) return;
  await runAction(button, () => send("POST", activityPath(id, "/rotate-start-key"), {}), "The start key is new.");
}
