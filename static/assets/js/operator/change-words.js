// What operators changed, in words: "ada changed the price of body from €1,899.00 to €1,799.00".

import { el } from "../shared/dom.js";
import { count, duration, exactMoment, moment, priceText } from "../shared/format.js";
import { hasText, t } from "./words.js";

/** The list's rows, each a sentence with its time; what was sent stands behind it, folded. */
export const changeList = (changes) => changes.map((change) => {
  const { changed_at: at, operator, before, after } = change;
  const documents = (before || after) && el("details", {},
    el("summary", {}, t("change.details")), before && el("pre", {}, before), el("pre", {}, after));
  return el("li", { testid: "change" },
    el("time", { datetime: at, class: "quiet" }, exactMoment(at)),
    el("div", {}, sentencesOf(change).map((sentence) => el("p", { class: "exact" }, el("strong", {}, operator), ` ${sentence}`))), documents);
});

/** What a change did, a sentence each, without its operator. */
export function sentencesOf({ action, subject, before, after }) {
  const [old, now] = [parse(before), parse(after)];
  const [name, ...rest] = subject.split("/");
  const values = { id: name, subject, rest: rest.join("/") };
  if (now && "refused" in now) return [t("change.refused", { ...values, code: now.refused ?? t("change.unknown") })];
  const key = keyOf(action);
  if (key === "put") return old ? differences(old, now, values) : [t("change.created", values)];
  if (key === "restock") return restocked(old, now, values);
  if (key === "shed") return [t(now?.on ? "change.shed_on" : "change.shed_off")];
  if (key === "announcement") return [t("change.announcement", { ...values, text: Object.values(now?.announcement ?? {}).join(" / ") || t("none") })];
  if (key === "ban") return [t("change.ban", { subject, until: now ? moment(now.until) : "" })];
  if (key === "codes") return [t("change.codes", { ...values, added: count(now?.added ?? 0) })];
  return [[actionText(action, subject, values), now?.reason].filter(Boolean).join(": ")];
}

const parse = (text) => {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    // A document that was cut.
    return null;
  }
};

/** What an action, a method and a route, does to its subject. */
export const actionText = (action, subject, values = {}) => {
  const key = `change.${keyOf(action)}`;
  return hasText(key) ? t(key, { subject, id: subject, ...values }) : `${action} ${subject}`;
};

/** The word for an action, which is a method and a route. */
function keyOf(action) {
  const [method, path] = action.split(" ");
  const [resource, ...rest] = path.replace("/api/admin/", "").split("/").filter((part) => !part.startsWith(":"));
  const verb = rest[rest.length - 1];
  if (resource === "activities") return verb ?? (method === "DELETE" ? "delete" : "put");
  if (resource === "bans") return method === "DELETE" ? "lift" : "ban";
  if (resource === "strikes") return "strikes";
  return verb ? `${resource}.${verb}` : resource;
}

function restocked(old, now, { rest: sku }) {
  const total = (document) => document?.skus?.find((item) => item.sku === sku)?.total;
  const [from, to] = [total(old), total(now)];
  return [from === undefined || to === undefined ? t("change.restock", { sku }) : t("change.restocked", { sku, from: count(from), to: count(to) })];
}

const HIDDEN = new Set(["version", "state", "id", "sku"]);

/** One sentence for each member that differs; of SKUs, with their names. */
function differences(old, now, values) {
  if (!now) return [t("change.put", values)];
  const skus = (document) => new Map((document.skus ?? []).map((sku) => [sku.sku, sku]));
  const [before, after] = [skus(old), skus(now)];
  const sentences = [
    ...changed(old, now, "", ""),
    ...[...after].flatMap(([sku, item]) => (before.has(sku) ? changed(before.get(sku), item, "sku.", sku) : [t("change.sku_added", { sku })])),
    ...[...before.keys()].filter((sku) => !after.has(sku)).map((sku) => t("change.sku_removed", { sku })),
  ];
  return sentences.length ? sentences : [t("change.nothing", values)];
}

function changed(old, now, prefix, sku) {
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])].filter((name) => !HIDDEN.has(name) && name !== "skus");
  return names.filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name])).map((name) => {
    const key = `member.${prefix}${name}`;
    const what = hasText(key) ? t(key, { sku }) : `${name} ${sku}`.trim();
    return t("change.from_to", { what, from: valueOf(name, old), to: valueOf(name, now) });
  });
}

/** The value of a member, as an operator writes it. */
function valueOf(name, document) {
  const value = document[name];
  if (value === undefined || value === null || value === "") return t("none");
  if (name === "price") return priceText(value, document.currency);
  if (name.endsWith("_seconds")) return duration(value);
  if (name.endsWith("_at")) return moment(value);
  if (name === "total") return value < 0 ? "∞" : count(value);
  if (name === "human_check") return t(`human.${value}`);
  if (name === "checkout") return t(`checkout.${value}`);
  if (typeof value === "boolean") return t(value ? "yes" : "no");
  if (typeof value === "object") return Object.entries(value).map(([member, inner]) => `${member}: ${typeof inner === "object" ? JSON.stringify(inner) : inner}`).join(", ") || t("none");
  return `“${value}”`.replace(/^“(\d+)”$/, "$1");
}
