// The fields of the editor, by its steps: what is asked first, and what is folded.

import { el, picture, setText } from "../shared/dom.js";
import { t } from "./words.js";

const UNITS = { days: 86_400, hours: 3_600, minutes: 60, seconds: 1 };

const field = (id, pointer, kind = "text", properties = {}) => ({ id, pointer, kind, ...properties });
const choice = (id, pointer, words, options) => field(id, pointer, "select", { words, options });
const lines = (id, pointer, rows = 2) => field(id, pointer, "textarea", { rows });
const duration = (id, pointer, properties) => field(id, pointer, "duration", properties);

/** The steps, each with its first fields and its folded ones. A field has an id, and the JSON pointer of its member. */
export const STEPS = {
  what: {
    first: [field("title", "/title", "text", { required: true, maxlength: 200 }), field("image", "/image", "image")],
    folded: [
      field("id", "/id", "text", { spellcheck: "false" }), field("rehearsal", "/rehearsal", "checkbox"), lines("description", "/description", 3),
      field("title-zh", "/titles/zh", "text", { maxlength: 200 }), lines("description-zh", "/descriptions/zh", 3),
      field("word", "/en", "text", { maxlength: 280 }), field("word-zh", "/zh", "text", { maxlength: 280 }),
    ],
  },
  when: {
    first: [field("starts", "/starts_at", "datetime-local", { step: 1 }), field("ends", "/ends_at", "datetime-local", { step: 1 })],
    folded: [duration("max-wait", "/max_wait_seconds", { min: 0 })],
  },
  who: {
    first: [field("members", "/eligibility/members_only", "checkbox"), choice("check", "/human_check", "human", ["none", "pow", "captcha", "hosted", "suspicious"])],
    folded: [
      field("level", "/eligibility/min_level", "number", { min: 0 }), lines("allow", "/eligibility/allow"), lines("groups", "/eligibility/groups"),
      field("codes", "/eligibility/codes", "checkbox"),
      field("difficulty", "/min_difficulty", "number", { min: 1, max: 8 }),
    ],
  },
  rules: {
    first: [
      field("per-user", "/per_user", "number", { min: 1 }), duration("pay-timeout", "/pay_timeout_seconds", { min: 0 }),
      choice("checkout", "/checkout", "checkout", ["none", "form", "provider"]), choice("line", "/line/mode", "line", ["none", "waitlist"]),
      field("line-units", "/line/max_units", "number", { min: 1, max: 100_000, shownWith: "line" }), duration("offer", "/line/offer_seconds", { min: 0, shownWith: "line" }),
    ],
    folded: [
      duration("pay-extension", "/pay_extension_seconds", { min: 0 }), duration("refund", "/refund_window_seconds", { min: 0 }),
      field("restocks", "/refund_restocks", "checkbox"),
      ...["user", "ip", "all"].flatMap((kind) => [
        choice(`limit-${kind}`, `/limits/${kind}`, "limit", ["default", "none", "set"]),
        field(`limit-${kind}-count`, "", "number", { min: 1, shownWith: `limit-${kind}` }), duration(`limit-${kind}-time`, "", { min: 0, shownWith: `limit-${kind}` }),
      ]),
    ],
  },
};

/** Makes a field with its label, a sentence about it and a place for what is wrong. */
export function fieldNode({ id, pointer, kind, words, options = [], shownWith, ...properties }) {
  const attributes = {
    id: `f-${id}`, testid: `f-${id}`, "data-field": id, "data-pointer": pointer, autocomplete: "off", "aria-describedby": `f-${id}-hint`, ...properties,
  };
  const label = el("label", { for: `f-${id}` }, t(`f.${id}`));
  const hint = el("span", { class: "hint", id: `f-${id}-hint` }, t(`f.${id}.hint`));
  if (kind === "checkbox") {
    return el("div", { class: "field" }, el("span", { class: "switch" }, el("input", { type: "checkbox", ...attributes }), label), hint);
  }
  if (kind === "select") {
    return el("p", { class: "field" }, label, el("select", attributes, options.map((value) => el("option", { value }, t(`${words}.${value}`)))), hint);
  }
  const parts = { label, hint, attributes };
  const node = kind === "textarea" ? el("p", { class: "field" }, label, el("textarea", attributes), hint)
    : kind === "duration" ? durationNode(parts, id)
      : kind === "image" ? imageNode(parts)
        : el("p", { class: "field" }, label, el("input", { type: kind, ...attributes }), hint);
  if (shownWith) node.dataset.shownWith = shownWith;
  return node;
}

const durationNode = ({ label, hint, attributes }, id) => el("p", { class: "field" }, label,
  el("span", { class: "duration" }, el("input", { type: "number", step: "any", ...attributes }),
    el("select", { id: `f-${id}-unit`, testid: `f-${id}-unit`, "data-field": `${id}-unit`, "aria-label": t("f.unit") },
      Object.keys(UNITS).reverse().map((unit) => el("option", { value: unit }, t(`unit.${unit}`))))), hint);

/** A picture's address with the picture: what is no address of a picture is said at once. */
function imageNode({ label, hint, attributes }) {
  const [shown, verdict] = [el("span", { class: "thumb" }), el("span", { class: "complaint", role: "status" })];
  const input = el("input", { type: "text", inputmode: "url", spellcheck: "false", ...attributes });
  const update = () => {
    const url = input.value.trim();
    const isWrong = wrongImage(url);
    setText(verdict, isWrong ? t("bad.image", { right: `/${url.replace(/^[./]+/, "")}` }) : "");
    shown.replaceChildren(...(url && !isWrong ? [picture(url, "?", "small")] : []));
    const image = shown.querySelector("img");
    image?.addEventListener("error", () => setText(verdict, t("bad.image_missing")));
  };
  input.addEventListener("input", update);
  input.addEventListener("filled", update);
  return el("p", { class: "field" }, label, el("span", { class: "with-thumb" }, shown, input), hint, verdict);
}

/** Whether the pages would show a letter in place of this picture. */
export const wrongImage = (url) => url !== "" && !/^(https:\/\/|\/(?!\/)|data:image\/)/.test(url);

/** Seconds as a number and the largest unit of which they are a multiple. */
export function toDuration(seconds) {
  const [unit, size] = Object.entries(UNITS).find(([, size]) => seconds % size === 0 && (seconds > 0 || size === 60)) ?? ["minutes", 60];
  return [String(seconds / size), unit];
}

/** The seconds of a number with a unit; NaN if it is none. */
export const toSeconds = (text, unit) => (text === "" ? NaN : Math.round(Number(text) * UNITS[unit]));
