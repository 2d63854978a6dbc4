// State of the sale page, and values derived from it.

import { clock } from "../shared/client.js";

/** How long a refusal "sold out" marks a SKU as sold out, so that the gate has time to list it. */
const REFUSAL_LIFETIME_MS = 3_000;

export const state = {
  /** The activity's id. */
  id: new URLSearchParams(location.search).get("activity") ?? "",
  /** The activity as loaded last, or null. */
  activity: null,
  /** The gate as polled last, or null. */
  gate: null,
  /** SKU → `performance.now()` of the last refusal "sold out". */
  refusedAt: new Map(),
  /** The `performance.now()` until which the buttons stay disabled after a click. */
  disabledUntil: 0,
};

export const startsAt = () => state.gate?.starts_at ?? state.activity.starts_at;
export const endsAt = () => state.gate?.ends_at ?? state.activity.ends_at;

/** The phase: paused and ended by the gate (until its first poll by the activity), open by the server's clock. */
export function phase() {
  const reported = state.gate?.phase ?? state.activity.phase;
  if (reported === "paused" || reported === "ended") return reported;
  return clock.millisecondsUntil(startsAt()) <= 0 ? "open" : "scheduled";
}

/** Whether this SKU is sold out: by a recent refusal, else by the gate, else by its stock. */
export function isSoldOut({ sku, total, left }) {
  if (performance.now() - (state.refusedAt.get(sku) ?? -Infinity) < REFUSAL_LIFETIME_MS) return true;
  if (state.gate) return state.gate.sold_out.includes(sku);
  return total >= 0 && left === 0 && state.activity.phase === "open";
}

/** Whether every SKU is sold out. */
export const isAllSoldOut = () => state.activity.skus.every(isSoldOut);

/** Whether a recent click still disables the buttons. */
export const areButtonsDisabled = () => performance.now() < state.disabledUntil;
