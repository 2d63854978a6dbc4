// The card of one SKU on the sale page: name, price, units left and buy button.

import { el, picture, setText, setVisible } from "../shared/dom.js";
import { clockTime, count, money } from "../shared/format.js";
import { t } from "../shared/i18n.js";
import { reserveSpace } from "./steady.js";

/** Every label of a button, by its key. */
const LABELS = [
  "sale.buy", "sale.held", "sale.not_yet", "sale.paused", "sale.sold_out", "sale.ended", "order.pay_now", "order.title",
];

/** A time of day that is as wide as any. */
const WIDE_TIME = new Date(2000, 0, 1, 22, 22, 22);

/** The enabled buy button that the pointer last went down on, or null. */
let pressed = null;
addEventListener("pointerdown", ({ target }) => (pressed = target.closest?.(".buy:enabled") ?? null), { capture: true });

/**
 * Whether a click was meant for its button: the page may have moved, or the button been enabled, under a pointer that was
 * down. A keyboard and assistive technology click without a pointer.
 */
const isMeant = ({ detail, currentTarget }) => detail === 0 || pressed === currentTarget;

/**
 * Builds the card of the SKU `id`. Returns `{card, describe, update}`: the element, a function that shows what an
 * operator may change, and one that updates stock, label and button.
 */
export function skuCard(id, onBuy) {
  const quantity = el("select", { id: `quantity-${id}`, testid: "quantity" });
  const quantityField = el(
    "p",
    { class: "field inline" },
    el("label", { for: `quantity-${id}` }, t("sale.quantity")),
    quantity,
  );
  const labelText = el("span");
  const button = el("button", {
    type: "button", class: "button primary buy steady", disabled: true, testid: "buy", "data-sku": id,
    "aria-describedby": `name-${id}`, onclick: (event) => isMeant(event) && onBuy(id, Number(quantity.value)),
  }, labelText);
  const image = el("div");
  const [name, price] = [el("h3", { id: `name-${id}` }), el("p", { class: "price" })];
  const fill = el("span", { class: "fill" });
  const meter = el("span", { class: "meter", "aria-hidden": "true" }, fill);
  const left = el("span", { testid: "left" });
  const asOf = el("span", { class: "quiet" });
  const stockLine = el("p", { class: "left" }, meter, el("span", { class: "steady" }, left), el("span", { class: "steady" }, asOf));
  const card = el(
    "li",
    { class: "card sku", testid: "sku", "data-sku": id },
    image,
    el("div", { class: "sku-text" }, name, price, stockLine),
    el("div", { class: "sku-buy" }, quantityField, button),
  );

  reserveSpace(labelText, LABELS.map((key) => t(key)));

  function describe(sku, perUser) {
    const total = count(sku.total);
    reserveSpace(left, sku.total < 0 ? [] : [t("sale.none_left"), t("sale.not_ready"), t("sale.left", { left: total, total })]);
    reserveSpace(asOf, sku.total < 0 ? [] : [t("sale.as_of", { time: clockTime(WIDE_TIME) })]);
    image.replaceChildren(picture(sku.image, sku.name));
    setText(name, sku.name);
    setText(price, money(sku.price, sku.currency));
    const maxQuantity = Math.min(perUser, 10, sku.total < 0 ? perUser : Math.max(1, sku.total));
    const chosen = Math.min(Number(quantity.value) || 1, maxQuantity);
    quantity.replaceChildren(
      ...Array.from({ length: maxQuantity }, (_, index) => el("option", { value: index + 1 }, String(index + 1))),
    );
    quantity.value = chosen;
    setVisible(quantityField, maxQuantity > 1);
  }

  function update({ stock, isEnabled, label, isSoldOut }) {
    if (button.disabled === isEnabled) button.disabled = !isEnabled;
    setText(labelText, label);
    const isUnlimited = stock.total < 0;
    const isKnown = stock.left !== null;
    setVisible(meter, !isUnlimited);
    const unitsLeft = isSoldOut ? 0 : (stock.left ?? 0);
    fill.style.setProperty("--share", isUnlimited || !stock.total ? 0 : unitsLeft / stock.total);
    setText(left, isUnlimited ? t("sale.unlimited") : isSoldOut ? t("sale.none_left") : !isKnown ? t("sale.not_ready")
      : t("sale.left", { left: count(unitsLeft), total: count(stock.total) }));
    setText(asOf, isUnlimited || isSoldOut || !isKnown ? "" : t("sale.as_of", { time: clockTime(stock.as_of) }));
    card.classList.toggle("is-out", isSoldOut);
  }

  return { card, describe, update };
}
