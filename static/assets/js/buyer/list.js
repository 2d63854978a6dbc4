// The list of sales.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import { byId, el, picture, say, show } from "../shared/dom.js";
import { countdown, moment } from "../shared/format.js";
import { t } from "../shared/i18n.js";
import { repeat, upTo } from "../shared/poll.js";
import { explain } from "../shared/problems.js";
import * as shell from "../shared/shell.js";

const RANK = { open: 0, paused: 1, scheduled: 2 };

/** How many sales that are over are still shown. */
const MOST_ENDED = 5;

const starts = (sale) => Date.parse(sale.starts_at);

let ticks = [];

shell.start();

repeat(async () => {
  try {
    const { data, sentAt, receivedAt } = await api.activities();
    if (data.length) clock.observe(data[0].server_time, sentAt, receivedAt);
    render(data);
    show(byId("trouble"), false);
    return 60_000 + upTo(30_000);
  } catch (error) {
    say(byId("trouble"), explain(error));
    show(byId("trouble"), true);
    return Math.max(error.retryAfter ?? 0, 3_000 + upTo(3_000));
  }
});

setInterval(() => ticks.forEach((tick) => tick()), 500);

function render(sales) {
  ticks = [];
  const rows = [
    ...sales.filter(({ phase }) => phase !== "ended").sort((a, b) => RANK[a.phase] - RANK[b.phase] || starts(a) - starts(b)),
    ...sales.filter(({ phase }) => phase === "ended").sort((a, b) => starts(b) - starts(a)).slice(0, MOST_ENDED),
  ];
  byId("sales").replaceChildren(...rows.map(row));
  show(byId("none"), rows.length === 0);
  ticks.forEach((tick) => tick());
}

function row(sale) {
  const chip = el("span", { class: "chip" });
  const when = el("span", { class: "quiet" });
  ticks.push(() => {
    const left = clock.until(sale.starts_at);
    const phase = sale.phase === "scheduled" && left <= 0 ? "open" : sale.phase;
    chip.dataset.phase = phase;
    say(chip, t(`chip.${phase}`));
    const soon = phase === "scheduled" && left < 86_400_000;
    say(when, soon ? t("list.in", { time: countdown(left) })
      : phase === "scheduled" ? moment(sale.starts_at) : t("list.until", { time: moment(sale.ends_at) }));
  });
  return el(
    "li",
    {},
    el(
      "a",
      { class: "card sale-link", href: `/sale?activity=${encodeURIComponent(sale.id)}`, testid: "sale-link" },
      picture(sale.image, sale.title, "small"),
      el("span", { class: "sale-text" }, el("strong", {}, sale.title), when),
      chip,
    ),
  );
}
