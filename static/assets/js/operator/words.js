// The texts of the operators' pages, which buyers do not load.

import { fill, language } from "../shared/i18n.js";
import { words as cases } from "../words/cases-en.js";
import { words as desk } from "../words/desk-en.js";
import { words as edit } from "../words/edit-en.js";

const chinese = language === "zh"
  ? await Promise.all([import("../words/cases-zh.js"), import("../words/desk-zh.js"), import("../words/edit-zh.js")])
  : [];
const words = Object.assign({}, cases, desk, edit, ...chinese.map((module) => module.words));

/** The text for `key`, with each `{name}` replaced from `values`. */
export const t = (key, values) => fill(words[key] ?? key, values);

/** Whether there is a text for `key`. */
export const hasText = (key) => key in words;
