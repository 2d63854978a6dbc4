// Countdown and phase of a sale, with announcements for screen readers.

import { byId, setText } from "../shared/dom.js";
import { countdown } from "../shared/format.js";
import { t } from "../shared/i18n.js";
import { reserveSpace } from "./steady.js";

const PHASES = ["scheduled", "open", "paused", "ended"];

/** When the remaining time is announced to screen readers, in milliseconds before the start. */
const ANNOUNCE_AT = [60_000, 10_000];

let previousLeft = Infinity;
let previousPhase = null;

/** Reserves the space of every phase, and of countdowns that begin at these numbers of milliseconds. */
export function reserveCountdown(lefts) {
  reserveSpace(byId("countdown-label"), PHASES.map((phase) => t(`phase.${phase}`)));
  reserveSpace(byId("clock"), lefts.map(countdown));
}

/** Shows the phase; `left` is in milliseconds: until the end while the phase is `open`, otherwise until the start. */
export function showCountdown(phase, left) {
  const box = byId("countdown");
  box.dataset.phase = phase;
  setText(byId("countdown-label"), t(`phase.${phase}`));
  setText(byId("clock"), phase === "scheduled" || phase === "open" ? countdown(left) : "");
  if (phase === "scheduled") {
    const passed = ANNOUNCE_AT.find((at) => previousLeft > at && left <= at);
    if (passed && previousLeft !== Infinity) announce(t("announce.soon", { seconds: passed / 1000 }));
    previousLeft = left;
  } else if (phase !== previousPhase && previousPhase !== null) {
    announce(t(`announce.${phase}`));
  }
  previousPhase = phase;
}

const announce = (text) => setText(byId("announcer"), text);
