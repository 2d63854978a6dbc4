// The card of one SKU on the sale page: name, price, units left and buy button.

import { el, picture, setText, setVisible } from "../shared/dom.js";
import { clockTime, count, money } from "../shared/format.js";
import { t } from "../shared/i18n.js";

/** Builds the card. Returns `{card, update}`: the element, and a function that updates stock, label and button. */
export function skuCard(sku, { perUser, onBuy }) {
  const maxQuantity = Math.min(perUser, 10, sku.total < 0 ? perUser : Math.max(1, sku.total));
  const quantity = el(
    "select",
    { id: `quantity-${sku.sku}`, testid: "quantity" },
    Array.from({ length: maxQuantity }, (_, index) => el("option", { value: index + 1 }, String(index + 1))),
  );
  const button = el("button", {
    type: "button", class: "button primary buy", disabled: true, testid: "buy", "data-sku": sku.sku,
    onclick: () => onBuy(sku.sku, Number(quantity.value)),
  });
  const fill = el("span", { class: "fill" });
  const meter = el("span", { class: "meter", "aria-hidden": "true" }, fill);
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
      el("p", { class: "left" }, meter, left, asOf),
    ),
    el(
      "div",
      { class: "sku-buy" },
      el(
        "p",
        { class: "field inline", hidden: maxQuantity < 2 },
        el("label", { for: `quantity-${sku.sku}` }, t("sale.quantity")),
        quantity,
      ),
      button,
    ),
  );
  button.setAttribute("aria-describedby", `name-${sku.sku}`);

  function update({ stock, isEnabled, label, isSoldOut }) {
    if (button.disabled === isEnabled) button.disabled = !isEnabled;
    setText(button, label);
    const isUnlimited = stock.total < 0;
    const isKnown = stock.left !== null;
    setVisible(meter, !isUnlimited && isKnown);
    const unitsLeft = isSoldOut ? 0 : (stock.left ?? 0);
    fill.style.setProperty("--share", isUnlimited || !stock.total ? 0 : unitsLeft / stock.total);
    setText(left, isUnlimited ? t("sale.unlimited") : isSoldOut ? t("sale.none_left") : !isKnown ? t("sale.not_ready")
      : t("sale.left", { left: count(unitsLeft), total: count(stock.total) }));
    setText(asOf, isUnlimited || isSoldOut || !isKnown ? "" : t("sale.as_of", { time: clockTime(stock.as_of) }));
    card.classList.toggle("is-out", isSoldOut);
  }

  return { card, update };
}
