// What operators do to a sale, what follows from it, and what they should know before they publish one.

import { client } from "../shared/client.js";
import { count, duration, period, priceText } from "../shared/format.js";
import { sentences } from "../shared/i18n.js";
import { ask, confirm } from "./dialog.js";
import { activityPath, finishRebuild, runAction, send } from "./requests.js";
import { now } from "./sale-states.js";
import { t } from "./words.js";

/** The action at the top of the page by the sale's state. */
export const ACTIONS = { draft: ["publish"], published: ["pause"], paused: ["resume"] };

/** Publishes, pauses or resumes the sale; what stops or starts one is asked first. */
export async function changeState(button, sale, action) {
  const text = action === "publish" ? (await checklist(sale)).map(({ line }) => line).join("\n") : t(`${action}.follows`);
  if (!(await confirm({ title: t(`${action}.ask`, { title: sale.title }), text, yes: t(`do.${action}`) }))) return;
  await sendAction(button, sale.id, action);
}

/** Closes the sale, in whose line `waiting` buyers wait, for good, when its name is typed. */
export async function closeSale(button, sale, waiting) {
  const answer = await ask({
    title: t("close.ask", { title: sale.title }), text: sentences(t("close.follows"), waiting > 0 && t("close.waiting", { waiting: count(waiting) })), yes: t("close"), tone: "danger", mustEqual: sale.title.trim(),
    fields: [{ name: "title", label: t("close.type", { title: sale.title }), spellcheck: "false" }],
  });
  if (answer) await sendAction(button, sale.id, "close");
}

const sendAction = (button, id, action) => runAction(button, async () => {
  const { rebuild } = await send("POST", activityPath(id, `/${action}`), {});
  if (rebuild) await finishRebuild(id, rebuild);
  return true;
}, t(`${action}.done`, { id }));

/** Deletes a draft, or a rehearsal that is over. */
export async function deleteSale(button, id, ask) {
  if (!(await confirm({ title: t(ask, { id }), yes: t("delete"), tone: "danger" }))) return;
  const isDeleted = await runAction(button, async () => (await send("DELETE", activityPath(id)), true));
  if (isDeleted) location.assign("/admin");
}

/** What an operator should know before a sale is published: `{tone, line}` each. */
export async function checklist(sale) {
  const starts = Date.parse(sale.starts_at) - now();
  const free = sale.skus.every(({ price }) => price === 0);
  const good = (text) => ({ tone: "good", line: text });
  const warn = (text) => ({ tone: "warn", line: text });
  return [
    Date.parse(sale.ends_at) <= now() ? warn(t("check.ended"))
      : starts < 0 ? warn(t("check.at_once"))
        : starts < 30 * 60_000 ? warn(t("check.starts_soon", { time: duration(Math.ceil(starts / 60_000) * 60) }))
          : good(t("check.starts", { time: duration(Math.ceil(starts / 60_000) * 60) })),
    sale.image || sale.skus.some(({ image }) => image) ? good(t("check.picture")) : warn(t("check.no_picture")),
    free ? warn(t("check.free")) : (await isSandbox()) ? warn(t("check.sandbox")) : good(t("check.payment")),
    sale.description ? good(t("check.description")) : warn(t("check.no_description")),
    sale.titles?.zh ? good(t("check.chinese")) : warn(t("check.no_chinese")),
    sale.human_check === "none" ? warn(t("check.no_check")) : good(t("check.check")),
    ...(refundRisk(sale) ? [warn(t("check.refund_risk"))] : []),
  ];
}

/** Whether buyers can empty the sale for nothing. */
export const refundRisk = ({ refund_restocks: restocks, refund_window_seconds: window }) => !restocks && window !== 0;

let sandbox = null;

/** Whether payments are the sandbox's: it alone answers that it has no such session. */
const isSandbox = () => (sandbox ??= client.call("GET", "/sandbox/pay/-").then(() => true, ({ detail }) => /session/.test(detail)));

/** The settings of a sale, in words. */
export const settingsOf = (sale) => [
  [t("f.when"), period(sale.starts_at, sale.ends_at)],
  [t("f.skus"), sale.skus.map(({ name, price, currency, total }) => `${total < 0 ? "∞" : count(total)} × ${name}, ${priceText(price, currency)}`).join("; ")],
  [t("f.per_user"), count(sale.per_user)],
  [t("f.pay_timeout"), duration(sale.pay_timeout_seconds)],
  [t("f.checkout"), t(`checkout.${sale.checkout}`)],
  [t("f.line"), t(`line.${sale.line?.mode ?? "none"}`)],
  [t("f.check"), t(`human.${sale.human_check}`)],
  [t("f.who"), whoOf(sale.eligibility)],
  [t("f.refund"), sale.refund_window_seconds === undefined || sale.refund_window_seconds === null ? t("refund.always")
    : sale.refund_window_seconds ? duration(sale.refund_window_seconds) : t("refund.never")],
];

function whoOf({ members_only: members, min_level: level, allow = [], groups = [], codes }) {
  const rules = [
    members && t("who.members"), level > 0 && t("who.level", { level }), allow.length > 0 && t("who.allow", { number: allow.length }),
    groups.length > 0 && t("who.groups", { groups: groups.join(", ") }),
    codes && t("who.codes"),
  ].filter(Boolean);
  return rules.length ? rules.join("; ") : t("who.everybody");
}

