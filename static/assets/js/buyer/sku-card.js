// One SKU on the sale's page: what it is, how many are left, and the button.

import { el, picture, say, show } from "../shared/dom.js";
import { clockTime, count, money } from "../shared/format.js";
import { t } from "../shared/i18n.js";

/** Builds the card; `update(facts)` brings it up to date. */
export function skuCard(sku, { perUser, onBuy }) {
  const most = Math.min(perUser, 10, sku.total < 0 ? perUser : Math.max(1, sku.total));
  const quantity = el(
    "select",
    { id: `quantity-${sku.sku}`, testid: "quantity" },
    Array.from({ length: most }, (_, index) => el("option", { value: index + 1 }, String(index + 1))),
  );
  const button = el("button", {
    type: "button", class: "button primary buy", disabled: true, testid: "buy", "data-sku": sku.sku,
    onclick: () => onBuy(sku.sku, Number(quantity.value)),
  });
  const meter = el("span", { class: "fill" });
  const bar = el("span", { class: "meter", "aria-hidden": "true" }, meter);
  const left = el("span", { testid: "left" });
  const asOf = el("span", { class: "quiet" });
  const card = el(
    "li",
    { class: "card sku", testid: "sku", "data-sku": sku.sku },
    picture(sku.image, sku.name),
    el(
      "div",
      { class: "sku-text" },
      el("h3", { id: `name-${sku.sku}` }, sku.name),
      el("p", { class: "price" }, money(sku.price, sku.currency)),
      el("p", { class: "left" }, bar, left, asOf),
    ),
    el(
      "div",
      { class: "sku-buy" },
      el(
        "p",
        { class: "field inline", hidden: most < 2 },
        el("label", { for: `quantity-${sku.sku}` }, t("sale.quantity")),
        quantity,
      ),
      button,
    ),
  );
  button.setAttribute("aria-describedby", `name-${sku.sku}`);

  function update({ stock, enabled, label, soldOut }) {
    if (button.disabled === enabled) button.disabled = !enabled;
    say(button, label);
    const unlimited = stock.total < 0;
    const known = stock.left !== null;
    show(bar, !unlimited && known);
    const now = soldOut ? 0 : (stock.left ?? 0);
    meter.style.setProperty("--share", unlimited || !stock.total ? 0 : now / stock.total);
    say(left, unlimited ? t("sale.unlimited") : soldOut ? t("sale.none_left") : !known ? t("sale.not_ready")
      : t("sale.left", { left: count(now), total: count(stock.total) }));
    say(asOf, unlimited || soldOut || !known ? "" : t("sale.as_of", { time: clockTime(stock.as_of) }));
    card.classList.toggle("is-out", soldOut);
  }

  return { card, update };
}
