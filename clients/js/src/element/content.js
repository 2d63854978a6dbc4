// What `<stampede-buy>` says in each state of a sale, a buyer and an order.

import { codeOf } from "../errors.js";
import { explain } from "../explain.js";
import { bestLanguage } from "../language.js";
import { formatMoney } from "../money.js";
import { countdown, duration } from "../times.js";
import { TEXTS } from "./texts.js";

/**
 * @typedef {import("../index.js").Activity} Activity
 * @typedef {import("../index.js").Order} Order
 * @typedef {import("./texts.js").Text} Text
 * @typedef {"loading" | "missing" | "before" | "open" | "busy" | "waitlist" | "waiting" | "queue" | "pay" | "paid" | "closed" | "sold-out" | "paused" | "ended"
 *   | "refused" | "unknown"} State
 */

/**
 * What the element knows.
 * @typedef {object} Facts
 * @property {string} language A language tag.
 * @property {Activity | null} sale
 * @property {Activity["skus"][number] | undefined} sku
 * @property {number} quantity
 * @property {"scheduled" | "open" | "paused" | "ended"} phase
 * @property {boolean} isSoldOut
 * @property {number} untilStart In milliseconds.
 * @property {number} untilEnd
 * @property {number} untilPay
 * @property {string} base
 * @property {"unknown" | "signed_in" | "signed_out" | "elsewhere"} buyer
 * @property {string | null} signInUrl
 * @property {import("../index.js").Step | null} progress Of the running attempt.
 * @property {unknown} error Why the last attempt was refused, the buyer may not take part, or nothing can be loaded.
 * @property {boolean} isUnknown Whether an attempt may have made an order.
 * @property {Order | null} order
 * @property {boolean} isOpening Whether a payment is being opened.
 */

/**
 * What the element shows. Without `action` and `href` the button does nothing. `tone`: `busy` works, `wait` becomes active by
 * itself, `good` is the buyer's, `quiet` is not the next step.
 * @typedef {object} Content
 * @property {State} state
 * @property {string} label
 * @property {string} note
 * @property {"buy" | "sign_in" | "pay"} [action]
 * @property {string} [href]
 * @property {"busy" | "wait" | "good" | "quiet"} [tone]
 * @property {string} item
 * @property {string} price
 * @property {string} clockLabel
 * @property {string} clock
 */

/** Refusals that another try does not change. */
const FINAL_REFUSALS = ["not_eligible", "banned", "too_many_strikes", "limit_reached"];

/** The statuses of an order that is over. @type {Partial<Record<Order["status"], Text>>} */
const OVER = { expired: "expired", cancelled: "cancelled", failed: "failed", refunding: "refunding", refunded: "refunding" };

/** Why a wait in the line ended without a unit. @type {Text[]} */
const LINE_ENDS = ["left_line", "removed_by_operator", "banned", "limit_reached", "sale_ended"];

/** @param {Order | null} order */
const lineEnd = (order) => LINE_ENDS.find((reason) => reason === order?.reason);

/** @param {Facts} facts @returns {Content} */
export function contentOf(facts) {
  const { language, sku, quantity, order, phase } = facts;
  const isOrder = order && !OVER[order.status];
  const t = textsOf(language);
  const [amount, currency] = order ? [order.amount, order.currency] : [(sku?.price ?? 0) * quantity, sku?.currency ?? ""];
  const price = !sku ? "" : amount === 0 ? t("free") : formatMoney(amount, currency, localeOf(language));
  const names = /** @type {Record<string, string>} */ (sku?.names ?? {});
  const name = names[bestLanguage(language, Object.keys(names)) ?? ""] ?? sku?.name ?? "";
  /** @param {Text} label @param {number} left */
  const clock = (label, left) => ({ clockLabel: t(label), clock: countdown(left, language) });
  return {
    item: quantity > 1 ? `${quantity} × ${name}` : name,
    price,
    ...(order?.status === "pending_payment" ? clock("yours_for", facts.untilPay)
      : sku && !isOrder && phase === "scheduled" ? clock("starts", facts.untilStart)
        : sku && !isOrder && phase === "open" ? clock("ends", facts.untilEnd) : { clockLabel: "", clock: "" }),
    ...(isOrder ? ofOrder(order, facts, t) : ofSale(facts, t, { price, amount })),
  };
}

/** @typedef {(text: Text, values?: Record<string, unknown>) => string} Translate */
/** @typedef {Pick<Content, "state" | "label" | "note" | "action" | "href" | "tone">} Part */

