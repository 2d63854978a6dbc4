// The operator's page: token form, list of activities and load shedding. Both follow what other operators change.

import { byId, confirmDialog, el, setText, setVisible } from "../shared/dom.js";
import { exactMoment } from "../shared/format.js";
import { poll } from "../shared/poll.js";
import { activityPath, explain, finishRebuild, leave, read, runAction, send, showNotice, storeToken, token } from "./requests.js";
import { onSave, openCopy, openForm } from "./sale-form.js";
import * as changes from "./changes.js";
import * as deadLetters from "./dead-letters.js";
import * as live from "./live.js";
import * as bans from "./bans.js";
import * as callbacks from "./callbacks.js";
import "./order-lookup.js";

/** The actions on an activity by its state, besides editing, copying and live statistics: `[route, label]`. */
const ACTIONS = {
  draft: [["publish", "Publish"]],
  published: [["pause", "Pause"], ["close", "Close"]],
  paused: [["resume", "Resume"], ["close", "Close"]],
  closed: [],
};

/** What to ask before an action that stops a sale: the question and the answer that confirms it. */
const QUESTIONS = {
  pause: (id) => [`Pause the sale ${id}? Nobody can reserve until it is resumed; orders can be paid.`, "Pause the sale"],
  close: (id) => [`Close the sale ${id} for good?`, "Close the sale"],
};

const SHED_QUESTION = "Shed load? In all sales, only paying, cancelling and polling are served until you switch it off.";

const PAST_PARTICIPLES = { publish: "published", pause: "paused", resume: "resumed", close: "closed" };

/** How often the list and the switch of load shedding are loaded again, in milliseconds. */
const REFRESH_INTERVAL = 3_000;

let selectedId = null;
let poller = null;
/** The id of each activity → its row, and the document that the row shows. */
const rows = new Map();
// Requests that were sent before the last one of their kind are out of date when they are answered.
let lastList = 0;
/** The entity tag of the list that is shown. */
let listEtag = null;
let lastShedding = 0;

document.documentElement.dataset.started = "";
for (const node of document.querySelectorAll("[data-zone]")) {
  setText(node, new Intl.DateTimeFormat().resolvedOptions().timeZone.replaceAll("_", " "));
}
byId("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  storeToken(byId("token").value.trim());
  byId("token").value = "";
  void showConsole();
});
byId("leave").addEventListener("click", () => {
  leave();
  location.reload();
});
document.addEventListener("operator:signed-out", () => {
  if (byId("desk").hidden) return showTokenForm();
  poller?.stop();
  live.hide();
  if (!byId("editor").open) return location.reload();
  // What the operator has typed is theirs until they close the editor.
  showNotice("The token was refused: copy what you need, and close the editor.", "bad");
  byId("editor").addEventListener("close", () => location.reload(), { once: true });
});
byId("new").addEventListener("click", () => openForm(null));
byId("shed").addEventListener("change", async ({ target }) => {
  const on = target.checked;
  lastShedding += 1;
  if (on && !(await confirmDialog(SHED_QUESTION, "Shed load", "Leave it"))) return showShedding(false);
  lastShedding += 1;
  const changed = await runAction(target, () => send("PUT", "/shed", { on }));
  lastShedding += 1;
  showShedding(changed ? on : !on);
});
onSave(loadActivities);
/** Shows the form beside an empty desk: one that has shown data about buyers is left by loading the page again. */
function showTokenForm() {
  setVisible(byId("enter"), true);
  byId("token").focus();
}

async function showConsole() {
  try {
    await refresh();
    setVisible(byId("enter"), false);
    setVisible(byId("desk"), true);
    setVisible(byId("tools"), true);
    showNotice("");
    startPolling();
    for (const list of [callbacks, deadLetters, bans, changes]) void list.load();
  } catch (error) {
    if (error.code === "unauthenticated") return showNotice("This token is not the right one.", "bad");
    // nginx hides the routes from all addresses that its configuration does not list.
    const isHidden = error.code === "not_found";
    showNotice(isHidden ? "This address may not reach the operators' routes: see deploy/README.md." : explain(error), "bad");
    showTokenForm();
  }
}

