// The forms for bans and strikes, and the list of bans. Enter submits a form: it bans, or shows strikes. Lifting and
// clearing need a click.

import { byId, confirmDialog, el, setText } from "../shared/dom.js";
import { exactMoment } from "../shared/format.js";
import { pagedList } from "./paged-list.js";
import { runAction, send } from "./requests.js";

/** Loads the first page of the bans that operators have set. */
export const load = pagedList("bans", {
  path: "/bans",
  pageSize: 50,
  row,
  title: "bans",
});

function row({ kind, name, until, reason }) {
  return el(
    "tr",
    { testid: "ban" },
    el("td", {}, el("span", { class: "exact" }, name), el("span", { class: "id" }, kind === "user" ? "User" : "Address")),
    el("td", {}, reason),
    el("td", { "data-label": "Until" }, exactMoment(until)),
    el("td", { class: "row-actions" },
      el("button", { type: "button", class: "button", onclick: ({ target }) => void lift(target, { kind, name }) }, "Lift")),
  );
}

const banPath = ({ kind, name }) => `/bans/${kind}/${encodeURIComponent(name)}`;

async function lift(button, ban) {
  await runAction(button, () => send("DELETE", banPath(ban)), `${ban.name} may take part again.`);
  await load();
}

byId("ban").addEventListener("submit", async (event) => {
  event.preventDefault();
  const ban = banned();
  if (ban.name !== ban.name.trim() && !(await confirmDialog(`Ban “${ban.name}”, with the white space?`, "Ban", "Correct it"))) return;
  const [minutes, reason] = [byId("ban-minutes").value, byId("ban-reason").value];
  const body = { seconds: Number(minutes) * 60, reason };
  await runAction(event.submitter, () => send("PUT", banPath(ban), body), `${ban.name} is banned for ${minutes} minutes.`);
  await load();
});

byId("ban-lift").addEventListener("click", ({ target }) => {
  if (byId("ban-name").reportValidity()) void lift(target, banned());
});

/** Whom the form of bans names. White space is part of a user's name. */
function banned() {
  const [kind, name] = [byId("ban-kind").value, byId("ban-name").value];
  return { kind, name: kind === "user" ? name : name.trim() };
}

byId("strikes").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { user, path } = strikes();
  const found = await runAction(event.submitter, () => send("GET", path));
  if (found) setText(byId("strikes-result"), describe(user, found));
});

byId("strikes-clear").addEventListener("click", async ({ target }) => {
  if (!byId("strikes-user").reportValidity()) return;
  const { user, path } = strikes();
  if (!(await confirmDialog(`Clear the strikes of ${user}?`, "Clear", "Keep them"))) return;
  await runAction(target, () => send("DELETE", path), `${user} has no strikes any more.`);
  setText(byId("strikes-result"), "");
});

function strikes() {
  const user = byId("strikes-user").value;
  return { user, path: `/strikes/${encodeURIComponent(user)}` };
}

const describe = (user, { count, limit, last_at: last }) =>
  `${user}: ${count} of ${limit} strikes${last ? `, the last ${exactMoment(last)}` : ""}`;
