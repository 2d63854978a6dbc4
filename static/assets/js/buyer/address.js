// The address form of the order page: its list of countries, what the buyer has typed in this tab, and the address that
// they keep on this device.

import { byId, el, setText, setVisible } from "../shared/dom.js";
import { browserLocales, language, t } from "../shared/i18n.js";
import * as session from "../shared/session.js";
import { device, tab } from "../shared/storage.js";

/** `{user, address}`: another user of this device does not see it. */
const SAVED = "stampede.address";

/** `{address, remember}`: the tab forgets it with its user's tickets. */
const typedKey = (orderNo) => `stampede.typed.${orderNo}`;

/** What the receipt says of the address that was sent, without the street; forgotten as above. */
const sentKey = (orderNo) => `stampede.sent_to.${orderNo}`;

/** Country → the lines that its addresses use and need, by Google's address data. */
const RULES = JSON.parse(byId("address-fields").textContent);
const LINES = [["C", "city"], ["S", "state"], ["Z", "postal_code"]];

let countryNames;

/** The name of a country, in the language of the page. The first one takes a phone a tenth of a second. */
function countryName(code) {
  countryNames ??= new Intl.DisplayNames([language], { type: "region" });
  return countryNames.of(code);
}

/** Fills the list of countries, which takes as long again: only for a buyer who is in the form. */
function fillCountries() {
  const list = byId("country");
  const chosen = list.value;
  const countries = Object.keys(RULES).map((code) => ({ code, name: countryName(code) }));
  countries.sort((a, b) => a.name.localeCompare(b.name, language));
  list.replaceChildren(list.options[0], ...countries.map(({ code, name }) => el("option", { value: code }, name)));
  list.value = chosen;
}

/** Chooses a country, which may not be in the list yet. Its name comes while the order is loading. */
function chooseCountry(code) {
  const list = byId("country");
  list.value = code;
  if (list.value === code || !(code in RULES)) return;
  const option = el("option", { value: code });
  list.append(option);
  list.value = code;
  setTimeout(() => setText(option, countryName(code)));
}

/** The browser's own country, or an empty text. */
const ownCountry = () => new Intl.Locale(browserLocales[0] ?? "en").region ?? "";

/** Whose the text in the form is; undefined while it may be what the browser has restored. */
let owner;
let isTyped = false;

/** The lines in the order of Chinese: the name with the phone, then from the largest part to the street. */
function orderLines() {
  const [name, phone, country, state, city, code, street] =
    ["name", "phone", "country", "state", "city", "postal_code", "street"].map((id) => byId(id).parentElement);
  city.after(code);
  name.after(phone);
  country.after(state, city.parentElement, street);
}

/** Keeps what is typed for this order, and corrects what the browser restores. */
export function watch(orderNo) {
  if (language === "zh") orderLines();
  byId("pay-form").addEventListener("focusin", fillCountries, { once: true });
  byId("pay-form").addEventListener("input", () => {
    isTyped = true;
    fitToCountry();
    tab.setItem(typedKey(orderNo), JSON.stringify({ address: values(), remember: byId("remember").checked }));
  });
  globalThis.addEventListener("pageshow", ({ persisted }) => {
    // The browser restores what was typed at this place of its history, by whichever user, after `fill` has run.
    if (persisted || isTyped || performance.getEntriesByType("navigation")[0]?.type === "navigate") return;
    owner = undefined;
    fill(orderNo);
  });
}

/** Forgets what was typed for an order that needs it no more. */
export const forgetTyped = (orderNo) => tab.removeItem(typedKey(orderNo));

/**
 * Empties the form if another user has typed in it. Fills in what was typed for this order, or the address that this user
 * has saved on this device, if any.
 */
export function fill(orderNo) {
  if (owner !== session.owner()) {
    owner = session.owner();
    byId("pay-form").reset();
    chooseCountry(ownCountry());
  }
  const saved = JSON.parse(device.getItem(SAVED) ?? "null");
  const isOwn = saved !== null && session.user() !== null && saved.user === session.user();
  const typed = JSON.parse(tab.getItem(typedKey(orderNo)) ?? "null");
  byId("remember").checked = typed?.remember ?? isOwn;
  const address = typed?.address ?? (isOwn ? saved.address : {});
  for (const field of fields()) field.value = address[field.name] ?? field.value;
  chooseCountry(address.country ?? byId("country").value);
  fitToCountry();
}

/** Shows the lines that addresses in the chosen country use, and demands those that they need. */
function fitToCountry() {
  const { used, required } = RULES[byId("country").value] ?? { used: "CSZ", required: "C" };
  for (const [letter, name] of LINES) {
    const field = byId(name);
    field.required = required.includes(letter);
    field.disabled = !used.includes(letter);
    setVisible(field.parentElement, !field.disabled);
  }
}

/** Reads the form, and saves the address on this device or removes it, as the buyer chose. */
export function read() {
  const address = values();
  if (byId("remember").checked) device.setItem(SAVED, JSON.stringify({ user: session.user(), address }));
  else device.removeItem(SAVED);
  return address;
}

/** Notes the address that was sent for an order. */
export const noteSent = (orderNo, { name, postal_code: code, city, state, country }) =>
  tab.setItem(sentKey(orderNo), JSON.stringify([name, [code, city, state].filter(Boolean).join(" "), country]));

/** The address that this tab has sent for an order, in a line; null if it has not. */
export function sentTo(orderNo) {
  const [name, place, country] = JSON.parse(tab.getItem(sentKey(orderNo)) ?? "[]");
  return name ? [name, place, countryName(country)].filter(Boolean).join(", ") : null;
}

const fields = () => [...byId("pay-form").elements].filter(({ name }) => name);

const values = () => Object.fromEntries(fields().filter(({ disabled }) => !disabled).map(({ name, value }) => [name, value]));
