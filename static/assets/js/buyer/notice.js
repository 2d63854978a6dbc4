// The one place on a page that says what is going on.

import { byId, el, say, show } from "../shared/dom.js";
import { t } from "../shared/i18n.js";

let ticking = null;
let topic = null;

// Whoever comes back to a kept page finds it at rest, not at what they left it for.
addEventListener("pageshow", ({ persisted }) => persisted && showNotice(null));

/**
 * Shows a notice: `tone` is `busy`, `calm`, `good` or `bad`; `until` a `performance.now()` to count
 * down to; `link` an address and its words. `null` clears it; with a `topic`, only what was shown
 * under that topic.
 */
export function showNotice(notice, about = null) {
  const box = byId("notice");
  if (notice === null) {
    if (about && about !== topic) return;
    clearInterval(ticking);
    show(box, false);
    return say(byId("notice-text"), "");
  }
  topic = about;
  box.dataset.tone = notice.tone;
  show(box, true);
  say(byId("notice-text"), notice.text);
  byId("notice-more").replaceChildren(
    ...(notice.link ? [el("a", { href: notice.link[0] }, notice.link[1])] : []),
  );
  clearInterval(ticking);
  const wait = byId("notice-wait");
  const tick = () => {
    const seconds = notice.until ? Math.ceil((notice.until - performance.now()) / 1000) : 0;
    say(wait, seconds > 0 ? t("attempt.again", { seconds }) : "");
  };
  tick();
  if (notice.until) ticking = setInterval(tick, 250);
}
