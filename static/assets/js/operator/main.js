// The operator's page: the token, the list of sales, and what stands around it.

import { ask, byId, el, show } from "../shared/dom.js";
import { moment } from "../shared/format.js";
import { doing, explain, forget, keep, notice, sale, send, token } from "./desk.js";
import { edit, onSaved } from "./form.js";
import * as letters from "./letters.js";
import * as live from "./live.js";
import "./people.js";

/** What can be done with a sale in a state, besides looking and editing. */
const VERBS = {
  draft: [["publish", "Publish"]],
  published: [["pause", "Pause"], ["close", "Close"]],
  paused: [["resume", "Resume"], ["close", "Close"]],
  closed: [],
};

const DONE = { publish: "published", pause: "paused", resume: "resumed", close: "closed" };

let chosen = null;

byId("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  keep(byId("token").value.trim());
  byId("token").value = "";
  void open();
});
byId("leave").addEventListener("click", () => {
  forget();
  lock();
});
document.addEventListener("desk:locked", lock);
byId("new").addEventListener("click", () => edit(null));
byId("shed").addEventListener("change", ({ target }) =>
  doing(target, () => send("PUT", "/shed", { on: target.checked }), () =>
    target.checked ? "Only paying, cancelling and polling are served now." : "Everything is served again.",
  ).then((done) => done === undefined && (target.checked = !target.checked)),
);
onSaved(list);
if (token()) void open();
else lock();

function lock() {
  chosen = null;
  live.hide();
  show(byId("desk"), false);
  show(byId("tools"), false);
  show(byId("enter"), true);
  byId("token").focus();
}

async function open() {
  try {
    await list();
    byId("shed").checked = (await send("GET", "/shed")).on;
    show(byId("enter"), false);
    show(byId("desk"), true);
    show(byId("tools"), true);
    notice("");
    void letters.load();
  } catch (error) {
    notice(error.code === "unauthenticated" ? "This token is not the right one." : explain(error), "bad");
    if (error.code !== "unauthenticated") lock();
  }
}

async function list() {
  const activities = await send("GET", "/activities");
  byId("sales").replaceChildren(...activities.map(row));
  show(byId("no-sales"), activities.length === 0);
}

function row(activity) {
  const { id, title, state } = activity;
  const act = ([verb, label]) =>
    el("button", { type: "button", class: "button", testid: `${verb}-${id}`, onclick: (event) => void change(event.target, id, verb) }, label);
  return el(
    "tr",
    { testid: `row-${id}`, class: id === chosen ? "is-chosen" : null },
    el("td", {}, title, el("span", { class: "id" }, id)),
    el("td", {}, el("span", { class: "chip", "data-state": state, testid: `state-${id}` }, state)),
    el("td", { "data-label": "Starts" }, moment(activity.starts_at)),
    el("td", { "data-label": "Ends" }, moment(activity.ends_at)),
    el(
      "td",
      { class: "row-actions" },
      VERBS[state]?.map(act),
      el("button", { type: "button", class: "button", testid: `edit-${id}`, onclick: (event) => void load(event.target, id) }, "Edit"),
      state === "draft"
        ? null
        : el("button", { type: "button", class: "button", testid: `live-${id}`, onclick: () => look(activity) }, "Live"),
    ),
  );
}

async function change(button, id, verb) {
  if (verb === "close" && !(await ask(`Close the sale ${id} for good?`, "Close the sale", "Leave it"))) return;
  await doing(button, () => send("POST", sale(id, `/${verb}`), {}), `The sale ${id} is ${DONE[verb]}.`);
  await list().catch((error) => notice(explain(error), "bad"));
}

async function load(button, id) {
  const spec = await doing(button, () => send("GET", sale(id)));
  if (spec) edit(spec);
}

function look(activity) {
  chosen = activity.id;
  for (const line of byId("sales").children) {
    line.classList.toggle("is-chosen", line.dataset.testid === `row-${chosen}`);
  }
  live.show(activity);
}
