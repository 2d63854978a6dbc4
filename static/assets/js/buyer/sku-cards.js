// The cards of the SKUs on the sale page, of which the visitor chooses one. SKUs of one item are options of one card.

import { clock } from "../shared/client.js";
import { byId, el, picture, setText, setVisible } from "../shared/dom.js";
import { count, priceText } from "../shared/format.js";
import { t } from "../shared/i18n.js";
import { cardOf, chosenSku, isSoldOut, joins, state } from "./sale-state.js";
import { reserveSpace } from "./steady.js";

/** The share of the stock below which little is left, and the number of units. */
const LITTLE = { share: 0.1, units: 5 };

/** Card → what `createCard` returned. */
const cards = new Map();

let created = 0;

/** Renders what an operator may change. Cards stay, so that they keep the focus and what was chosen. */
export function renderCards() {
  const { skus } = state.activity;
  const groups = new Map();
  for (const sku of skus) groups.set(cardOf(sku), [...(groups.get(cardOf(sku)) ?? []), sku]);
  for (const [key, { node }] of cards) if (!groups.has(key)) node.remove(), cards.delete(key);
  for (const [key, group] of groups) {
    if (!cards.has(key)) cards.set(key, createCard(key));
    // In the operator's order.
    byId("skus").append(cards.get(key).node);
    cards.get(key).describe(group, skus.length === 1);
  }
  if (!skus.some(({ sku }) => sku === state.chosen)) state.chosen = (skus.find((sku) => !isSoldOut(sku) && !joins(sku)) ?? skus.find((sku) => !isSoldOut(sku)) ?? skus[0]).sku;
  updateCards();
}

/** Updates the choice and the stock. */
export const updateCards = () => cards.forEach(({ update }) => update());

function createCard(key) {
  const id = `sku-${(created += 1)}`;
  const [image, price, left] = [el("span"), el("span"), el("span", { testid: "left" })];
  const name = el("strong", { class: "sku-name", id: `${id}-name` });
  const fill = el("span", { class: "fill" });
  const meter = el("span", { class: "meter", "aria-hidden": "true" }, fill);
  const radio = radioOf("", `${id}-name ${id}-facts`);
  const whole = el("label", { class: "sku-choice" }, radio, el("span", { class: "ring" }));
  const stepper = createStepper(key, () => choose(shown().sku));
  const options = el("div", { class: "options", role: "group" });
  const facts = el(
    "span",
    { class: "sku-facts", id: `${id}-facts` },
    el("span", { class: "price steady" }, price), " ",
    el("span", { class: "left steady" }, left),
  );
  const row = el("div", { class: "sku-row" }, facts);
  const optionsRow = el("div", { class: "sku-row" }, options);
  const node = el("div", { class: "card sku", testid: "sku" }, whole, image, el("div", { class: "sku-text" }, name, row), optionsRow, meter);
  let group = [];

  /** The SKU that the card shows: the chosen one, else the one that was chosen last. */
  let lastShown = null;
  function shown() {
    const current = group.find(({ sku }) => sku === state.chosen) ?? group.find(({ sku }) => sku === lastShown)
      ?? group.find((sku) => !isSoldOut(sku)) ?? group[0];
    lastShown = current.sku;
    return current;
  }

  function describe(newGroup, isOnly) {
    group = newGroup;
    const [first] = group;
    const hasOptions = Boolean(first.item);
    setText(name, first.item ?? first.name);
    radio.value = first.sku;
    node.dataset.sku = first.sku;
    const place = hasOptions ? optionsRow : row;
    // Moving it takes the focus away.
    if (stepper.node.parentElement !== place) place.append(stepper.node);
    // An item is chosen by its options, and the only SKU is not chosen at all.
    setVisible(radio, !hasOptions && !isOnly);
    setVisible(optionsRow, hasOptions);
    node.classList.toggle("is-only", isOnly);
    node.classList.toggle("has-options", hasOptions);
    options.setAttribute("aria-label", first.item ?? "");
    stepper.node.setAttribute("aria-label", `${t("sale.quantity")}: ${first.item ?? first.name}`);
    const known = [...options.children].map((option) => option.dataset.sku).join();
    if (hasOptions && known !== group.map(({ sku }) => sku).join()) options.replaceChildren(...group.map(optionOf));
    for (const [index, option] of [...options.children].entries()) setText(option.lastChild, group[index]?.name ?? "");
    reserveSpace(price, group.map((sku) => priceText(sku.price, sku.currency)));
    reserveSpace(left, [sumOf(group), ...group].flatMap(({ total }) => (total < 0 ? [t("sale.unlimited")] : [
      t("sale.sold_out"), t("sale.not_ready"), ...(state.activity.line ? [t("line.waiting", { waiting: count(Math.max(total, 1_000)) })] : []), ...["sale.left", "sale.few_left"].map((text) => t(text, { left: count(total), total: count(total) })),
    ])));
    showPicture();
  }

  function showPicture() {
    const { image: url, name: alt } = shown();
    if (image.dataset.url === (url ?? "")) return;
    image.dataset.url = url ?? "";
    image.replaceChildren(picture(url, alt));
  }

  function update() {
    group = group.map((known) => state.activity.skus.find(({ sku }) => sku === known.sku) ?? known);
    const sku = shown();
    const isChosen = group.some((other) => other.sku === chosenSku().sku);
    const hasEnded = state.gate?.phase === "ended";
    node.classList.toggle("is-chosen", isChosen && !hasEnded && !isSoldOut(sku));
    node.classList.toggle("is-over", hasEnded);
    radio.checked = isChosen;
    for (const each of node.querySelectorAll("input")) each.disabled = hasEnded;
    for (const option of options.children) {
      option.firstChild.checked = option.dataset.sku === state.chosen;
      option.classList.toggle("is-out", isSoldOut(group.find((other) => other.sku === option.dataset.sku) ?? sku));
    }
    showPicture();
    setText(price, priceText(sku.price, sku.currency));
    stepper.update(Math.min(state.activity.per_user, 10, sku.total < 0 ? Infinity : Math.max(1, sku.total)));
    updateStock(sumOf(isChosen ? [sku] : group), hasEnded);
  }

  function updateStock({ total, left: units, isOut, isLine, waiting }, hasEnded) {
    const isUnlimited = total < 0;
    const isLittle = !isUnlimited && units > 0 && units < total && (units <= LITTLE.units || units / total <= LITTLE.share);
    node.classList.toggle("is-out", isOut);
    node.classList.toggle("is-line", isLine);
    node.classList.toggle("has-little", isLittle && !hasEnded);
    setVisible(meter, !isUnlimited);
    fill.style.setProperty("--share", isUnlimited || !total ? 0 : units / total);
    const values = { left: count(units), total: count(total) };
    setText(left, hasEnded ? "" : isUnlimited ? t("sale.unlimited") : isOut ? t("sale.sold_out")
      : isLine ? t(waiting ? "line.waiting" : "sale.sold_out", { waiting: count(waiting) }) : units === null ? (clock.isSet() ? t("sale.not_ready") : "") : t(isLittle ? "sale.few_left" : "sale.left", values));
  }

  return { node, describe, update };
}

