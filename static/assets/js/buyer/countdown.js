// The big clock of a sale.

import { byId, say } from "../shared/dom.js";
import { countdown } from "../shared/format.js";
import { t } from "../shared/i18n.js";

/** What is read out on the way to the start, in milliseconds before it: not every second. */
const ANNOUNCED = [60_000, 10_000];

let last = Infinity;
let phaseBefore = null;

/** Shows where the sale stands; `left` is the time to its start, or to its end while it is open. */
export function showCountdown(phase, left) {
  const box = byId("countdown");
  box.dataset.phase = phase;
  say(byId("countdown-label"), t(`phase.${phase}`));
  say(byId("clock"), phase === "scheduled" || phase === "open" ? countdown(left) : "");
  if (phase === "scheduled") {
    const passed = ANNOUNCED.find((at) => last > at && left <= at);
    if (passed && last !== Infinity) announce(t("announce.soon", { seconds: passed / 1000 }));
    last = left;
  } else if (phase !== phaseBefore && phaseBefore !== null) {
    announce(t(`announce.${phase}`));
  }
  phaseBefore = phase;
}

const announce = (text) => say(byId("announcer"), text);
