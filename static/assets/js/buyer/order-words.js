// Words about one order: a free one has no payment, and not every sale delivers.

import { count, money } from "../shared/format.js";
import { hasText, t } from "../shared/i18n.js";

/**
 * The text for `key`: the variant `.free` for an order that costs nothing, else the one for the sale's `checkout`, else
 * the text for all.
 */
export function orderText(key, { amount, checkout }, values) {
  const variants = [amount === 0 && `${key}.free`, `${key}.${checkout}`];
  return t(variants.find((variant) => variant && hasText(variant)) ?? key, values);
}

/** The price of an order, or that it has none. */
export const amountText = ({ amount, currency }) => (amount === 0 ? t("order.free") : money(amount, currency));

/** How many are ahead of an order in the queue or the line; without Redis, the server does not know it. */
export function placeText({ status, ahead }) {
  if (!Number.isInteger(ahead)) return t("order.place_kept");
  const [some, none] = status === "waiting" ? ["order.place", "order.first"] : ["order.ahead", "order.next"];
  return t(ahead > 0 ? some : none, { ahead: count(ahead) });
}

const LINE_ENDS = { left_line: "left_line", sale_ended: "sale_ended", removed_by_operator: "removed", limit_reached: "removed", banned: "removed" };

/** The status of an order, or how its wait in the line ended. */
export const endOf = ({ status, reason }) => (["cancelled", "expired"].includes(status) ? LINE_ENDS[reason] ?? status : status);

/** The last eight characters of an order's ULID, in groups of four: short enough to read out. */
export const orderCode = (orderNo) => orderNo.slice(-8).replace(/^.{4}/, "$&-");

/** The name of a SKU, behind that of the item of which it is an option. */
export const itemName = ({ item, name }) => [item, name].filter(Boolean).join(", ");