function startPolling() {
  poller?.stop();
  poller = poll(async () => {
    try {
      await refresh();
      setText(byId("sales-trouble"), "");
    } catch (error) {
      if (error.code === "unauthenticated") return null;
      setText(byId("sales-trouble"), `This list is out of date: ${explain(error)}`);
    }
    return REFRESH_INTERVAL;
  });
}

const refresh = () => Promise.all([loadActivities(), loadShedding()]);

async function loadShedding() {
  const request = (lastShedding += 1);
  const { on } = await send("GET", "/shed");
  if (request === lastShedding) showShedding(on);
}

function showShedding(on) {
  byId("shed").checked = on;
  setVisible(byId("shedding"), on);
}

async function loadActivities() {
  const request = (lastList += 1);
  const answer = await read("/activities", listEtag);
  if (request !== lastList || !answer) return;
  const { data: { items: activities }, etag } = answer;
  // Rows without a change stay, so that a button keeps the focus.
  const nodes = activities.map((activity) => {
    const text = JSON.stringify(activity);
    if (rows.get(activity.id)?.text !== text) rows.set(activity.id, { text, node: row(activity) });
    return rows.get(activity.id).node;
  });
  if (nodes.length !== byId("sales").childElementCount || nodes.some((node, index) => node !== byId("sales").children[index])) {
    byId("sales").replaceChildren(...nodes);
  }
  setVisible(byId("no-sales"), activities.length === 0);
  listEtag = etag;
}

function row(activity) {
  const { id, title, state } = activity;
  const button = (action, label, onclick) =>
    el("button", { type: "button", class: "button", testid: `${action}-${id}`, onclick }, label);
  const actionButton = ([action, label]) =>
    button(action, label, (event) => void changeState(event.target, id, action));
  return el(
    "tr",
    { testid: `row-${id}`, class: id === selectedId ? "is-chosen" : null },
    el("td", {}, title, el("span", { class: "id" }, id)),
    el("td", {}, el("span", { class: "chip", "data-state": state, testid: `state-${id}` }, state)),
    el("td", { "data-label": "Starts" }, exactMoment(activity.starts_at)),
    el("td", { "data-label": "Ends" }, exactMoment(activity.ends_at)),
    el(
      "td",
      { class: "row-actions" },
      ACTIONS[state]?.map(actionButton),
      button("edit", "Edit", (event) => void openEditor(event.target, id, openForm)),
      button("copy", "Copy", (event) => void openEditor(event.target, id, openCopy)),
      state === "draft"
        ? [previewLink(id), button("delete", "Delete", (event) => void deleteDraft(event.target, id))]
        : button("live", "Live", () => showLive(activity)),
    ),
  );
}

/** A link to a new tab, which gets a copy of this tab's token because this page is its opener. */
const previewLink = (id) =>
  el("a", { class: "button", href: `/admin/preview?activity=${id}`, target: "_blank", rel: "opener", testid: `preview-${id}` }, "Preview");

async function changeState(button, id, action) {
  const [question, yes] = QUESTIONS[action]?.(id) ?? [];
  if (question && !(await confirmDialog(question, yes, "Leave it"))) return;
  const change = async () => {
    const { rebuild } = await send("POST", activityPath(id, `/${action}`), {});
    if (rebuild) await finishRebuild(id, rebuild);
    return true;
  };
  await runAction(button, change, `The sale ${id} is ${PAST_PARTICIPLES[action]}.`);
  await loadActivities().catch((error) => showNotice(explain(error), "bad"));
}

async function openEditor(button, id, open) {
  const spec = await runAction(button, () => send("GET", activityPath(id)));
  if (spec) open(spec);
}

async function deleteDraft(button, id) {
  if (!(await confirmDialog(`Delete the draft ${id}?`, "Delete", "Keep it"))) return;
  await runAction(button, () => send("DELETE", activityPath(id)), `The draft ${id} is deleted.`);
  await loadActivities().catch((error) => showNotice(explain(error), "bad"));
}

function showLive(activity) {
  selectedId = activity.id;
  for (const tableRow of byId("sales").children) {
    tableRow.classList.toggle("is-chosen", tableRow.dataset.testid === `row-${selectedId}`);
  }
  live.show(activity);
}

if (token()) void showConsole();
else showTokenForm();
