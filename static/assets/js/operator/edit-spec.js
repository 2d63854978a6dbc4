// Between an activity, as the API has it, and the texts of the editor's fields.

import { toDuration, toSeconds } from "./edit-fields.js";
import { translated } from "./sku-rows.js";

const MINUTE = 60_000;
const LIMITS = ["user", "ip", "all"];
const WORDS = [["word", "en"], ["word-zh", "zh"]];

/** The texts of an activity's fields, by the fields' ids; `true` or `false` of a checkbox. */
export function textsOf(spec) {
  const durations = {
    "max-wait": spec.max_wait_seconds ?? 60, "pay-timeout": spec.pay_timeout_seconds ?? 300, "pay-extension": spec.pay_extension_seconds ?? 0,
    refund: spec.refund_window_seconds, offer: spec.line?.offer_seconds,
  };
  const limits = LIMITS.flatMap((kind) => {
    const limit = spec.limits?.[kind];
    durations[`limit-${kind}-time`] = limit?.seconds ?? 60;
    return [[`limit-${kind}`, limit === undefined ? "default" : limit === null ? "none" : "set"], [`limit-${kind}-count`, String(limit?.count ?? 60)]];
  });
  return {
    id: spec.id ?? "", rehearsal: spec.rehearsal ?? false, title: spec.title ?? "", description: spec.description ?? "", image: spec.image ?? "",
    "title-zh": spec.titles?.zh ?? "", "description-zh": spec.descriptions?.zh ?? "",
    word: spec.announcement?.en ?? "", "word-zh": spec.announcement?.zh ?? "",
    starts: toLocalInput(spec.starts_at), ends: toLocalInput(spec.ends_at),
    members: spec.eligibility?.members_only ?? false, level: String(spec.eligibility?.min_level ?? 0),
    allow: (spec.eligibility?.allow ?? []).join("\n"), groups: (spec.eligibility?.groups ?? []).join("\n"),
    codes: spec.eligibility?.codes ?? false,
    check: spec.human_check ?? "none", difficulty: String(spec.min_difficulty ?? 1), "per-user": String(spec.per_user ?? 1),
    checkout: spec.checkout ?? "form", line: spec.line?.mode ?? "none", "line-units": String(spec.line?.max_units ?? ""), restocks: spec.refund_restocks ?? true,
    ...Object.fromEntries(limits),
    ...Object.fromEntries(Object.entries(durations).flatMap(([id, seconds]) => {
      const [number, unit] = seconds === undefined || seconds === null ? ["", id === "offer" ? "minutes" : "days"] : toDuration(seconds);
      return [[id, number], [`${id}-unit`, unit]];
    })),
  };
}

/** The activity of these texts and SKUs, in the format of the API; `kept` has the translations that no field shows. */
export function specOf(texts, skus, kept) {
  const seconds = (id) => toSeconds(texts[id], texts[`${id}-unit`]);
  const limits = LIMITS.filter((kind) => texts[`limit-${kind}`] !== "default").map((kind) =>
    [kind, texts[`limit-${kind}`] === "none" ? null : { count: wholeNumber(texts[`limit-${kind}-count`]), seconds: seconds(`limit-${kind}-time`) }]);
  return {
    title: texts.title.trim(),
    titles: translated(kept.titles, "zh", texts["title-zh"].trim()),
    description: texts.description,
    descriptions: translated(kept.descriptions, "zh", texts["description-zh"]),
    image: texts.image.trim(),
    rehearsal: texts.rehearsal,
    starts_at: toRfc3339(texts.starts),
    ends_at: toRfc3339(texts.ends),
    per_user: wholeNumber(texts["per-user"]),
    pay_timeout_seconds: seconds("pay-timeout"),
    pay_extension_seconds: seconds("pay-extension"),
    max_wait_seconds: seconds("max-wait"),
    checkout: texts.checkout,
    human_check: texts.check,
    min_difficulty: wholeNumber(texts.difficulty),
    eligibility: {
      members_only: texts.members,
      min_level: wholeNumber(texts.level),
      // White space is part of a user's name: the server says which name no token can have.
      allow: toLines(texts.allow),
      groups: toLines(texts.groups).map((group) => group.trim()),
      codes: texts.codes,
    },
    refund_restocks: texts.restocks,
    refund_window_seconds: texts.refund === "" ? undefined : seconds("refund"),
    limits: Object.fromEntries(limits),
    line: texts.line === "waitlist" ? {
      mode: "waitlist", max_units: texts["line-units"] === "" ? undefined : wholeNumber(texts["line-units"]), offer_seconds: texts.offer === "" ? undefined : seconds("offer"),
    } : undefined,
    skus,
  };
}

/** The word from the shop with these texts, and whether it differs from the one that was loaded. */
export function announcementOf(texts, before = {}) {
  const word = WORDS.reduce((words, [id, language]) => translated(words, language, texts[id].trim()), before);
  return [word, WORDS.some(([, language]) => word[language] !== before[language])];
}

const toLines = (text) => text.split("\n").filter((line) => line.trim());

const wholeNumber = (text) => (/^\d+$/.test(text) ? Number(text) : NaN);

/** Converts an RFC 3339 time to the value of a `datetime-local` field, which is in local time without a zone. */
function toLocalInput(text) {
  const date = new Date(text);
  return new Date(date.getTime() - date.getTimezoneOffset() * MINUTE).toISOString().slice(0, 19);
}

const toRfc3339 = (text) => (text ? new Date(text).toISOString() : "");
