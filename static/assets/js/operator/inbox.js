// The inbox: what needs a person, each with what happened, what to do, and the runbook's section about it.

import { byId, el, setText, setVisible } from "../shared/dom.js";
import { exactMoment, money } from "../shared/format.js";
import { confirm } from "./dialog.js";
import { every, open, showCount } from "./frame.js";
import { countText, loadInbox } from "./inbox-items.js";
import { orderLink } from "./order-row.js";
import { button, show } from "./parts.js";
import { explain, runAction, send } from "./requests.js";
import { hasText, t } from "./words.js";

const REFRESH_INTERVAL = 5_000;

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
  setText(byId("name"), items.length ? countText(items.length) : t("nav.inbox"));
  setVisible(byId("none"), items.length === 0);
  show(byId("items"), items, () => items.map(row));
  showCount(items.length);
}

function row(item) {
  const { kind, since } = item;
  const { text, order, actions } = KINDS[kind](item);
  return el(
    "li", { class: "card inbox-item", testid: kind === "parked_callback" ? "callback" : kind },
    el("div", {}, el("h2", {}, t(`inbox.${kind}`)), el("p", {}, text, order && [" ", el("a", { href: orderLink(order), class: "exact" }, order)]),
      el("p", { class: "todo" }, el("strong", {}, t("inbox.todo")), " ", t(`inbox.${kind}.todo`)),
      el("p", { class: "quiet" }, t("inbox.since", { time: exactMoment(since) }), " · ", t("runbook", { section: t(`runbook.${kind}`) }))),
    el("div", { class: "head-actions" }, actions),
  );
}

const act = (testid, action, path, done) => button(testid, t(`inbox.${action}`), async ({ target }) => {
  if (hasText(`inbox.${action}.ask`) && !(await confirm({ title: t(`inbox.${action}.ask`), text: t(`inbox.${action}.follows`), yes: t(`inbox.${action}`) }))) return;
  await runAction(target, () => send("POST", path, {}), done ?? t(`inbox.${action}.done`));
  await load();
});

const KINDS = {
  parked_callback({ callback: { id, type, order_no: order, amount, currency, provider, outcome, other_session: otherSession } }) {
    const path = (action) => `/callbacks/${encodeURIComponent(id)}/${action}`;
    const values = { type, provider, amount: currency ? money(amount, currency) : "" };
    const why = hasText(`outcome.${outcome}`) ? t(`outcome.${outcome}`) : outcome;
    return {
      text: [t("callback.text", values), why, otherSession && t("order.other_session")].filter(Boolean).join(" · "), order,
      actions: [
        act("callback-replay", "replay", path("replay")), type === "payment.succeeded" && act("callback-refund", "refund", path("refund")),
        act("callback-dismiss", "dismiss", path("dismiss")),
      ],
    };
  },
  dead_letter: ({ letter: { order_no: order, reason } }) => ({
    text: hasText(`reason.${reason}`) ? t(`reason.${reason}`) : reason ?? "", order,
    actions: act("letter-replay", "again", `/dead-letters/${encodeURIComponent(order)}/replay`, t("inbox.again.done")),
  }),
  events_disabled: () => ({ text: "", actions: act("events-enable", "enable", "/events/enable") }),
};
