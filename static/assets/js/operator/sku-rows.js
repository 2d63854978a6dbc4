// The editor's cards for the SKUs of an activity.

import { currencyDecimals } from "../../client/index.js";
import { byId, el } from "../shared/dom.js";
import { toMinorUnits, toText } from "./amounts.js";
import { fieldNode } from "./edit-fields.js";
import { t } from "./words.js";

const FIRST = [["name", "text", { maxlength: 200 }], ["price", "text", { inputmode: "decimal" }], ["total", "number", { step: 1, min: 0 }]];
const FOLDED = [
  ["currency", "text", { maxlength: 3 }], ["image", "image"], ["sku", "text", { spellcheck: "false" }], ["names/zh", "text", { maxlength: 200 }],
  ["item", "text", { maxlength: 200 }], ["items/zh", "text", { maxlength: 200 }], ["endless", "checkbox"],
];

/** The texts of a SKU's fields, and what no field shows. */
export const skuTexts = ({ sku = "", name = "", names = {}, item = "", items = {}, image = "", price, currency = "EUR", total }) => ({
  sku, name, "names/zh": names.zh ?? "", item, "items/zh": items.zh ?? "", image, currency,
  price: price === undefined ? "" : toText(price, currencyDecimals(currency)), total: total === undefined || total < 0 ? "" : String(total),
  endless: total < 0, kept: JSON.stringify([names, items]),
});

/** Shows SKUs by their texts, or one empty card. */
export function fillSkus(all) {
  byId("f-skus").replaceChildren();
  for (const texts of all.length ? all : [skuTexts({})]) addSku(texts);
}

/** Adds a card. Returns its first field. */
export function addSku(texts = skuTexts({ currency: allTexts().at(-1)?.currency })) {
  const make = ([member, kind, properties = {}]) =>
    fieldNode({ id: `sku-${member.replace("/", "-")}`, kind, pointer: "", "data-member": member, ...properties });
  const row = el(
    "div", { class: "sku-card", role: "group", "aria-label": t("f.item") },
    el("div", { class: "sku-first" }, FIRST.map(make)),
    el("details", {}, el("summary", {}, t("f.sku.more")), el("div", { class: "grid" }, FOLDED.map(make)),
      el("button", { type: "button", class: "button", testid: "f-remove-sku", onclick: () => remove(row) }, t("f.sku.remove"))),
  );
  row.dataset.kept = texts.kept;
  for (const input of members(row)) {
    if (input.type === "checkbox") input.checked = texts[input.dataset.member];
    else input.value = texts[input.dataset.member];
    input.dispatchEvent(new Event("filled"));
  }
  byId("f-skus").append(row);
  number();
  return row.querySelector("input");
}

/** The texts of all cards. */
export const allTexts = () => [...byId("f-skus").children].map((row) => ({
  ...Object.fromEntries(members(row).map((input) => [input.dataset.member, input.type === "checkbox" ? input.checked : input.value])), kept: row.dataset.kept,
}));

/** The SKUs of these texts, in the format of the API; the id of a SKU without one is made of its name. */
export const skusOf = (all) => all.map((texts, index) => {
  const value = (member) => texts[member].trim();
  const currency = value("currency").toUpperCase();
  const [names, items] = JSON.parse(texts.kept);
  return {
    sku: value("sku") || toId(value("name"), `item-${index + 1}`),
    name: value("name"),
    names: translated(names, "zh", value("names/zh")),
    item: value("item"),
    items: translated(items, "zh", value("items/zh")),
    image: value("image"),
    price: toMinorUnits(value("price"), currencyDecimals(currency)),
    currency,
    total: texts.endless ? -1 : value("total") === "" ? NaN : Number(value("total")),
  };
});

/** The translations with this one into a language, or without one if it is empty. */
export function translated(translations, language, text) {
  const { [language]: _, ...others } = translations ?? {};
  return text ? { ...others, [language]: text } : others;
}

const members = (row) => [...row.querySelectorAll("[data-member]")];

function remove(row) {
  row.remove();
  if (!byId("f-skus").childElementCount) addSku();
  number();
  byId("f-skus").dispatchEvent(new Event("input", { bubbles: true }));
}

/** Numbers the fields: an error of the server finds its field by its pointer, a label its field by its id. */
function number() {
  [...byId("f-skus").children].forEach((row, index) => {
    for (const input of members(row)) {
      const id = `f-sku-${index}-${input.dataset.member.replace("/", "-")}`;
      const field = input.closest(".field");
      field.querySelector("label").htmlFor = input.id = id;
      field.querySelector(".hint").id = `${id}-hint`;
      input.setAttribute("aria-describedby", `${id}-hint`);
      delete input.dataset.field;
      input.dataset.pointer = `/skus/${index}/${input.dataset.member}`;
    }
  });
}

/** The id of a sale whose title has no letter or digit for one, such as a Chinese title. */
const ANY_ID = `sale-${crypto.randomUUID().slice(0, 6)}`;

/** An id from a title: `Rangefinder, series 2` → `rangefinder-series-2`. */
export const toId = (title, other = ANY_ID) => {
  const id = title.normalize("NFD").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40).replace(/-+$/, "");
  return id || (title.trim() ? other : "");
};
