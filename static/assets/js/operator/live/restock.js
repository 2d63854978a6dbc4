// Changes the stock of a SKU.

import { el } from "../../shared/dom.js";
import { activityPath, runAction, send } from "../requests.js";

/** Asks by how many units the SKU grows, and sends it with the total that the operator saw. */
export async function restock(button, id, { sku, total: from }) {
  const by = await askNumber(`By how many units does ${sku} grow? Less than zero takes units away.`);
  if (by === null) return;
  const path = activityPath(id, `/skus/${encodeURIComponent(sku)}/restock`);
  await runAction(button, () => send("POST", path, { by, from }), `The stock of ${sku} has changed by ${by}.`);
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
