// The operator's page: token form, list of activities and load shedding.

import { byId, confirmDialog, el, setVisible } from "../shared/dom.js";
import { moment } from "../shared/format.js";
import { activityPath, explain, finishRebuild, forgetToken, runAction, send, showNotice, storeToken, token } from "./requests.js";
import { onSave, openForm } from "./sale-form.js";
import * as changes from "./changes.js";
import * as deadLetters from "./dead-letters.js";
import * as liveStats from "./live-stats.js";
import "./bans.js";

/** The actions on an activity by its state, besides editing and live statistics: `[route, label]`. */
const ACTIONS = {
  draft: [["publish", "Publish"]],
  published: [["pause", "Pause"], ["close", "Close"]],
  paused: [["resume", "Resume"], ["close", "Close"]],
  closed: [],
};

const PAST_PARTICIPLES = { publish: "published", pause: "paused", resume: "resumed", close: "closed" };

let selectedId = null;

document.documentElement.dataset.started = "";
byId("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  storeToken(byId("token").value.trim());
  byId("token").value = "";
  void showConsole();
});
byId("leave").addEventListener("click", () => {
  forgetToken();
  showTokenForm();
});
document.addEventListener("operator:signed-out", showTokenForm);
byId("new").addEventListener("click", () => openForm(null));
byId("shed").addEventListener("change", ({ target }) =>
  runAction(target, () => send("PUT", "/shed", { on: target.checked }), () =>
    target.checked ? "Only paying, cancelling and polling are served now." : "Everything is served again.",
  ).then((done) => done === undefined && (target.checked = !target.checked)),
);
onSave(loadActivities);
if (token()) void showConsole();
else showTokenForm();

function showTokenForm() {
  selectedId = null;
  liveStats.hide();
  setVisible(byId("desk"), false);
  setVisible(byId("tools"), false);
  setVisible(byId("enter"), true);
  byId("token").focus();
}

async function showConsole() {
  try {
    await loadActivities();
    byId("shed").checked = (await send("GET", "/shed")).on;
    setVisible(byId("enter"), false);
    setVisible(byId("desk"), true);
    setVisible(byId("tools"), true);
    showNotice("");
    void deadLetters.load();
    void changes.load();
  } catch (error) {
    showNotice(error.code === "unauthenticated" ? "This token is not the right one." : explain(error), "bad");
    if (error.code !== "unauthenticated") showTokenForm();
  }
}

async function loadActivities() {
  const activities = await send("GET", "/activities");
  byId("sales").replaceChildren(...activities.map(row));
  setVisible(byId("no-sales"), activities.length === 0);
}

function row(activity) {
  const { id, title, state } = activity;
  const actionButton = ([action, label]) =>
    el("button", { type: "button", class: "button", testid: `${action}-${id}`, onclick: (event) => void changeState(event.target, id, action) }, label);
  return el(
    "tr",
    { testid: `row-${id}`, class: id === selectedId ? "is-chosen" : null },
    el("td", {}, title, el("span", { class: "id" }, id)),
    el("td", {}, el("span", { class: "chip", "data-state": state, testid: `state-${id}` }, state)),
    el("td", { "data-label": "Starts" }, moment(activity.starts_at)),
    el("td", { "data-label": "Ends" }, moment(activity.ends_at)),
    el(
      "td",
      { class: "row-actions" },
      ACTIONS[state]?.map(actionButton),
      el("button", { type: "button", class: "button", testid: `edit-${id}`, onclick: (event) => void openEditor(event.target, id) }, "Edit"),
      state === "draft"
        ? null
        : el("button", { type: "button", class: "button", testid: `live-${id}`, onclick: () => showLive(activity) }, "Live"),
    ),
  );
}

async function changeState(button, id, action) {
  if (action === "close" && !(await confirmDialog(`Close the sale ${id} for good?`, "Close the sale", "Leave it"))) return;
  const change = async () => {
    const { rebuild } = await send("POST", activityPath(id, `/${action}`), {});
    if (rebuild) await finishRebuild(id, rebuild);
    return true;
  };
  await runAction(button, change, `The sale ${id} is ${PAST_PARTICIPLES[action]}.`);
  await loadActivities().catch((error) => showNotice(explain(error), "bad"));
}

async function openEditor(button, id) {
  const spec = await runAction(button, () => send("GET", activityPath(id)));
  if (spec) openForm(spec);
}

function showLive(activity) {
  selectedId = activity.id;
  for (const tableRow of byId("sales").children) {
    tableRow.classList.toggle("is-chosen", tableRow.dataset.testid === `row-${selectedId}`);
  }
  liveStats.show(activity);
}
