// What is wrong in the editor, at its field and in words that say what is right; all at once.

import { currencyDecimals } from "../../client/index.js";
import { byId, el, setText } from "../shared/dom.js";
import { wrongImage } from "./edit-fields.js";
import { hasText, t } from "./words.js";

/** What is wrong with a spec before it is sent: `{pointer, key}` each. */
export function wrongs(id, spec) {
  const found = [];
  const check = (isRight, pointer, key) => isRight || found.push({ pointer, key });
  const isNumber = (value, min, max = Infinity) => Number.isFinite(value) && value >= min && value <= max;
  check(spec.title, "/title", "title");
  // Ids are made of the title and of names.
  check(!spec.title || /^[a-z0-9][a-z0-9-]{0,39}$/.test(id), "/id", "id");
  check(!wrongImage(spec.image), "/image", "picture");
  check(spec.starts_at, "/starts_at", "time");
  check(spec.ends_at > spec.starts_at, "/ends_at", "ends");
  check(isNumber(spec.per_user, 1), "/per_user", "per_user");
  for (const name of ["pay_timeout_seconds", "max_wait_seconds"]) check(isNumber(spec[name], 1, 86_400), `/${name}`, "duration");
  check(isNumber(spec.pay_extension_seconds, 0, 86_400), "/pay_extension_seconds", "extension");
  const { max_units: units = 1, offer_seconds: offer = 1 } = spec.line ?? {};
  check(isNumber(units, 1, 100_000), "/line/max_units", "line_units");
  check(isNumber(offer, 1, 86_400), "/line/offer_seconds", "duration");
  check(isNumber(spec.min_difficulty, 1, 8), "/min_difficulty", "difficulty");
  check(isNumber(spec.eligibility.min_level, 0), "/eligibility/min_level", "level");
  for (const [kind, limit] of Object.entries(spec.limits)) check(!limit || (isNumber(limit.count, 1) && isNumber(limit.seconds, 1, 86_400)), `/limits/${kind}`, "limit");
  spec.skus.forEach((sku, index) => {
    const at = (member) => `/skus/${index}/${member}`;
    check(sku.name, at("name"), "name");
    check(!sku.name || /^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$/.test(sku.sku), at("sku"), "sku");
    check(/^[A-Z]{3}$/.test(sku.currency), at("currency"), "currency");
    check(Number.isSafeInteger(sku.price), at("price"), currencyDecimals(sku.currency) ? "price" : "price_whole");
    check(Number.isSafeInteger(sku.total) && sku.total >= -1, at("total"), "units");
    check(!wrongImage(sku.image), at("image"), "picture");
  });
  return found;
}

/**
 * Shows each error `{pointer, detail}` or `{pointer, key}` at the field of its pointer, or at the one above it in the
 * document, whose folds it opens; one without a field at the top. `reveal(field)` opens the step of the first one.
 */
export function showErrors(form, errors, reveal) {
  for (const old of form.querySelectorAll(".complaint.is-refused")) old.remove();
  for (const old of form.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
  const withoutField = [];
  const places = errors.map(({ pointer = "", detail, key }) => {
    const place = placeOf(form, pointer);
    const rest = place && pointer.slice(place.dataset.pointer.length + 1);
    const text = key ? t(`bad.${key}`) : [/^\d+$/.test(rest) && t("bad.line", { number: Number(rest) + 1 }), inWords(pointer, detail)].filter(Boolean).join(" ");
    if (!place) return void withoutField.push(text);
    place.setAttribute("aria-invalid", "true");
    for (let fold = place.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    // A picture's field says by itself what is wrong.
    if (key !== "picture") place.closest(".field").append(el("span", { class: "complaint is-refused", role: "alert" }, text));
    return place;
  });
  for (const tab of form.querySelectorAll(".step-tab")) tab.classList.toggle("is-wrong", Boolean(form.querySelector(`#step-${tab.dataset.step} [aria-invalid]`)));
  const first = places.find(Boolean);
  if (first) reveal(first);
  setText(byId("form-trouble"), [places.filter(Boolean).length > 1 && t("bad.count", { number: errors.length }), ...withoutField].filter(Boolean).join(" · "));
}

function placeOf(form, pointer) {
  for (let at = pointer; at; at = at.slice(0, at.lastIndexOf("/"))) {
    const place = form.querySelector(`[data-pointer="${CSS.escape(at)}"]`);
    if (place) return place;
  }
  return null;
}

/** Ours for a rule that the pages do not know in advance, else the server's. */
const inWords = (pointer, detail) => (hasText(`bad.${pointer.split("/").pop()}`) ? t(`bad.${pointer.split("/").pop()}`) : detail);
