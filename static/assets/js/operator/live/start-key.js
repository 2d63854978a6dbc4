// Replaces the start key of a sale.

import { confirm } from "../dialog.js";
import { activityPath, runAction, send } from "../requests.js";
import { t } from "../words.js";

/** Asks, and makes a new start key for the activity. */
export async function rotateStartKey(button, id) {
  if (!(await confirm({ title: t("rotate.ask"), text: t("rotate.follows"), yes: t("rotate") }))) return;
  await runAction(button, () => send("POST", activityPath(id, "/rotate-start-key"), {}), t("rotate.done"));
}
