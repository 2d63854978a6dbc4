// The one place on a page that says what is going on.

import { byId, el, setText, setVisible } from "../shared/dom.js";
import { t } from "../shared/i18n.js";

let countdownTimer = null;
let topic = null;

// Whoever comes back to a kept page finds it at rest, not at what they left it for.
addEventListener("pageshow", ({ persisted }) => persisted && showNotice(null));

/**
 * Shows a notice: `tone` is `busy`, `calm`, `good` or `bad`; `until` a `performance.now()` to count
 * down to; `link` an address and its words. `null` clears it; with a `topic`, only what was shown
 * under that topic.
 */
export function showNotice(notice, newTopic = null) {
  const box = byId("notice");
  if (notice === null) {
    if (newTopic && newTopic !== topic) return;
    clearInterval(countdownTimer);
    setVisible(box, false);
    return setText(byId("notice-text"), "");
  }
  topic = newTopic;
  box.dataset.tone = notice.tone;
  setVisible(box, true);
  setText(byId("notice-text"), notice.text);
  byId("notice-more").replaceChildren(
    ...(notice.link ? [el("a", { href: notice.link[0] }, notice.link[1])] : []),
  );
  clearInterval(countdownTimer);
  const countdown = byId("notice-wait");
  const updateCountdown = () => {
    const seconds = notice.until ? Math.ceil((notice.until - performance.now()) / 1000) : 0;
    setText(countdown, seconds > 0 ? t("attempt.again", { seconds }) : "");
  };
  updateCountdown();
  if (notice.until) countdownTimer = setInterval(updateCountdown, 250);
}
