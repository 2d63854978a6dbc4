// What the page of a sale knows, and what follows from it.

import * as clock from "../shared/clock.js";

/** A refusal "sold out" counts until the gate had time to say so itself. */
const REFUSAL_LIFETIME_MS = 3_000;

export const state = {
  /** The sale's id. */
  id: new URLSearchParams(location.search).get("activity") ?? "",
  /** The sale as the server described it last, or null. */
  activity: null,
  /** The gate as it was seen last, or null. */
  gate: null,
  /** When the server refused a SKU as sold out, by `performance.now()`. */
  refusedAt: new Map(),
  /** Until when a click holds the buttons, by `performance.now()`. */
  disabledUntil: 0,
};

export const startsAt = () => state.gate?.starts_at ?? state.activity.starts_at;
export const endsAt = () => state.gate?.ends_at ?? state.activity.ends_at;

/** Where the sale stands: the server's clock opens it to the instant, the gate says everything else. */
export function phase() {
  const reported = state.gate?.phase ?? state.activity.phase;
  if (reported === "paused" || reported === "ended") return reported;
  return clock.millisecondsUntil(startsAt()) <= 0 ? "open" : "scheduled";
}

/** Whether a try for this SKU cannot succeed now. */
export function isSoldOut({ sku, total, left }) {
  if (performance.now() - (state.refusedAt.get(sku) ?? -Infinity) < REFUSAL_LIFETIME_MS) return true;
  if (state.gate) return state.gate.sold_out.includes(sku);
  return total >= 0 && left === 0 && state.activity.phase === "open";
}

/** Whether nothing is left of anything. */
export const isAllSoldOut = () => state.activity.skus.every(isSoldOut);

/** Whether a click was a moment ago. */
export const areButtonsDisabled = () => performance.now() < state.disabledUntil;
