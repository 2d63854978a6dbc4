// The frame of every operators' page: navigation, sign-in by token, the state of the stores, and load shedding.

import { byId, el, setText, setVisible } from "../shared/dom.js";
import { language, setLanguage, titled } from "../shared/i18n.js";
import { poll } from "../shared/poll.js";
import { confirm } from "./dialog.js";
import { countText, loadInbox } from "./inbox-items.js";
import { explain, leave, readiness, runAction, send, showNotice, storeToken, token } from "./requests.js";
import { t } from "./words.js";

const LINKS = { sales: "/admin", orders: "/admin/orders", inbox: "/admin/inbox", buyers: "/admin/buyers", changes: "/admin/changes" };

/** How often shedding, and how often the stores and the inbox are loaded again, in milliseconds. */
const SHED_INTERVAL = 3_000;
const STATE_INTERVAL = 15_000;

let run = () => {};

/**
 * Opens a page: `show(main)` fills it when the operator has entered. `page` is its link in the navigation.
 */
export function open(page, show) {
  document.documentElement.dataset.started = "";
  document.title = titled(t(`nav.${page}`));
  document.body.prepend(el("a", { class: "skip", href: "#main" }, t("skip")));
  byId("top").append(
    el("span", { class: "quiet" }, t("operator")),
    el("nav", { id: "tools", class: "desk-nav", "aria-label": t("nav"), hidden: true }, navigation(page)),
    languageButton(),
  );
  byId("main").before(el("aside", { "aria-label": t("state") }, stateBar(), notice()));
  byId("main").append(tokenForm());
  document.addEventListener("operator:signed-out", () => byId("enter").hidden && location.reload());
  run = () => show(byId("main"));
  if (token()) void enter();
  else showTokenForm();
}

/** Sets the title and the heading of the page, of which the tab shows the title. */
export const setTitle = (text) => (document.title = titled(text));

const navigation = (page) => [
  ...Object.entries(LINKS).map(([name, href]) =>
    el("a", { href, "aria-current": name === page && "page", testid: `nav-${name}` }, t(`nav.${name}`),
      name === "inbox" && el("span", { id: "inbox-count", class: "count", testid: "inbox-count", hidden: true }))),
  el("button", { type: "button", class: "plain", id: "leave", testid: "leave", onclick: () => (leave(), location.reload()) }, t("leave")),
];

function languageButton() {
  const other = language === "zh" ? "en" : "zh";
  return el("button", { type: "button", class: "plain", testid: "language", lang: other, onclick: () => setLanguage(other) }, other === "zh" ? "中文" : "English");
}

const notice = () =>
  el("div", { id: "notice", class: "notice", role: "status", testid: "notice", hidden: true }, el("p", { id: "notice-text" }));

function tokenForm() {
  const field = el("input", { id: "token", type: "password", autocomplete: "current-password", required: true, testid: "admin-token" });
  const onsubmit = (event) => {
    event.preventDefault();
    storeToken(field.value.trim());
    field.value = "";
    void enter();
  };
  return el(
    "form", { id: "enter", class: "card enter", testid: "enter", hidden: true, onsubmit },
    el("h1", {}, t("enter.title")),
    el("p", { class: "field" }, el("label", { for: "token" }, t("enter.token")), field),
    el("button", { class: "button primary wide", testid: "admin-enter" }, t("enter.send")),
  );
}

/** Shows the form in an empty page: one that has shown data about buyers is left by loading the page again. */
function showTokenForm() {
  setVisible(byId("enter"), true);
  byId("token").focus();
}

async function enter() {
  try {
    showShedding(await send("GET", "/shed"));
    setVisible(byId("enter"), false);
    for (const id of ["tools", "state-bar"]) setVisible(byId(id), true);
    showNotice("");
    follow();
    run();
  } catch (error) {
    showTokenForm();
    if (error.code === "unauthenticated") return showNotice(t("enter.wrong"), "bad");
    // nginx hides the routes from all addresses that its configuration does not list.
    showNotice(error.code === "not_found" ? t("enter.hidden") : explain(error), "bad");
  }
}

function follow() {
  every(SHED_INTERVAL, async () => showShedding(await send("GET", "/shed")));
  every(STATE_INTERVAL, async () => showChecks(await readiness()));
  every(STATE_INTERVAL, async () => {
    const items = await loadInbox();
    const isLate = items.some(({ kind }) => kind === "late_orders");
    showCount(items.length);
    showWorker("sweeper", ...(isLate ? ["bad", t("sweeper.bad")] : ["good", t("sweeper.good")]));
  });
}

/** Repeats what a page loads until the token is refused. `onError(error)` shows why it failed, and gets null if it did not. */
export function every(interval, load, onError = () => {}) {
  return poll(async () => {
    try {
      await load();
      onError(null);
    } catch (error) {
      if (error.code === "unauthenticated") return null;
      onError(error);
    }
    return interval;
  });
}

/** Shows how many things need a person. */
export function showCount(number) {
  setVisible(byId("inbox-count"), number > 0);
  setText(byId("inbox-count"), String(number));
  byId("inbox-count").title = countText(number);
}

/** The stores, the order writer and the sweeper, and what sheds load. */
function stateBar() {
  const shed = el("button", { type: "button", class: "plain link", testid: "shed", id: "shed", onclick: ({ target }) => void setShedding(target, true) }, t("shed"));
  return [
    el("div", { id: "state-bar", class: "state-bar", hidden: true },
      el("p", { id: "stores", class: "stores", testid: "stores" }), el("p", { id: "workers", class: "stores", testid: "workers" }, el("span", { id: "writer" }), el("span", { id: "sweeper" })), shed),
    el("div", { id: "shedding", class: "shedding", role: "status", testid: "shedding", hidden: true },
      el("p", {}, el("strong", {}, t("shed.on")), " ", t("shed.on.more")),
      el("button", { type: "button", class: "button", testid: "shed-off", onclick: ({ target }) => void setShedding(target, false) }, t("shed.off"))),
  ];
}

async function setShedding(button, on) {
  if (on && !(await confirm({ title: t("shed.ask"), text: t("shed.follows"), yes: t("shed.yes"), tone: "danger" }))) return;
  if (await runAction(button, () => send("PUT", "/shed", { on }))) showShedding({ on });
}

function showShedding({ on }) {
  setVisible(byId("shedding"), on);
  setVisible(byId("shed"), !on);
}

function showChecks(checks) {
  const bad = Object.entries(checks).filter(([, state]) => state !== "ok");
  byId("stores").replaceChildren(...(bad.length
    ? bad.map(([name, state]) => stateChip("bad", `${t(`store.${name}`)}: ${state}`))
    : [stateChip("good", t("stores.good"))]));
}

/** Shows how the order writer or the sweeper does. */
export const showWorker = (name, tone, text) => byId(name).replaceChildren(stateChip(tone, text));

const stateChip = (tone, text) => el("span", { class: "state", "data-tone": tone }, text);
