// The preview of a draft: the buyers' sale page with the draft's data, from the operators' API. It sells nothing.

import { startBar } from "../buyer/buy-bar.js";
import { showNotice } from "../buyer/notice.js";
import { state } from "../buyer/sale-state.js";
import { render, renderActivity, showSale } from "../buyer/sale-view.js";
import { clock } from "../shared/client.js";
import { byId, setText, setVisible } from "../shared/dom.js";
import { localized, t } from "../shared/i18n.js";
import { startLanguageSwitch } from "../shared/language-switch.js";
import { poll } from "../shared/poll.js";
import { explain } from "../shared/problems.js";
import { activityPath, read, token } from "./requests.js";

/** How often the draft is loaded again, in milliseconds. */
const REFRESH_INTERVAL = 3_000;
/** The time until the start that is shown where the start has passed, in milliseconds. */
const TIME_BEFORE_START = 10 * 60_000;

document.documentElement.dataset.started = "";
document.addEventListener("operator:signed-out", () => location.reload());
startLanguageSwitch();
byId("preview-moment").addEventListener("change", showMoment);
startBar({ buy: doNothing, join: doNothing, sign_in: doNothing, next: doNothing });
byId("remind").addEventListener("click", doNothing);
setInterval(render, 100);

let shownEtag = null;

poll(async () => {
  if (!token()) return showClosed();
  try {
    const answer = await read(activityPath(state.id), shownEtag);
    if (answer) showDraft(answer);
    shownEtag = answer?.etag ?? shownEtag;
  } catch (error) {
    if (error.code === "unauthenticated") return null;
    if (error.code === "not_found") showSale(false);
    else showNotice({ tone: "calm", text: explain(error) }, "error");
  }
  return REFRESH_INTERVAL;
});

function showDraft({ data: draft, date, sentAt, receivedAt }) {
  // No gate has the server's time before the sale is published.
  clock.observe(new Date(date ?? Date.now()).toISOString(), { sentAt, receivedAt });
  const shownVersion = state.activity?.version;
  setText(byId("preview-title"), t(draft.state === "draft" ? "preview.title" : "preview.published"));
  showNotice(null, "error");
  showSale(true);
  if (draft.version === shownVersion) return;
  const asOf = new Date(clock.now()).toISOString();
  const line = draft.line?.mode === "waitlist" ? { ...draft.line, offer_seconds: draft.line.offer_seconds ?? draft.pay_timeout_seconds } : undefined;
  const skus = draft.skus.map((sku) => ({ ...sku, left: sku.total, as_of: asOf, waiting: line && sku.total >= 0 ? 0 : undefined }));
  state.activity = localized({ ...draft, line, skus });
  renderActivity();
  showMoment();
}

/** Shows the sale as it will be at the chosen moment, by a gate that the server has not made. */
function showMoment() {
  if (!state.activity) return;
  const { starts_at: start, ends_at: end, skus } = state.activity;
  const chosen = byId("preview-moment").value;
  const isOpen = chosen === "open" || chosen === "sold_out";
  state.activity.skus = skus.map((sku) => ({ ...sku, left: chosen === "sold_out" ? 0 : sku.total }));
  const later = (time) => new Date(clock.now() + time).toISOString();
  state.gate = {
    phase: isOpen ? "open" : chosen,
    starts_at: isOpen ? later(-1) : clock.millisecondsUntil(start) > 0 ? start : later(TIME_BEFORE_START),
    ends_at: isOpen ? later(Date.parse(end) - Date.parse(start)) : end,
    sold_out: chosen === "sold_out" ? skus.filter(({ waiting }) => waiting === undefined).map(({ sku }) => sku) : [],
  };
  render();
}

function doNothing(event) {
  event?.preventDefault?.();
  showNotice({ tone: "calm", text: t("preview.nothing") });
}

/** Says that this tab has no operator's token, and stops loading the draft. */
function showClosed() {
  setVisible(byId("preview-bar"), false);
  setVisible(byId("sale"), false);
  setVisible(byId("closed"), true);
  return null;
}
