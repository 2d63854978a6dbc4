// The stock of each SKU. Rows stay when figures change, so that a button keeps the focus.

import { byId, el, setText, setVisible } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { t } from "../words.js";
import { restock } from "./restock.js";

/** The figures of a SKU; those of the line are hidden in a sale without one. */
const FIGURES = ["total", "left", "held", "sold"];
const OF_LINE = ["waiting", "to_offer"];

/** The heads of the table's columns. */
export const figureHeads = () => [...FIGURES, ...OF_LINE].map((figure) =>
  el("th", { scope: "col", class: "number", "data-of-line": OF_LINE.includes(figure) }, t(`units.${figure}`)));

/** Empties the table for the activity `id`. `update(skus, hasLine)` shows the statistics of its SKUs. */
export function makeStockTable(id) {
  const rows = new Map();
  byId("stock").replaceChildren();

  function update(skus, hasLine) {
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
    for (const cell of byId("stock").closest("table").querySelectorAll("[data-of-line]")) setVisible(cell, hasLine);
  }

  return { update };
}

function stockRow(id, name) {
  let current;
  const cells = Object.fromEntries([...FIGURES, ...OF_LINE].map((field) =>
    [field, el("td", { class: "number", "data-label": t(`units.${field}`), "data-of-line": OF_LINE.includes(field) })]));
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
