// The language of a page, and the button that changes it.

import { byId, setText } from "./dom.js";
import { language, setLanguage, translate } from "./i18n.js";

/** Translates the page, and handles the button `#language`. */
export function startLanguageSwitch() {
  translate();
  const other = language === "zh" ? "en" : "zh";
  const button = byId("language");
  setText(button, other === "zh" ? "中文" : "English");
  button.lang = other === "zh" ? "zh-CN" : "en";
  button.addEventListener("click", () => setLanguage(other));
}
