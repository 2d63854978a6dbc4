// The notice of a page: one message at a time, with an optional countdown and link, until the visitor closes it.

import { byId, el, setText, setVisible } from "../shared/dom.js";
import { t } from "../shared/i18n.js";

let countdownTimer = null;
let topic = null;
/** The text that the visitor has closed: polls that fail on for the same reason do not bring it back. */
let closedText = null;

// A page restored from the browser's back/forward cache still has the notice of the action that left it: clear it.
addEventListener("pageshow", ({ persisted }) => persisted && showNotice(null));

/**
 * Shows a notice. `tone` is `busy`, `calm`, `good` or `bad`; `until` is the `performance.now()` to count down to;
 * `link` is `[address, text]`. `null` clears the notice; with a topic, only if it was shown under that topic.
 */
export function showNotice(notice, newTopic = null) {
  const box = byId("notice");
  if (notice === null) {
    if (newTopic && newTopic !== topic) return;
    closedText = null;
    clearInterval(countdownTimer);
    setVisible(box, false);
    return setText(byId("notice-text"), "");
  }
  if (newTopic && notice.text === closedText) return;
  topic = newTopic;
  box.dataset.tone = notice.tone;
  if (!box.querySelector(".close")) {
    box.append(el("button", { type: "button", class: "plain close", "aria-label": t("close"), testid: "notice-close", onclick: close }, "×"));
  }
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

function close() {
  const { textContent: text } = byId("notice-text");
  showNotice(null);
  closedText = text;
}