function choose(sku) {
  state.chosen = sku;
  updateCards();
}

/** The stock of SKUs together: of an item, until one of its options is chosen. */
function sumOf(skus) {
  const sum = (of) => skus.reduce((all, sku) => all + of(sku), 0);
  return {
    total: skus.some(({ total }) => total < 0) ? -1 : sum(({ total }) => total),
    left: skus.some(({ left }) => left === null) ? null : sum((sku) => (isSoldOut(sku) ? 0 : sku.left)),
    isOut: skus.every(isSoldOut),
    isLine: skus.some(joins) && skus.every((sku) => isSoldOut(sku) || joins(sku)),
    waiting: sum(({ waiting = 0 }) => waiting),
  };
}

const radioOf = (sku, names) => el("input", { type: "radio", name: "sku", class: "unseen", "aria-labelledby": names, value: sku, onchange: ({ target }) => choose(target.value) });

const optionOf = ({ sku, name }) => el("label", { class: "option", "data-sku": sku, testid: "option" }, radioOf(sku), el("span", {}, name));

/** The units of a card: a button for one less, the number, and a button for one more. */
function createStepper(key, onChange) {
  let maximum = 1;
  const quantity = () => Math.min(state.quantities.get(key) ?? 1, maximum);
  const output = el("output", { testid: "quantity" }, "1");
  const step = (by) => () => {
    const wanted = quantity() + by;
    if (wanted >= 1 && wanted <= maximum) state.quantities.set(key, wanted);
    onChange();
  };
  // Not `disabled`, which would take the focus away.
  const button = (by, sign, name) => el("button", { type: "button", class: "step", "aria-label": t(name), testid: name.replace("sale.", ""), onclick: step(by) }, sign);
  const [less, more] = [button(-1, "−", "sale.less"), button(1, "+", "sale.more")];
  const node = el("div", { class: "stepper", role: "group" }, less, output, more);

  function update(newMaximum) {
    maximum = newMaximum;
    if (state.quantities.has(key)) state.quantities.set(key, quantity());
    setVisible(node, maximum > 1);
    setText(output, String(quantity()));
    less.setAttribute("aria-disabled", quantity() <= 1);
    more.setAttribute("aria-disabled", quantity() >= maximum);
  }

  return { node, update };
}
