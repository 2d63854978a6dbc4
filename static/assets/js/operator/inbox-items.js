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

/** Loads what needs a person, oldest first. */
export const loadInbox = () => send("GET", "/inbox").then(({ items }) => items);

/** `3 things need you`. */
export const countText = (number) => t(number === 1 ? "inbox.count.one" : "inbox.count.many", { number });

/** Why, in words: a callback's outcome, a dead letter's reason, or what a check says. */
export function reasonText(reason) {
  const key = [`outcome.${reason}`, `reason.${reason}`].find(hasText);
  return key ? t(key) : reason ?? "";
}
