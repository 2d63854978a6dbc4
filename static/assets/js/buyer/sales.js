// The page with the list of sales.

import { client, clock } from "../shared/client.js";
import { byId, el, picture, setText, setVisible } from "../shared/dom.js";
import { countdown, moment } from "../shared/format.js";
import { localized, t } from "../shared/i18n.js";
import { poll, randomUpTo } from "../shared/poll.js";
import { explain } from "../shared/problems.js";
import * as shell from "../shared/shell.js";

const PHASE_ORDER = { open: 0, paused: 1, scheduled: 2 };

/** How many ended activities are shown. */
const MAX_ENDED = 5;

const startTime = (activity) => Date.parse(activity.starts_at);

let updates = [];

shell.start();

poll(async () => {
  try {
    render((await client.activities()).map(localized));
    setVisible(byId("trouble"), false);
    return 60_000 + randomUpTo(30_000);
  } catch (error) {
    setText(byId("trouble"), explain(error));
    setVisible(byId("trouble"), true);
    return Math.max(error.retryAfter ?? 0, 3_000 + randomUpTo(3_000));
  }
});

setInterval(() => updates.forEach((update) => update()), 500);

function render(activities) {
  updates = [];
  const rows = [
    ...activities
      .filter(({ phase }) => phase !== "ended")
      .sort((a, b) => PHASE_ORDER[a.phase] - PHASE_ORDER[b.phase] || startTime(a) - startTime(b)),
    ...activities
      .filter(({ phase }) => phase === "ended")
      .sort((a, b) => startTime(b) - startTime(a))
      .slice(0, MAX_ENDED),
  ];
  byId("sales").replaceChildren(...rows.map(row));
  setVisible(byId("none"), rows.length === 0);
  updates.forEach((update) => update());
}

function row(activity) {
  const chip = el("span", { class: "chip" });
  const when = el("span", { class: "quiet" });
  updates.push(() => {
    const left = clock.millisecondsUntil(activity.starts_at);
    const phase = activity.phase === "scheduled" && left <= 0 ? "open" : activity.phase;
    chip.dataset.phase = phase;
    setText(chip, t(`chip.${phase}`));
    const soon = phase === "scheduled" && left < 86_400_000;
    setText(when, soon ? t("list.in", { time: countdown(left) })
      : phase === "scheduled" ? moment(activity.starts_at) : t("list.until", { time: moment(activity.ends_at) }));
  });
  return el(
    "li",
    {},
    el(
      "a",
      { class: "card sale-link", href: `/sale?activity=${encodeURIComponent(activity.id)}`, testid: "sale-link" },
      picture(activity.image, activity.title, "small"),
      el("span", { class: "sale-text" }, el("strong", {}, activity.title), when),
      chip,
    ),
  );
}
