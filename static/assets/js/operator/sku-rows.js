// The editor's rows for the SKUs of an activity.

import { currencyDecimals } from "../../client/index.js";
import { byId, el } from "../shared/dom.js";

let counter = 0;

/** Shows these SKUs, or one empty row. */
export function fillSkus(skus) {
  byId("f-skus").replaceChildren();
  for (const sku of skus.length ? skus : [{}]) addSku(sku);
}

/** Adds a row. Returns its first field. */
export function addSku({ sku = "", name = "", names = {}, item = "", items = {}, image = "", price, currency, total } = {}) {
  counter += 1;
  const rowCurrency = currency ?? byId("f-skus").querySelector('[data-member="currency"]')?.value ?? "EUR";
  const field = (member, label, value, properties = {}) => {
    const id = `f-sku-${counter}-${member.replace("/", "-")}`;
    const input = el("input", { id, "data-member": member, testid: `f-sku-${member.replace("/", "-")}`, required: true, autocomplete: "off", ...properties });
    input.value = value;
    return el("p", { class: "field" }, el("label", { for: id }, label), input);
  };
  const row = el(
    "div",
    { class: "sku-row", role: "group", "aria-label": "Item" },
    field("sku", "SKU", sku, { spellcheck: "false", pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]{0,39}" }),
    field("name", "Name", name, { maxlength: 200 }),
    field("names/zh", "Name in Chinese", names.zh ?? "", { maxlength: 200, required: false }),
    field("item", "Option of (such as a shirt)", item, { maxlength: 200, required: false }),
    field("items/zh", "Option of, in Chinese", items.zh ?? "", { maxlength: 200, required: false }),
    field("image", "Picture (URL)", image, { required: false }),
    field("price", "Price", price === undefined ? "" : toText(price, currencyDecimals(rowCurrency)), { inputmode: "decimal", pattern: "\\d+([.]\\d+)?" }),
    field("currency", "Currency", rowCurrency, { pattern: "[A-Z]{3}", maxlength: 3 }),
    field("total", "Units", total ?? "", { type: "number", min: -1, step: 1 }),
    el("button", { type: "button", class: "button", "aria-label": "Remove this item", onclick: () => removeRow(row) }, "✕"),
  );
  row.dataset.translations = JSON.stringify([names, items]);
  row.addEventListener("input", () => checkPrice(row));
  byId("f-skus").append(row);
  updatePointers();
  return row.querySelector("input");
}

/** Reads the SKUs from the form, in the format of the API. */
export function readSkus() {
  return [...byId("f-skus").children].map((row) => {
    const value = (member) => input(row, member).value.trim();
    const currency = value("currency");
    const [names, items] = JSON.parse(row.dataset.translations);
    return {
      sku: value("sku"),
      name: value("name"),
      names: translated(names, "zh", value("names/zh")),
      item: value("item"),
      items: translated(items, "zh", value("items/zh")),
      image: value("image"),
      price: toMinorUnits(value("price"), currencyDecimals(currency)),
      currency,
      total: Number(value("total")),
    };
  });
}

const input = (row, member) => row.querySelector(`[data-member="${member}"]`);

const toText = (price, digits) => (price / 10 ** digits).toFixed(digits);

function toMinorUnits(text, digits) {
  const [whole, fraction = ""] = text.split(".");
  return Number(whole + fraction.padEnd(digits, "0"));
}

/** Complains at a price that has more decimals than its currency. */
function checkPrice(row) {
  const currency = input(row, "currency").value.trim();
  const digits = currencyDecimals(currency);
  const [, fraction = ""] = input(row, "price").value.trim().split(".");
  const complaint = `${currency} has ${digits || "no"} decimals.`;
  input(row, "price").setCustomValidity(fraction.length > digits ? complaint : "");
}

/** The translations with this one into a language, or without one if it is empty. */
export function translated(translations, language, text) {
  const { [language]: _, ...others } = translations ?? {};
  return text ? { ...others, [language]: text } : others;
}

function removeRow(row) {
  row.remove();
  if (!byId("f-skus").childElementCount) addSku();
  updatePointers();
}

/** Sets the JSON pointer of each field, by which an error of the server finds its field. */
function updatePointers() {
  [...byId("f-skus").children].forEach((row, index) => {
    for (const input of row.querySelectorAll("[data-member]")) {
      input.dataset.pointer = `/skus/${index}/${input.dataset.member}`;
    }
  });
}
