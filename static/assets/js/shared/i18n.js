// Texts of the pages in the visitor's language, where the shop has none of its own.

import { bestLanguage } from "../../client/index.js";
import { words as english } from "../words/en.js";
import * as storage from "./storage.js";

/** The language tags that the browser prefers. A system's locale may be none that `Intl` knows, such as `en-US@posix`. */
export const browserLocales = navigator.languages.filter((tag) => {
  try {
    return Intl.getCanonicalLocales(tag).length === 1;
  } catch {
    return false;
  }
});

/** `en` or `zh`, as `first-paint.js` chose. */
export const language = document.documentElement.lang.startsWith("zh") ? "zh" : "en";

/** The variable `shop_texts`, which the server writes into the page. */
const shopTexts = JSON.parse(document.getElementById("shop-texts")?.textContent ?? "{}");

/** The texts by key, of the shop and of these pages. */
export const words = {
  ...english,
  ...(language === "zh" && (await import("../words/zh.js")).words),
  ...shopTexts[language],
};

/** The page's title in front of the shop's name. */
export const titled = (title) => `${title} · ${document.querySelector('meta[name="application-name"]').content}`;

/** The text with each `{name}` replaced from `values`. */
export const fill = (text, values = {}) => text.replace(/\{(\w+)\}/g, (placeholder, name) => values[name] ?? placeholder);

/** The text for `key`, filled. */
export const t = (key, values) => fill(words[key] ?? key, values);

/** Sentences one after the other; what is no text is left out. */
export const sentences = (...texts) => texts.filter(Boolean).join(language === "zh" ? "" : " ");

const translation = (texts = {}) => texts[bestLanguage(document.documentElement.lang, Object.keys(texts))];

/** A text that has no language of its own: in that of the page, else in English, else any. */
export const inAnyLanguage = (texts = {}) => translation(texts) ?? texts.en ?? Object.values(texts)[0] ?? "";

/** The activity with the texts that the shop wrote in this language in place of the others. */
export const localized = (activity) => ({
  ...activity,
  title: translation(activity.titles) ?? activity.title,
  description: translation(activity.descriptions) ?? activity.description,
  skus: activity.skus?.map((sku) => ({ ...sku, name: translation(sku.names) ?? sku.name, item: translation(sku.items) ?? sku.item })),
});

/** Whether there is a text for `key`. */
export const hasText = (key) => key in words;

/** Sets the text of every element with `data-t="key"`, and the name of those with `data-t-label="key"`. */
export function translate(root = document) {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const node of root.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of root.querySelectorAll("[data-t-label]")) node.setAttribute("aria-label", t(node.dataset.tLabel));
}

/** Stores the language and reloads the page. */
export function setLanguage(next) {
  storage.device.setItem("stampede.language", next);
  location.reload();
}
