// The inbox: what needs a person, each with what happened, what to do, and the runbook's section about it.

import { byId, el, setText, setVisible } from "../shared/dom.js";
import { exactMoment, money } from "../shared/format.js";
import { confirm } from "./dialog.js";
import { every, open, showCount } from "./frame.js";
import { countText, loadInbox, reasonText, sectionOf } from "./inbox-items.js";
import { orderLink } from "./order-row.js";
import { button, show } from "./parts.js";
import { explain, runAction, send } from "./requests.js";
import { hasText, t } from "./words.js";

const REFRESH_INTERVAL = 5_000;
const NONE = { items: [] };
/** What keeps a sale from selling, or its units from coming back. */
const STANDS_STILL = new Set(["stopped_gate", "missing_gate", "audit_not_ok", "late_orders"]);

open("inbox", (main) => {
  main.append(
    el("h1", { id: "name", testid: "inbox-title" }, t("nav.inbox")),
    el("p", { id: "trouble", class: "trouble", role: "status" }),
    el("ul", { id: "items", class: "inbox", testid: "inbox" }),
    el("p", { id: "none", class: "empty quiet", hidden: true }, t("inbox.none")),
  );
  every(REFRESH_INTERVAL, load, (error) => setText(byId("trouble"), error ? t("out_of_date", { why: explain(error) }) : ""));
});

async function load() {
  const items = await loadInbox();
  const has = (kind) => items.some((item) => item.kind === kind);
  const [callbacks, letters] = await Promise.all([
    has("parked_callback") ? send("GET", "/callbacks?limit=200") : NONE, has("dead_letter") ? send("GET", "/dead-letters?limit=200") : NONE,
  ]);
  setText(byId("name"), items.length ? countText(items.length) : t("nav.inbox"));
  setVisible(byId("none"), items.length === 0);
  show(byId("items"), [items, callbacks, letters], () => items.map((item) => row(item, callbacks.items, letters.items)));
  showCount(items.length);
}

function row(item, callbacks, letters) {
  const { kind, activity, order_no: order, reason, count, since, action } = item;
  const isOfItem = (entry, why) => (!activity || saleOf(entry) === activity) && (why || null) === reason;
  const parts = kind === "parked_callback" ? callbacks.filter((callback) => isOfItem(callback, callback.outcome)).map(callbackRow)
    : kind === "dead_letter" ? letters.filter((letter) => !(letter.replayed_at >= letter.died_at) && isOfItem(letter, letter.reason)).map(letterRow) : [];
  return el(
    "li", { class: "card inbox-item", "data-tone": STANDS_STILL.has(kind) && "bad", testid: `inbox-${kind}` },
    el("div", {},
      el("h2", {}, t(`inbox.${kind}`), count > 1 && el("span", { class: "count" }, `${count} ×`)),
      el("p", {}, [activity && saleLink(activity), reasonText(reason), order && !parts.length && orderNo(order)].filter(Boolean).flatMap((part, index) => [index > 0 && " · ", part])),
      el("p", { class: "todo" }, el("strong", {}, t("inbox.todo")), " ", t(`todo.${action}`)),
      el("p", { class: "quiet" }, [since && t("inbox.since", { time: exactMoment(since) }), t("runbook", { section: sectionOf(kind) })].filter(Boolean).join(" · "))),
    el("div", { class: "head-actions" }, actionOf(item)),
    parts.length > 0 && el("ul", { class: "inbox-parts" }, parts),
  );
}

const saleOf = ({ order_no: order }) => order?.split(".")[0] || null;
const saleLink = (id) => el("a", { href: `/admin/sale?${new URLSearchParams({ id })}` }, id);
const orderNo = (order) => el("a", { href: orderLink(order), class: "exact" }, order);

const act = (testid, action, path, body = {}) => button(testid, t(`inbox.${action}`), async ({ target }) => {
  if (hasText(`inbox.${action}.ask`) && !(await confirm({ title: t(`inbox.${action}.ask`), text: t(`inbox.${action}.follows`), yes: t(`inbox.${action}`) }))) return;
  await runAction(target, () => send("POST", path, body), t(`inbox.${action}.done`));
  await load();
});

function actionOf({ action, activity, order_no: order }) {
  if (action === "enable_events") return act("events-enable", "enable", "/events/enable");
  if (action === "replay_events") return act("events-replay", "events", "/events/replay", { failed: true });
  const href = order ? orderLink(order) : activity && `/admin/sale?${new URLSearchParams({ id: activity })}`;
  return href && el("a", { class: "button", href }, t(order ? "inbox.look.order" : "inbox.look.sale"));
}

function callbackRow({ id, type, order_no: order, amount, currency, provider, other_session: otherSession }) {
  const path = (action) => `/callbacks/${encodeURIComponent(id)}/${action}`;
  return el("li", { testid: "callback" },
    el("p", {}, t("callback.text", { type, provider, amount: currency ? money(amount, currency) : "" }), otherSession && ` · ${t("order.other_session")}`, " ", order && orderNo(order)),
    el("div", { class: "head-actions" },
      act("callback-replay", "replay", path("replay")), type === "payment.succeeded" && act("callback-refund", "refund", path("refund")),
      act("callback-dismiss", "dismiss", path("dismiss"))));
}

function letterRow({ order_no: order, reason }) {
  const path = (action) => `/dead-letters/${encodeURIComponent(order)}/${action}`;
  return el("li", { testid: "letter" }, el("p", {}, orderNo(order)), el("div", { class: "head-actions" },
    reason !== "unreadable" && act("letter-replay", "again", path("replay")), act("letter-dismiss", "drop", path("dismiss"))));
}
