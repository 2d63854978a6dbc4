// The stock of each SKU. Rows stay when figures change, so that a button keeps the focus.

import { byId, el, setText, setVisible } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { t } from "../words.js";
import { restock } from "./restock.js";

/** Empties the table for the activity `id`. `update(skus)` shows the statistics of its SKUs. */
export function makeStockTable(id) {
  const rows = new Map();
  byId("stock").replaceChildren();

  function update(skus) {
    for (const sku of skus) {
      if (!rows.has(sku.sku)) {
        rows.set(sku.sku, stockRow(id, sku.sku));
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

function stockRow(id, name) {
  let current;
  const cells = Object.fromEntries(["total", "left", "held", "sold"].map((field) =>
    [field, el("td", { class: "number", "data-label": t(`units.${field}`) })]));
  const button = el("button", {
    type: "button", class: "button", testid: `restock-${name}`, onclick: () => void restock(button, id, current),
  }, t("restock.open"));
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
      setText(cell, sku[field] === null ? t("not_ready") : sku[field] < 0 ? "∞" : count(sku[field]));
    }
    setVisible(button, sku.total >= 0);
  }

  return { node, update };
}