/** @param {Order} order @param {Facts} facts @param {Translate} t @returns {Part} */
function ofOrder({ order_no: orderNo, status, ahead, amount, declined_at: declinedAt }, { base, sale, isOpening, error, language }, t) {
  const page = `${base}/order?order_no=${encodeURIComponent(orderNo)}`;
  if (status === "waiting") {
    return { state: "waiting", label: t("place"), href: page, tone: "quiet", note: ahead ? t("waiting", { ahead }) : t(ahead === 0 ? "first" : "place_kept") };
  }
  if (status === "queued") return { state: "queue", label: t("queued"), tone: "good", note: ahead ? t("queue", { ahead }) : t("next") };
  if (status === "paid") return { state: "paid", label: t("order"), href: page, tone: "quiet", note: t(amount ? "paid" : "paid_free") };
  const note = error ? explain(error, language) : declinedAt ? t("declined") : t(amount ? "yours" : "yours_free");
  if (isOpening) return { state: "pay", label: t("busy"), tone: "busy", note };
  return { state: "pay", label: t(amount ? "pay" : "confirm"), note, ...(sale?.checkout === "form" ? { href: page } : { action: "pay" }) };
}

/** @param {Facts} facts @param {Translate} t @param {{ price: string, amount: number }} total @returns {Part} */
function ofSale({ language, sale, sku, quantity, phase, isSoldOut, base, buyer, signInUrl, progress, error, isUnknown, order }, t, { price, amount }) {
  const why = error ? explain(error, language) : "";
  if (sale ? !sku : codeOf(error) === "not_found") return { state: "missing", label: t("unavailable"), tone: "wait", note: t("missing") };
  if (!sale) return { state: "loading", label: t("loading"), tone: "wait", note: why };
  if (progress) {
    const note = progress.error ? explain(progress.error, language) : progress.step === "sending" ? t("sending") : "";
    return { state: "busy", label: t("busy"), tone: "busy", note };
  }
  if (isUnknown) return { state: "unknown", label: t("orders"), href: `${base}/orders`, note: t("unknown") };
  if (phase === "ended") return { state: "ended", label: t("ended"), tone: "wait", note: t(lineEnd(order) ?? "over") };
  if (FINAL_REFUSALS.includes(codeOf(error) ?? "")) return { state: "refused", label: t("orders"), href: `${base}/orders`, tone: "quiet", note: why };
  const hasLine = sku?.waiting !== undefined && sku.left === 0;
  if (phase === "open" && (isSoldOut || (hasLine && quantity > 1))) {
    return { state: "sold-out", label: t("sold_out"), tone: "wait", note: t(!sale.line ? "comes_back" : isSoldOut ? "line_full" : "one_only") };
  }
  if (phase === "paused") return { state: "paused", label: t("paused"), tone: "wait", note: t("goes_on") };
  if (buyer === "unknown") return { state: "busy", label: t("busy"), tone: "busy", note: "" };
  const isBefore = phase === "scheduled";
  const line = phase === "open" && hasLine ? sale.line : undefined;
  const state = isBefore ? "before" : line ? "waitlist" : "open";
  const label = line ? t("join") : t("buy", { total: price });
  const terms = line ? t("rule", { time: duration(line.offer_seconds, localeOf(language)) }) : hold(sale, amount, language, t);
  if (buyer === "elsewhere") {
    const href = `${base}/sale?activity=${encodeURIComponent(sale.id)}`;
    return { state, href, label: isBefore ? t("go") : label, note: t("before_elsewhere") };
  }
  if (buyer === "signed_out") {
    const way = signInUrl ? { href: signInUrl } : {};
    return { state, ...way, action: "sign_in", label: t(isBefore ? "take_part" : "sign_in"), note: isBefore ? t("before") : terms };
  }
  if (isBefore) return { state, label: t("opens", { time: moment(sale.starts_at, language) }), tone: "wait", note: why || t("before_pass") };
  const over = lineEnd(order) ?? (order && OVER[order.status]);
  return {
    state: error ? "refused" : over ? "closed" : state, action: "buy", label,
    note: why || (over ? t(over) : terms),
  };
}

/** @param {Activity} sale @param {number} amount @param {string} language @param {Translate} t */
function hold({ pay_timeout_seconds: seconds, line }, amount, language, t) {
  const terms = t(amount ? "open" : "open_free", { time: duration(seconds, localeOf(language)) });
  return line ? t("then_line", { terms }) : terms;
}

/** `20:15`, or `Fri 27 Nov, 20:15` on another day. @param {string} text @param {string} language */
function moment(text, language) {
  const time = new Date(text);
  const isToday = time.toDateString() === new Date().toDateString();
  /** @type {Intl.DateTimeFormatOptions} */
  const day = isToday ? {} : { weekday: "short", day: "numeric", month: "short" };
  return new Intl.DateTimeFormat(localeOf(language), { ...day, hour: "numeric", minute: "2-digit" }).format(time);
}

/** The language of the texts. @param {string} language */
export const spoken = (language) => bestLanguage(language, Object.keys(TEXTS)) ?? "en";

/** By which numbers and times are formatted: as the texts. @param {string} language */
const localeOf = (language) => (language.startsWith(spoken(language)) ? language : spoken(language));

/** @param {string} language @returns {Translate} */
function textsOf(language) {
  const texts = TEXTS[spoken(language)];
  return (text, values = {}) => texts[text].replace(/\{(\w+)\}/g, (placeholder, name) => String(values[name] ?? placeholder));
}
