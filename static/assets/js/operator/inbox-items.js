// What needs a person, in words: what happened, what to do, and which section of the runbook is about it.

import { hasText, t } from "./words.js";
import { send } from "./requests.js";

/** The section of docs/recovery.md about a kind; about the others, "Is anything wrong?". */
const SECTIONS = {
  stopped_gate: "Redis lost its last second", missing_gate: "Redis lost everything", unfinished_rebuild: "Rebuild an activity",
  audit_not_ok: "Rebuild an activity", late_orders: "A process died", clock_differs: "A clock is wrong",
  unreadable_sale: "The ledger is older or newer than the app", parked_callback: "Parked callbacks", stuck_callback: "Parked callbacks",
  dead_letter: "Dead letters",
};

export const sectionOf = (kind) => SECTIONS[kind] ?? "Is anything wrong?";

/** Loads what needs a person, oldest first; of a server without an inbox, from the lists that it would sum up. */
export const loadInbox = () => send("GET", "/inbox").then(({ items }) => items, (error) => {
  if (error.code === "not_found") return loadLists();
  throw error;
});

async function loadLists() {
  const [callbacks, letters, { endpoint }] = await Promise.all([
    send("GET", "/callbacks?limit=200"), send("GET", "/dead-letters?limit=200"), send("GET", "/events?limit=1"),
  ]);
  const items = new Map();
  const add = (kind, action, since, order, reason = null) => {
    const activity = order?.split(".")[0] ?? null;
    const key = [kind, activity, reason].join();
    items.set(key, { kind, action, since, activity, order_no: order ?? null, reason, count: (items.get(key)?.count ?? 0) + 1 });
  };
  for (const callback of callbacks.items) add("parked_callback", "decide_callback", callback.received_at, callback.order_no, callback.outcome);
  for (const letter of letters.items.filter(({ replayed_at: at }) => !at)) add("dead_letter", "replay_dead_letter", letter.died_at, letter.order_no, letter.reason);
  if (endpoint.disabled_at) add("events_disabled", "enable_events", endpoint.disabled_at);
  return [...items.values()].sort((one, other) => Date.parse(one.since) - Date.parse(other.since));
}

/** `3 things need you`. */
export const countText = (number) => t(number === 1 ? "inbox.count.one" : "inbox.count.many", { number });

/** Why, in words: a callback's outcome, a dead letter's reason, or what a check says. */
export function reasonText(reason) {
  const key = [`outcome.${reason}`, `reason.${reason}`].find(hasText);
  return key ? t(key) : reason ?? "";
}
