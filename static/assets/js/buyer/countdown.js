// Countdown and phase of a sale: its last minute and last ten seconds look like it, and screen readers announce them.

import { byId, setText } from "../shared/dom.js";
import { countdown } from "../shared/format.js";
import { t, titled } from "../shared/i18n.js";
import { reserveSpace } from "./steady.js";

/** The phases that have a countdown. */
const PHASES = ["scheduled", "open"];

/** When the remaining time is announced to screen readers, in milliseconds before the start. */
const ANNOUNCE_AT = [60_000, 10_000];

/** For how long the tab's title says that the sale has just opened, in milliseconds. */
const JUST_OPENED = 60_000;

const prefersCalm = matchMedia("(prefers-reduced-motion: reduce)");

let previousLeft = Infinity;
let previousPhase = null;
let openedAt = -Infinity;

/** Reserves the space of every phase, and of countdowns that begin at these numbers of milliseconds. */
export function reserveCountdown(lefts) {
  reserveSpace(byId("countdown-label"), PHASES.map((phase) => t(`phase.${phase}`)));
  reserveSpace(byId("clock"), lefts.map(countdown));
}

/** Shows the phase; `left` is in milliseconds: until the end while the phase is `open`, otherwise until the start. */
export function showCountdown(phase, left, title) {
  if (PHASES.includes(phase)) {
    setText(byId("countdown-label"), t(`phase.${phase}`));
    setText(byId("clock"), countdown(left));
  }
  if (phase === "scheduled") {
    const passed = ANNOUNCE_AT.find((at) => previousLeft > at && left <= at);
    if (passed && previousLeft !== Infinity) announce(t("announce.soon", { seconds: passed / 1000 }));
    previousLeft = left;
  } else if (phase !== previousPhase && previousPhase !== null) {
    announce(t(`announce.${phase}`));
    if (phase === "open" && previousPhase === "scheduled") openedAt = performance.now();
  }
  previousPhase = phase;
  showMoment(phase, left, title);
}

/** The look of the box and the tab's title; who prefers reduced motion gets neither. */
function showMoment(phase, left, title) {
  const isCounting = PHASES.includes(phase) && !prefersCalm.matches;
  const moment = !isCounting || left > 60_000 ? "" : phase === "scheduled" && left <= 10_000 ? "seconds" : "minute";
  const box = byId("moment");
  if (box.dataset.phase !== phase) box.dataset.phase = phase;
  if (box.dataset.moment !== moment) box.dataset.moment = moment;
  const hasJustOpened = phase === "open" && performance.now() - openedAt < JUST_OPENED && !prefersCalm.matches;
  const before = moment && phase === "scheduled" ? countdown(left) : hasJustOpened ? t("title.open") : "";
  const tabTitle = before ? `${before} · ${title}` : titled(title);
  if (document.title !== tabTitle) document.title = tabTitle;
}

const announce = (text) => setText(byId("announcer"), text);
