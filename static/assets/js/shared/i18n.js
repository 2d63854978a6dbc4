// The words of the page in the reader's language.

import { words as english } from "../words/en.js";

const stored = localStorage.getItem("stampede.language");

/** `en` or `zh`. */
export const language = stored ?? (navigator.language.startsWith("zh") ? "zh" : "en");

const words = language === "zh" ? { ...english, ...(await import("../words/zh.js")).words } : english;

/** The text for `key`, with `{name}` filled from `values`. */
export function t(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (placeholder, name) => values[name] ?? placeholder);
}

/** Whether there are words for `key`. */
export const hasText = (key) => key in words;

/** Puts the words where the page says `data-t="key"`. */
export function translate(root = document) {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const node of root.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
}

/** Changes the language; the page starts again in it. */
export function setLanguage(next) {
  localStorage.setItem("stampede.language", next);
  location.reload();
}
